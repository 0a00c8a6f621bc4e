//! Names and values of files in messages.

use std::borrow::Cow;

/// Characters of a name or a value that a message shows.
const MOST: usize = 200;

/// A name or a value from a file as a message shows it: whole, or its first 200 characters and `...`. A file decides
/// how long its names are, and a message is one line that people read.
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(shown("model.norm.weight"), "model.norm.weight");
        assert_eq!(shown(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown(&"é".repeat(100_000)), "é".repeat(200) + "...");
    }
}
