//! Formats results.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{Ansi256Color, AnsiColor, Color, Style};
use serde::Serialize;
pub(crate) use verdigris::detector::p_value;
use verdigris::watermark::normalize::Repair;
use verdigris::{Evidence, Mark};

use crate::error::Failure;
use crate::terminal::{self, style};

/// Blue and orange, which everyone can tell apart, on dark and on light backgrounds.
const FAVOURED: Style = Style::new().fg_color(Some(Color::Ansi256(Ansi256Color(33)))).bold();
const OTHER: Style = Style::new().fg_color(Some(Color::Ansi256(Ansi256Color(166))));

/// The style of a token: blue and bold if the key favours it, else orange; faint if it was counted before, plain and
/// faint if it is not scored.
pub(crate) fn mark_style(mark: Mark) -> Style {
    match mark {
        Mark::Counted { green: true, .. } => FAVOURED,
        Mark::Counted { green: false, .. } => OTHER,
        Mark::Repeated { green: true, .. } => FAVOURED.effects(anstyle::Effects::DIMMED),
        Mark::Repeated { green: false, .. } => OTHER.dimmed(),
        Mark::Unscored | Mark::Forced => Style::new().dimmed(),
    }
}

/// The style of a verdict.
pub(crate) fn verdict_style(marked: bool) -> Style {
    if marked { style(AnsiColor::Green).bold() } else { Style::new().bold() }
}

/// `12 of 40 green (10.0 by chance)`, or a sum of scores.
pub(crate) fn score(evidence: &Evidence) -> String {
    let Evidence { score, scored, expected, .. } = evidence;
    if evidence.colours {
        format!("{score} of {scored} green ({expected:.1} by chance)")
    } else {
        format!("{score:.1} ({expected:.1} by chance)")
    }
}

/// `3 invisible, 1 homoglyph`.
pub(crate) fn repairs(repairs: &[(Repair, usize)]) -> String {
    let name = |repair: &Repair| match repair {
        Repair::Invisible => "invisible characters",
        Repair::Homoglyph => "look-alike letters",
        Repair::Decorative => "decorative letters",
        Repair::Space => "odd spaces",
        Repair::Composition => "decomposed letters",
        Repair::LineEnd => "carriage returns",
        Repair::WhiteSpace => "runs of white space",
        Repair::WrappedLine => "wrapped lines",
        Repair::LetterCase => "words in sentence case",
    };
    let parts: Vec<String> = repairs.iter().map(|(repair, count)| format!("{count} {}", name(repair))).collect();
    parts.join(", ")
}

/// The chance that another payload was written. It is computed as a difference to 1, so the smallest are not known.
pub(crate) fn doubt(doubt: f64) -> String {
    if doubt < 1e-12 { "less than 1e-12".into() } else { format!("{doubt:.1e}") }
}

/// Prints a text in the colours of its tokens, or with those that count for the key in brackets. Tokens that share a
/// character are shown with the first of them; control characters in the text are escaped.
pub(crate) fn marked(
    out: &mut impl Write,
    text: &str,
    tokens: &[(Range<usize>, Mark)],
    colours: bool,
) -> std::io::Result<()> {
    let mut out = Shown { out, colours, open: false };
    let mut shown = 0;
    for (range, mark) in tokens {
        let start = range.start.max(shown);
        if text.get(start..range.end).is_some_and(|piece| !piece.is_empty()) {
            out.piece(text, shown..start, None)?;
            out.piece(text, start..range.end, Some(*mark))?;
            shown = range.end;
        }
    }
    out.piece(text, shown..text.len(), None)?;
    out.close()
}

/// The output of [`marked`].
struct Shown<W> {
    out: W,
    colours: bool,
    /// Whether a bracket is open.
    open: bool,
}

