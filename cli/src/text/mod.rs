//! Reads the texts that commands take: the bytes of a file or a pipe as UTF-8, or an error that says what they are.

mod decoder;
mod sniff;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub(crate) use self::decoder::Decoder;
use crate::error::Failure;

/// The longest text that is held in memory, in bytes.
const MAX_TEXT: u64 = 64 << 20;

/// The name of standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// Whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The name of a file in messages and results.
pub(crate) fn name(path: &Path) -> String {
    if is_stdin(path) { STANDARD_INPUT.into() } else { path.display().to_string() }
}

/// Opens a file, or standard input for `-`.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    Ok(Box::new(file))
}

/// Reads a whole text from a file or standard input.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let input = open(path).map_err(|source| Failure::Open { path: path.into(), source })?;
    let fault = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", name(path)));
    let mut bytes = Vec::new();
    Decoder::new(input).take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(|error| fault(&error))?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(Failure::Usage(format!("{} is longer than {} MiB", name(path), MAX_TEXT >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| fault(&error))
}
