//! The HTML report: the texts in colours, a plot of the evidence, and a verdict in words.

use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use sha2::{Digest, Sha256};
use verdigris::{Judgement, Level, Mark, MarkedPassage, Outcome};

use super::judged_text::JudgedText;
use super::words;
use crate::report;
use crate::terminal::{self, shown_line};

/// The most texts that a report shows.
pub(super) const MOST: usize = 200;

/// The most characters of a text that are shown in colours.
const LONGEST: usize = 400_000;

/// Points of a plot.
pub(super) const POINTS: usize = 400;

#[derive(Serialize)]
struct Page {
    version: &'static str,
    date: String,
    level: String,
    texts: Vec<ReportText>,
}

#[derive(Default, Serialize)]
struct ReportText {
    name: String,
    /// The CSS class of the verdict.
    class: &'static str,
    verdict: String,
    words: String,
    facts: Vec<(&'static str, String)>,
    spans: Vec<Span>,
    cut: bool,
    plot: Option<Plot>,
    passages: Vec<String>,
}

#[derive(Serialize)]
struct Span {
    class: &'static str,
    text: String,
    title: String,
    passage: bool,
}

/// A curve in a box of [`WIDTH`] by [`HEIGHT`].
#[derive(Serialize)]
struct Plot {
    path: String,
    /// The labels of the z axis, with their heights; the line at 0 is stronger.
    heights: Vec<(String, f64)>,
    /// The labels of the token axis, with their positions.
    places: Vec<(String, f64)>,
    shades: Vec<(f64, f64)>,
}

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 200.0;

/// The report as one HTML file.
pub(super) fn report(judged: &[JudgedText<'_>], level: Level) -> String {
    let texts = judged.iter().map(text).collect();
    let date = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string();
    let page = Page { version: env!("CARGO_PKG_VERSION"), date, level: level.to_string(), texts };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let template = environment.template_from_str(include_str!("report.html")).expect("the template is tested");
    template.render(minijinja::value::Serde(&page)).expect("the template is tested")
}

fn text(judged: &JudgedText<'_>) -> ReportText {
    let outcome = judged.outcome();
    let mut out = ReportText {
        name: shown_line(&judged.name).into_owned(),
        class: match outcome {
            Some(Outcome::Marked | Outcome::MarkedInPart) => "yes",
            None => "error",
            _ => "",
        },
        verdict: capital(words::outcome(outcome)),
        ..ReportText::default()
    };
    match &judged.result {
        Err(fault) => {
            let fault = fault.to_string();
            out.words = format!("This text could not be judged: {}.", shown_line(&fault));
        }
        Ok(judgement) => {
            out.words = sentence(judgement);
            out.facts = facts(&judged.text, judgement);
            (out.spans, out.cut) = spans(&judged.text, judgement);
            out.plot = plot(judgement);
            out.passages = judgement.passages.iter().map(|passage| quoted(&judged.text, passage)).collect();
        }
    }
    out
}

/// Explains the evidence in words that claim no more than it shows.
fn sentence(judgement: &Judgement<'_>) -> String {
    let (evidence, key, level) = (&judgement.evidence, judgement.key.id(), judgement.level);
    let p = p_value(evidence.ln_p_corrected());
    let odds = odds(evidence.ln_p_corrected());
    let who = match judgement.key.is_public() {
        true => "The key is public: anyone can have written the mark.",
        false => "Anyone with the key can write such text, so this does not show who did.",
    };
    match judgement.outcome() {
        Outcome::Marked => format!(
            "This text carries the mark of the key {key}. A text written without that key would look as marked as this \
             one with a probability of at most {p}: {odds}. {who}"
        ),
        Outcome::MarkedInPart => {
            let ids = words::keys_of_passages(judgement);
            let keys = if let [id] = ids[..] { format!("key {id}") } else { format!("keys {}", ids.join(", ")) };
            let (which, whoever) = if ids.len() == 1 { ("that key", "the key") } else { ("these keys", "a key") };
            format!(
                "Parts of this text carry the mark of the {keys}: the passages listed below. In a text written without \
                 {which} any such passage would be found with a probability of at most {level}. Anyone with \
                 {whoever} can write such text, so this does not show who did."
            )
        }
        Outcome::Forged => format!(
            "This text was forged: the same words carry the marks of {} variants of the key {key}, and its holder uses \
             one for each text. Its author has learned the marks from other texts.",
            judgement.variants
        ),
        Outcome::TooShort => {
            "This text is too short to judge: even a fully marked one of its length could not be told from chance."
                .into()
        }
        Outcome::NotEnough => format!(
            "No mark of the key {key} was found, and none could be: the text left its writer so little choice that a \
             mark in it could not be told from chance."
        ),
        Outcome::NotMarked => format!(
            "No mark of the key {key} was found: texts without it look as marked as this one with a probability of \
             at most {p}. This does not prove that no machine wrote it. Texts that were heavily edited or paraphrased, \
             or left little choice to the writer, can lose their mark."
        ),
    }
}

/// Capitalizes the first letter of a phrase.
fn capital(phrase: &str) -> String {
    let mut characters = phrase.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

fn odds(ln_p: f64) -> String {
    let digits = -ln_p / std::f64::consts::LN_10;
    if digits < 6.0 {
        format!("about one in {:.0}", (-ln_p).exp())
    } else {
        format!("less than 1 in 10{}", raised(digits.floor() as u32))
    }
}

/// Formats a p-value with a power of ten.
fn p_value(ln_p: f64) -> String {
    let p = report::p_value(ln_p);
    match p.split_once("e-") {
        Some((mantissa, exponent)) => format!("{mantissa} × 10⁻{}", raised(exponent.parse().unwrap_or(0))),
        None => p,
    }
}

/// Describes a marked passage, with its first words.
fn quoted(text: &str, passage: &MarkedPassage<'_>) -> String {
    const MOST: usize = 60;
    let MarkedPassage { key, range, z, ln_p, repairs, .. } = passage;
    let repaired = if repairs.is_empty() { "" } else { ", repaired" };
    let words = text.get(range.clone()).unwrap_or_default().trim();
    let mut begin: String = words.chars().take(MOST).collect();
    if begin.len() < words.len() {
        begin.push('…');
    }
    let (begin, key) = (shown_line(&begin).into_owned(), shown_line(key.id()));
    format!("“{begin}” (bytes {} to {}): z {z:.2}, p {} ({key}{repaired})", range.start, range.end, p_value(*ln_p))
}

/// A whole number in superscript digits.
fn raised(number: u32) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number.to_string().bytes().map(|digit| digits[usize::from(digit - b'0')]).collect()
}

fn facts(text: &str, judgement: &Judgement<'_>) -> Vec<(&'static str, String)> {
    let evidence = &judgement.evidence;
    let mut facts = vec![
        ("Key", judgement.key.id().to_owned()),
        ("Scheme", judgement.key.describe()),
        ("Tokens", format!("{}, of which {} counted", evidence.tokens, evidence.scored)),
        (if evidence.colours { "Green" } else { "Score" }, report::score(evidence)),
        ("p-value", p_value(evidence.ln_p_corrected())),
        ("Tests counted in the p-value", evidence.tried.to_string()),
    ];
    if evidence.z.is_finite() {
        facts.insert(4, ("z", format!("{:.2}", evidence.z)));
    }
    if !judgement.repairs.is_empty() {
        facts.push(("Repaired", report::repairs(&judgement.repairs)));
    }
    let verdict = judgement.verdict();
    if let (Some(payload), Some(doubt)) = (verdict.payload, verdict.doubt) {
        let doubt = report::doubt(doubt);
        facts.push(("Payload", format!("{payload:#x}, which is wrong with a probability of {doubt}")));
    }
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    facts.push(("Text", format!("{} bytes of UTF-8 with SHA-256 {digest}", text.len())));
    facts
}

/// The text, token by token. Tokens that share a character are shown with the first of them.
fn spans(text: &str, judgement: &Judgement<'_>) -> (Vec<Span>, bool) {
    let mut spans = Vec::new();
    let mut shown = 0;
    for (range, mark) in &judgement.tokens {
        let (start, end) = (range.start.max(shown), range.end);
        if end > LONGEST {
            return (spans, true);
        }
        if end <= start {
            continue;
        }
        let Some(piece) = text.get(start..end) else { continue };
        if start > shown {
            let between = printed(text.get(shown..start).unwrap_or_default());
            spans.push(Span { class: "u", text: between, title: String::new(), passage: false });
        }
        let (class, title) = match mark {
            Mark::Unscored => ("u", "not scored: too few tokens before it".to_owned()),
            Mark::Forced => ("u", "not scored: the constraint left no choice".to_owned()),
            Mark::Counted { green: true, score } => ("g", format!("favoured, score {score:.2}")),
            Mark::Counted { green: false, score } => ("r", format!("not favoured, score {score:.2}")),
            Mark::Repeated { green: true, .. } => ("g f", "not counted again".to_owned()),
            Mark::Repeated { green: false, .. } => ("r f", "not counted again".to_owned()),
        };
        let passage = judgement.passages.iter().any(|other| other.range.start <= start && end <= other.range.end);
        spans.push(Span { class, text: printed(piece), title, passage });
        shown = end;
    }
    (spans, false)
}

/// A piece of text without characters that HTML cannot represent.
fn printed(piece: &str) -> String {
    terminal::shown(&piece.replace('\r', "")).into_owned()
}

/// The plot of z over the tokens; `None` if there are too few points.
fn plot(judgement: &Judgement<'_>) -> Option<Plot> {
    // Tokens are counted from 1, and plotted at their beginnings.
    let line: Vec<(usize, f64)> = judgement.course.iter().map(|point| (point.tokens as usize - 1, point.z)).collect();
    if line.len() < 2 || line.iter().any(|point| !point.1.is_finite()) {
        return None;
    }
    let highest = line.iter().map(|point| point.1).fold(4.0, f64::max);
    let lowest = line.iter().map(|point| point.1).fold(-2.0, f64::min);
    let tokens = judgement.tokens.len();
    let x = |token: usize| WIDTH * token as f64 / tokens as f64;
    let y = |z: f64| HEIGHT * (highest - z) / (highest - lowest);
    let path: Vec<String> = line.iter().map(|&(at, z)| format!("{:.1},{:.1}", x(at), y(z))).collect();
    let position = |byte: usize| judgement.tokens.partition_point(|(range, _)| range.start < byte);
    let shades = judgement.passages.iter().map(|passage| {
        let (from, to) = (x(position(passage.range.start)), x(position(passage.range.end)));
        (from, to - from)
    });
    let heights = ticks(lowest, highest).map(|z| (z.to_string(), y(z))).collect();
    let places = ticks(0.0, tokens as f64).map(|token| (token.to_string(), x(token as usize))).collect();
    Some(Plot { path: path.join(" "), heights, places, shades: shades.collect() })
}

/// Some four to eight round numbers in a range.
fn ticks(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let rough = (to - from) / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|unit| unit * power).into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(10.0 * power).max(1.0);
    ((from / step).ceil() as i64..=(to / step).floor() as i64).map(move |tick| tick as f64 * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        let numbers = |from, to| ticks(from, to).collect::<Vec<_>>();
        assert_eq!(numbers(-2.0, 4.0), [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(numbers(-2.3, 31.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(numbers(0.0, 1_234.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]);
        assert_eq!(numbers(0.0, 3.0), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn p_values_are_powers_of_ten() {
        let at = |log10: f64| p_value(log10 * std::f64::consts::LN_10);
        assert_eq!([at(-1.0), at(-35.3), at(-120.0)], ["0.1000", "5.0 × 10⁻³⁶", "1.0 × 10⁻¹²⁰"]);
        assert_eq!(odds(-59.4 * std::f64::consts::LN_10), "less than 1 in 10⁵⁹");
    }

    #[test]
    fn a_sentence_begins_with_a_capital() {
        assert_eq!(capital("not marked"), "Not marked");
        assert_eq!(capital(""), "");
    }
}
