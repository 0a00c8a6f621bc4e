//! The terminal: its width and colours, and text that cannot disturb it.

use std::borrow::Cow;
use std::io::IsTerminal;

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};

/// Prints on standard error. It is not an error if that fails.
macro_rules! say {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(anstream::stderr(), $($said)*);
    }};
}
pub(crate) use say;

/// Prints on standard error after a heading in yellow, such as `warning`.
pub(crate) fn headed(heading: &str, said: impl std::fmt::Display) {
    let yellow = style(AnsiColor::Yellow).bold();
    say!("{yellow}{heading}:{yellow:#} {said}");
}

/// The style of a colour.
pub(crate) fn style(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

/// The number of columns below which a table does not fit.
pub(crate) const NARROW: usize = 76;

/// The columns of the terminal on standard output; without one, the value of `COLUMNS`.
pub(crate) fn width() -> Option<usize> {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(columns, _)| usize::from(columns.0));
    terminal.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok()).filter(|&columns| columns > 0)
}

/// Wraps a text at spaces to lines of `width`; a longer word stays whole. Lines after the first begin with `indent`
/// spaces.
pub(crate) fn wrap(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return text.to_owned() };
    let room = width.saturating_sub(indent).max(20);
    let (mut out, mut column) = (String::with_capacity(text.len()), 0);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > room {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

/// Whether to print colours on standard output: as requested, or else if a terminal supports them and neither
/// `NO_COLOR` nor `TERM=dumb` forbids them, or if `CLICOLOR_FORCE` is set.
pub(crate) fn colours(asked: ColorChoice) -> bool {
    match asked {
        ColorChoice::Always | ColorChoice::AlwaysAnsi => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => anstream::AutoStream::choice(&std::io::stdout()) != ColorChoice::Never,
    }
}

/// Whether the log on standard error may have colours.
pub(crate) fn coloured_log() -> bool {
    std::io::stderr().is_terminal() && anstream::AutoStream::choice(&std::io::stderr()) != ColorChoice::Never
}

/// Escapes a text for a terminal: control characters, which can move the cursor, change colours or ring the bell, and
/// characters that change the direction of writing. Line ends and tabs stay.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |c| disturbs(c) && c != '\n' && c != '\t')
}

/// Like [`shown`], but on one line, for names and messages.
pub(crate) fn shown_line(text: &str) -> Cow<'_, str> {
    escaped(text, disturbs)
}

fn disturbs(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, disturbs: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&disturbs) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match disturbs(character) {
            true if character == '\n' => shown.push_str("\\n"),
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
        assert_eq!(shown_line("a\nb\u{1b}"), "a\\nb\\x1b");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three four five six", Some(24), 4), "one two three four\n    five six");
        let long = "x".repeat(40);
        assert_eq!(wrap(&format!("a {long} b"), Some(24), 2), format!("a\n  {long}\n  b"));
        assert_eq!(wrap("a  b", None, 9), "a  b");
    }
}
