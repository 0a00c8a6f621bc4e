//! Names and values from files in messages.

use std::borrow::Cow;

/// The maximum number of characters of a name or value in a message.
const MOST: usize = 200;

/// Shortens a name or a value from a file for a message: all of it, or its first 200 characters and `...`. Names in
/// files can be of any length, but a message is one line for people to read.
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
