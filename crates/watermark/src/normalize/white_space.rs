//! White space between words as written by hand: one space, and no newline before the paragraph ends.

use super::letter_case::LetterCase;
use super::{Change, Normalized, Repair};

/// The widest lines, in characters, of texts whose lines are wrapped.
const WIDTHS: std::ops::RangeInclusive<usize> = 20..=200;

/// Collapses runs of spaces and tabs between words, and joins wrapped lines. Indentation is kept. There are no changes
/// if a text has neither. `case` is its letter case, if it is not that of sentences.
pub(super) fn collapse(text: &str, case: Option<LetterCase>) -> Normalized {
    let wrapping = Wrapping::of(text, case.is_none());
    let has_runs = text.contains("  ") || text.contains('\t');
    if wrapping.is_none() && !has_runs {
        return Normalized::default();
    }
    let mut out = Normalized { text: String::with_capacity(text.len()), ..Normalized::default() };
    let mut lines = text.split_inclusive('\n').peekable();
    let mut start = 0;
    while let Some(line) = lines.next() {
        let is_joined = match (&wrapping, lines.peek()) {
            (Some(wrapping), Some(next)) => wrapping.joins(line, next),
            _ => false,
        };
        let body = if is_joined { line.trim_end() } else { line };
        let indentation = body.len() - body.trim_start_matches(is_blank).len();
        // The beginning of what is appended next, without changes.
        let mut from = 0;
        let mut before = false;
        let mut is_noted = false;
        for (at, byte) in body.bytes().enumerate().skip(indentation) {
            let blank = matches!(byte, b' ' | b'\t');
            // A run of blanks becomes one space, and is one change.
            if blank && (before || byte == b'\t') {
                out.push_unchanged(&body[from..at], start + from);
                from = at + 1;
                if !before {
                    out.push(' ', start + at);
                    is_noted = false;
                }
                if !is_noted {
                    out.changes.push(Change { repair: Repair::WhiteSpace, at: start + at });
                    is_noted = true;
                }
            } else if blank {
                is_noted = false;
            }
            before = blank;
        }
        out.push_unchanged(&body[from..], start + from);
        if is_joined {
            out.push(' ', start + body.len());
            out.changes.push(Change { repair: Repair::WrappedLine, at: start + body.len() });
        }
        start += line.len();
    }
    out.continue_at(text.len());
    out
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// The wrapping of a text's lines.
struct Wrapping {
    /// The width in characters of the widest line of several words.
    width: usize,
}

impl Wrapping {
    /// `None` if lines are not wrapped, that is, if most lines after a full line do not begin in the middle of a
    /// sentence. `has_case` is whether sentences begin with capitals.
    fn of(text: &str, has_case: bool) -> Option<Self> {
        let lines = || text.lines().map(str::trim_end);
        let width = lines().filter(|line| line.contains(is_blank)).map(|line| line.chars().count()).max()?;
        let wrapping = Self { width: Some(width).filter(|width| WIDTHS.contains(width))? };
        let (mut joined, mut begun) = (0usize, 0usize);
        for (line, next) in lines().zip(lines().skip(1)) {
            if wrapping.joins(line, next) {
                joined += 1;
                begun +=
                    usize::from(has_case && next.chars().find(|c| c.is_alphabetic()).is_some_and(char::is_uppercase));
            }
        }
        (joined > 0 && 2 * begun <= joined).then_some(wrapping)
    }

    /// Whether a line was ended because the first word of the next one did not fit. Allows for some characters of
    /// difference, since proportional letters have different widths.
    fn joins(&self, line: &str, next: &str) -> bool {
        let line = line.trim_end();
        if line.is_empty() || !is_running_text(next) {
            return false;
        }
        let word = next.split_whitespace().next().map_or(0, |word| word.chars().count());
        6 * (line.chars().count() + 1 + word) >= 5 * self.width
    }
}

/// Whether a line may be in the middle of a paragraph: it is not blank, not indented, and not part of a list, a
/// heading, a quotation, a table or code.
fn is_running_text(line: &str) -> bool {
    let Some(first) = line.chars().next() else { return false };
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_item = ["- ", "* ", "+ ", "\u{2022}"].iter().any(|mark| line.starts_with(mark))
        || first.is_ascii_digit() && after_number.starts_with(['.', ')']);
    !first.is_whitespace() && !is_item && !line.starts_with(['>', '#', '|', '`', '='])
}

#[cfg(test)]
mod tests {
    use super::super::letter_case::changed;
    use super::*;

    #[track_caller]
    fn becomes(text: &str, expected: &str, repairs: &[(Repair, usize)]) {
        let collapsed = collapse(text, changed(text));
        if repairs.is_empty() {
            assert!(collapsed.changes.is_empty(), "{collapsed:?}");
            return;
        }
        assert_eq!((&*collapsed.text, &collapsed.summary()[..]), (expected, repairs));
        for (here, c) in expected.char_indices() {
            let there = text[collapsed.origin(here)..].chars().next().unwrap();
            assert!(c == there || c == ' ' && there.is_whitespace(), "{c:?} {there:?}");
        }
        assert_eq!(collapsed.origin(expected.len()), text.len());
        assert!(collapse(expected, changed(expected)).changes.is_empty());
    }

    #[test]
    fn runs_and_tabs_become_one_space() {
        use Repair::WhiteSpace;
        becomes("a  b   c d\n", "a b c d\n", &[(WhiteSpace, 2)]);
        becomes("a\tb\t\tc \td", "a b c d", &[(WhiteSpace, 3)]);
        becomes("\tfn main() {\n\t    return  0;\n\t}\n", "\tfn main() {\n\t    return 0;\n\t}\n", &[(WhiteSpace, 1)]);
        becomes("plain text,\n\n    indented\n", "", &[]);
        becomes("", "", &[]);
    }

    #[test]
    fn wrapped_lines_are_joined() {
        let paragraph = "The captain came on deck at dawn, and the crew of the old ship stood there before him. ";
        let paragraph = paragraph.repeat(3);
        let paragraph = paragraph.trim_end();
        let wrapped = |width: usize, end: &str| {
            let (mut out, mut line) = (String::new(), 0);
            for word in paragraph.split(' ') {
                if line > 0 && line + 1 + word.len() > width {
                    out += end;
                    line = 0;
                } else if line > 0 {
                    out += " ";
                }
                out += word;
                line += word.len() + 1;
            }
            out
        };
        for (width, end) in [(40, "\n"), (72, "\n"), (40, " \n")] {
            let once = wrapped(width, end);
            let lines = once.matches('\n').count();
            assert!(lines > 2, "{once}");
            becomes(&once, paragraph, &[(Repair::WrappedLine, lines)]);
            let list = format!("# Crew\n\n{once}\n\n- {once}\n2. {once}\n");
            let joined = format!("# Crew\n\n{paragraph}\n\n- {paragraph}\n2. {paragraph}\n");
            becomes(&list, &joined, &[(Repair::WrappedLine, 3 * lines)]);
            let capitals = once.to_uppercase();
            becomes(&capitals, &paragraph.to_uppercase(), &[(Repair::WrappedLine, lines)]);
        }
    }

    #[test]
    fn lines_that_mean_something_stay() {
        for text in [
            "The sea is wide and dark tonight,\nThe wind is cold and high,\nThe captain has no lamp to light\nThe ship \
             along the sky.\n",
            "A paragraph that has a line of its own, however long it may be.\nAnother one that has a line of its \
             own.\n",
            "- one thing and another\n- one thing and another\n- one thing and another\n",
            "red\ngreen\nblue\n",
            "\u{6625}\u{590f}\u{79cb}\u{51ac}\n\u{6625}\u{590f}\u{79cb}\u{51ac}\n",
        ] {
            becomes(text, "", &[]);
        }
        let long = "word ".repeat(60);
        becomes(&format!("{}\nand more", long.trim_end()), "", &[]);
    }
}