impl<W: Write> Shown<W> {
    fn piece(&mut self, text: &str, range: Range<usize>, mark: Option<Mark>) -> std::io::Result<()> {
        let Some(piece) = text.get(range.clone()).filter(|piece| !piece.is_empty()) else { return Ok(()) };
        // A carriage return before a line end does nothing.
        let piece = match piece.strip_suffix('\r').filter(|_| text[range.end..].starts_with('\n')) {
            Some(piece) => piece.to_owned(),
            None => piece.replace("\r\n", "\n"),
        };
        let piece = terminal::shown(&piece);
        if self.colours {
            let style = mark.map(mark_style).unwrap_or_default();
            return write!(self.out, "{style}{piece}{style:#}");
        }
        let favoured = matches!(mark, Some(Mark::Counted { green: true, .. }));
        if !favoured {
            self.close()?;
        }
        // Brackets enclose visible characters.
        let (space, rest) = piece.split_at(piece.len() - piece.trim_start().len());
        let (word, end) = rest.split_at(rest.trim_end().len());
        if space.contains('\n') {
            self.close()?;
        }
        write!(self.out, "{space}")?;
        if favoured && !self.open && !word.is_empty() {
            write!(self.out, "[")?;
            self.open = true;
        }
        write!(self.out, "{word}")?;
        if end.contains('\n') {
            self.close()?;
        }
        write!(self.out, "{end}")
    }

    fn close(&mut self) -> std::io::Result<()> {
        if std::mem::take(&mut self.open) { write!(self.out, "]") } else { Ok(()) }
    }
}

/// Serializes a path, with replacements for bytes that are not UTF-8, which JSON cannot hold.
pub(crate) fn lossy<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Prints one JSON object, and returns the status of success.
pub(crate) fn print_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    writeln!(std::io::stdout(), "{}", serde_json::to_string(value).expect("the value serialises"))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the line of `--json` for a text that could not be judged, and returns its status.
pub(crate) fn json_error(format: &str, name: &str, failure: &Failure) -> Result<ExitCode, Failure> {
    let json = serde_json::json!({"format": format, "name": name, "verdict": "error", "error": failure.to_string()});
    print_json(&json)?;
    Ok(ExitCode::from(2))
}

/// Decodes the bytes of tokens. Incomplete characters wait for more bytes.
#[derive(Default)]
pub(crate) struct Characters(Vec<u8>);

impl Characters {
    /// Takes a token's bytes; returns the text that is now whole.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.0) {
            Ok(_) => self.0.len(),
            Err(error) => error.valid_up_to(),
        };
        String::from_utf8(self.0.drain(..whole).collect()).expect("checked up to here")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_far_below_f64_are_shown() {
        assert_eq!(p_value(0.0), "1.0000");
        assert_eq!(p_value(0.25f64.ln()), "0.2500");
        assert_eq!(p_value(1e-5f64.ln()), "1.0e-5");
        assert_eq!(p_value(-23.0 * std::f64::consts::LN_10 + 2f64.ln()), "2.0e-23");
        assert_eq!(p_value(-130_818.6), "1.6e-56814");
    }

    #[test]
    fn without_colours_there_are_brackets() {
        let (yes, no) = (Mark::Counted { green: true, score: 1.0 }, Mark::Counted { green: false, score: 0.0 });
        let tokens = [(0..1, yes), (1..3, yes), (3..5, no), (5..7, yes), (8..9, no)];
        let show = |colours| {
            let mut out = Vec::new();
            marked(&mut out, "a b c d\x1be.", &tokens, colours).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(show(false), "[a b] c [d]\\x1be.");
        let mut lines = Vec::new();
        marked(&mut lines, "a.\n\nb \n", &[(0..3, yes), (3..4, yes), (4..5, yes), (5..7, yes)], false).unwrap();
        assert_eq!(String::from_utf8(lines).unwrap(), "[a.]\n\n[b] \n");
        let colours = show(true);
        assert!(colours.contains("\x1b[38;5;33ma") && colours.contains("\x1b[38;5;166m c"), "{colours:?}");
        assert!(colours.contains("\\x1b\x1b[38;5;166me"), "{colours:?}");
    }
}
