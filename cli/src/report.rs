//! How results look.

use anstyle::{AnsiColor, Style};
use verdigris::{Evidence, Mark, Verdict};

pub(crate) fn style(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

/// The style of a token: green, red, faint where it was counted before, plain where it cannot be scored.
pub(crate) fn mark_style(mark: Mark) -> Style {
    match mark {
        Mark::Counted { green: true, .. } => style(AnsiColor::Green),
        Mark::Counted { green: false, .. } => style(AnsiColor::Red),
        Mark::Repeated { green: true, .. } => style(AnsiColor::Green).dimmed(),
        Mark::Repeated { green: false, .. } => style(AnsiColor::Red).dimmed(),
        Mark::Unscored => Style::new().dimmed(),
    }
}

/// A p-value from its logarithm, which may be far below what an `f64` holds.
pub(crate) fn p_value(ln_p: f64) -> String {
    let log10 = ln_p / std::f64::consts::LN_10;
    if log10 > -4.0 {
        let p = format!("{:.4}", ln_p.exp());
        return p;
    }
    let mut exponent = log10.floor();
    let mut mantissa = 10f64.powf(log10 - exponent);
    if mantissa >= 9.95 {
        (mantissa, exponent) = (1.0, exponent + 1.0);
    }
    format!("{mantissa:.1}e{exponent}")
}

/// What the evidence says, as a phrase.
pub(crate) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Marked => "marked",
        Verdict::NotMarked => "not marked",
    }
}

pub(crate) fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Marked => style(AnsiColor::Green).bold(),
        Verdict::NotMarked => Style::new().bold(),
    }
}

/// `12 of 40 green (10.0 by chance)`, or a sum of scores.
pub(crate) fn score(evidence: &Evidence) -> String {
    let Evidence { score, scored, expected, .. } = evidence;
    if evidence.colours && score.fract() == 0.0 {
        format!("{score} of {scored} green ({expected:.1} by chance)")
    } else {
        format!("{score:.1} ({expected:.1} by chance)")
    }
}

/// Prints a text in the colours of its tokens. Tokens that share a character are shown with the first of them.
pub(crate) fn colored(
    out: &mut impl std::io::Write,
    text: &str,
    tokens: &[(std::ops::Range<usize>, Mark)],
) -> std::io::Result<()> {
    let mut shown = 0;
    for (range, mark) in tokens {
        let start = range.start.max(shown);
        if let Some(piece) = text.get(start..range.end).filter(|piece| !piece.is_empty()) {
            let style = mark_style(*mark);
            write!(out, "{}{style}{piece}{style:#}", text.get(shown..start).unwrap_or_default())?;
            shown = range.end;
        }
    }
    write!(out, "{}", text.get(shown..).unwrap_or_default())
}

/// Bytes of tokens as text, as far as they make characters; the rest waits for more.
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
}
