//! Texts that commands take whole.

use std::io::Read;
use std::path::Path;

use crate::error::Failure;

/// No text that is held in memory is longer.
const MAX_TEXT: u64 = 64 << 20;

/// A text file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let open = |source| Failure::Open { path: path.into(), source };
    let input: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin().lock()),
        _ => Box::new(std::fs::File::open(path).map_err(open)?),
    };
    let mut bytes = Vec::new();
    input.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(open)?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(Failure::Usage(format!("{} is longer than {} MiB", path.display(), MAX_TEXT >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let source = verdigris::text::ReadError::from(error.utf8_error()).into();
        Failure::Text { name: path.display().to_string(), source }
    })
}
