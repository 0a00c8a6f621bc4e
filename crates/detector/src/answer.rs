//! What a page is told of a text: the report, how the evidence grew, and what the key sees in each token.

use std::borrow::Cow;

use serde::Serialize;
use verdigris_logits::TokenId;
use verdigris_watermark::{Evidence, Mark};

use crate::judge::{Judgement, Look};
use crate::reader::Reader;
use crate::report::{Outcome, Report};

/// The version of the fields, those of `verdigris detect --json`.
pub const FORMAT: &str = "verdigris-detect-1";

/// The most tokens that are told of one by one.
pub const MOST_TOKENS: u64 = 50_000;

/// The most points of a course.
const POINTS: usize = 400;

/// What was looked at.
#[derive(Clone, Copy, Debug)]
pub enum Judged<'a> {
    /// A text.
    Text(&'a str),
    /// A text that is known by its tokens.
    Tokens(&'a [TokenId]),
}

/// How a text is looked at, and what is told of it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The p-value at which a text is called marked.
    pub level: f64,
    /// Whether marked passages are looked for, too.
    pub windows: bool,
    /// Whether each token is told of.
    pub tokens: bool,
    /// Whether it is told how the evidence grew.
    pub course: bool,
}

impl Asked {
    /// The look that finds it out, at a text whose form is known or not.
    pub fn look(&self, form_is_known: bool) -> Look {
        Look {
            tokens: self.tokens || form_is_known,
            course: if self.course { POINTS } else { 0 },
            passages: self.windows.then_some(self.level),
            ..Look::default()
        }
    }
}

/// What is said of a text, as data: the fields of `verdigris detect --json`, more where they are asked for, and the
/// names of vLLM's detector. `docs/json.md` says what each is.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    format: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(flatten)]
    report: Report<'a>,
    colours: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    course: Option<Vec<Point>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_marks: Option<Vec<TokenMark<'a>>>,
    p_value: f64,
    num_scored_tokens: u64,
    is_watermarked: bool,
}

impl<'a> Answer<'a> {
    /// What a judgement says that a reader came to by [`Asked::look`].
    pub fn new(reader: &Reader, judgement: &'a Judgement<'_>, judged: Judged<'a>, asked: &Asked) -> Self {
        let outcome = judgement.outcome(asked.level);
        let mut report = Report::new(judgement, asked.level);
        if asked.windows {
            report = report.with_passages(judgement);
        }
        if reader.form().is_some() {
            report = report.with_form(judgement);
        }
        let short = judgement.evidence.verdict(asked.level).err().filter(|_| outcome == Outcome::TooShort);
        Self {
            format: FORMAT,
            verdict: outcome.name(),
            error: short.map(|short| short.to_string()),
            needed: short.map(|short| short.needed),
            hint: None,
            report,
            colours: judgement.evidence.colours,
            course: asked.course.then(|| judgement.course.iter().map(Point::of).collect()),
            token_marks: asked.tokens.then(|| token_marks(reader, judgement, judged)),
            p_value: judgement.evidence.p(),
            num_scored_tokens: judgement.evidence.scored,
            is_watermarked: outcome.is_marked(),
        }
    }

    /// With what else to try.
    #[must_use]
    pub fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }
}

/// The evidence of a beginning of the text.
#[derive(Debug, Serialize)]
struct Point {
    tokens: u64,
    scored: u64,
    z: f64,
    log10_p: f64,
}

impl Point {
    fn of(evidence: &Evidence) -> Self {
        let log10_p = evidence.ln_p_corrected() / std::f64::consts::LN_10;
        Self { tokens: evidence.tokens, scored: evidence.scored, z: evidence.z, log10_p }
    }
}

/// What the key sees in a token.
#[derive(Debug, Serialize)]
struct TokenMark<'a> {
    start: usize,
    end: usize,
    text: Cow<'a, str>,
    mark: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    green: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
}

fn token_marks<'a>(reader: &Reader, judgement: &Judgement<'_>, judged: Judged<'a>) -> Vec<TokenMark<'a>> {
    let whole: Vec<u8> = match judged {
        Judged::Text(_) => Vec::new(),
        Judged::Tokens(tokens) => {
            let vocabulary = reader.tokenizer().vocabulary();
            tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect()
        }
    };
    let marks = judgement.tokens.iter().map(|(range, mark)| {
        let text = match judged {
            Judged::Text(text) => text.get(range.clone()).unwrap_or_default().into(),
            Judged::Tokens(_) => {
                String::from_utf8_lossy(whole.get(range.clone()).unwrap_or_default()).into_owned().into()
            }
        };
        let (mark, told) = match *mark {
            Mark::Unscored => ("unscored", None),
            Mark::Forced => ("forced", None),
            Mark::Repeated { green, score } => ("repeated", Some((green, score))),
            Mark::Counted { green, score } => ("counted", Some((green, score))),
        };
        let (green, score) = told.unzip();
        TokenMark { start: range.start, end: range.end, text, mark, green, score }
    });
    marks.collect()
}
