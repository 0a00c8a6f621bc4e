//! A text too long to be held: read once, in bounded memory, as a whole.

use std::io::Read;

use verdigris::{DetectError, Judgement, Key, Reader};

use super::options::Detect;
use crate::error::Failure;

/// Judges such a text; the error does not name it.
pub(super) fn judge<'k>(
    options: &Detect,
    reader: &Reader,
    keys: &'k [Key],
    text: Box<dyn Read + Send>,
) -> Result<Judgement<'k>, Failure> {
    let [key] = keys else {
        return Err(Failure::Usage("it is longer than 16 MiB: such a text is judged under one key at a time".into()));
    };
    if options.windows || options.html.is_some() || options.offsets > 1 {
        let message = "it is longer than 16 MiB: --windows, --offsets and --html need a shorter text";
        return Err(Failure::Usage(message.into()));
    }
    if reader.form().is_some() {
        let message = "it is longer than 16 MiB: the form of such a text cannot be taken into account";
        return Err(Failure::Usage(message.into()));
    }
    let evidence = reader.detect_repeats(key, text, options.repeats.into()).map_err(|error| match error {
        // What the decoder says of its text.
        DetectError::Read(error) => Failure::Usage(error.to_string()),
        error => error.into(),
    })?;
    Ok(Judgement::of(key, evidence))
}
