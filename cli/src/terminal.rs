//! The terminal: how wide it is, and text that cannot disturb it.

use std::borrow::Cow;

/// Says something on standard error. Where nobody can read it, that is no reason to fail.
macro_rules! say {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(anstream::stderr(), $($said)*);
    }};
}
pub(crate) use say;

/// The columns of the terminal that standard output is; without one, what `COLUMNS` says.
pub(crate) fn width() -> Option<usize> {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(columns, _)| usize::from(columns.0));
    terminal.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok()).filter(|&columns| columns > 0)
}

/// A text for a terminal: control characters, which move its cursor, change its colours or ring its bell, and those
/// that turn the direction of writing are shown as escapes. Line ends and tabs stay.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let disturbs = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(disturbs) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match disturbs(character) {
            true if character.is_ascii() => shown.push_str(&format!("\\x{:02x}", u32::from(character))),
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_disturb_a_terminal_is_shown() {
        let text = "a\u{1b}[31mred\u{7}\r\n\tb\u{9b}2J \u{202e}gnp.exe «été» \u{7f}";
        assert_eq!(shown(text), "a\\x1b[31mred\\x07\\x0d\n\tb\\u{9b}2J \\u{202e}gnp.exe «été» \\x7f");
        assert!(matches!(shown("plain\n\ttext, «été»"), Cow::Borrowed(_)));
    }
}
