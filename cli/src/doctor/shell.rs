//! Quotes words of a command, so that it can be pasted.

use std::path::Path;

/// Quotes a path as one word for a shell.
pub(super) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=~".contains(c);
    match !path.is_empty() && path.chars().all(plain) && !path.starts_with(['-', '~']) {
        true => path,
        // A path that begins with a dash would be an option.
        false if path.starts_with('-') => format!("'./{}'", path.replace('\'', r"'\''")),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words() {
        let is = |path: &str, word: &str| assert_eq!(quoted(Path::new(path)), word);
        is("keys/a-1.key", "keys/a-1.key");
        is("it's $1.key", r"'it'\''s $1.key'");
        is("-f.key", "'./-f.key'");
        is("~.key", "'~.key'");
    }
}
