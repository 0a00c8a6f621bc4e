//! The answer to a web page: the verdict, the growth of the evidence, and the mark of each token.

use std::borrow::Cow;

use serde::Serialize;
use verdigris_logits::TokenId;
use verdigris_watermark::{Evidence, Mark};

use crate::judge::Judgement;
use crate::reader::Reader;
use crate::verdict::{Verdict, log10};

/// The format name and version of the fields, the same as in `verdigris detect --json`.
pub const FORMAT: &str = "verdigris-detect-1";

/// The most tokens whose marks are listed.
pub const MOST_TOKENS: u64 = 50_000;

/// The number of points in a course that a page shows.
pub const POINTS: usize = 400;

/// The input that was examined.
#[derive(Clone, Copy, Debug)]
pub enum JudgedInput<'a> {
    /// A text.
    Text(&'a str),
    /// A text given as tokens.
    Tokens(&'a [TokenId]),
}

/// A verdict with optional further fields, some under the names of vLLM's detector. `docs/json.md` describes each
/// field.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    format: &'static str,
    #[serde(flatten)]
    verdict: Verdict<'a>,
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
    /// Creates the answer of a judgement, without course and token marks.
    pub fn new(judgement: &'a Judgement<'_>, hint: Option<String>) -> Self {
        let verdict = judgement.verdict().with_hint(hint);
        Self {
            format: FORMAT,
            colours: verdict.colours,
            course: None,
            token_marks: None,
            p_value: verdict.p,
            num_scored_tokens: verdict.scored,
            is_watermarked: verdict.marked,
            verdict,
        }
    }

    /// Adds the course of the evidence, which the [`Look`](crate::Look) must have requested.
    #[must_use]
    pub fn with_course(self, judgement: &Judgement<'_>) -> Self {
        Self { course: Some(judgement.course.iter().map(Point::of).collect()), ..self }
    }

    /// Adds the mark of each token, which the [`Look`](crate::Look) must have requested.
    #[must_use]
    pub fn with_tokens(self, reader: &Reader, judgement: &Judgement<'_>, judged: JudgedInput<'a>) -> Self {
        Self { token_marks: Some(token_marks(reader, judgement, judged)), ..self }
    }
}

/// The evidence of a prefix of the text.
#[derive(Debug, Serialize)]
struct Point {
    tokens: u64,
    scored: u64,
    z: f64,
    log10_p: f64,
}

impl Point {
    fn of(evidence: &Evidence) -> Self {
        let log10_p = log10(evidence.ln_p_corrected());
        Self { tokens: evidence.tokens, scored: evidence.scored, z: evidence.z, log10_p }
    }
}

/// The mark of a token.
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

fn token_marks<'a>(reader: &Reader, judgement: &Judgement<'_>, judged: JudgedInput<'a>) -> Vec<TokenMark<'a>> {
    let whole: Vec<u8> = match judged {
        JudgedInput::Text(_) => Vec::new(),
        JudgedInput::Tokens(tokens) => {
            let vocabulary = reader.tokenizer().vocabulary();
            tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect()
        }
    };
    let marks = judgement.tokens.iter().map(|(range, mark)| {
        let text = match judged {
            JudgedInput::Text(text) => text.get(range.clone()).unwrap_or_default().into(),
            JudgedInput::Tokens(_) => {
                String::from_utf8_lossy(whole.get(range.clone()).unwrap_or_default()).into_owned().into()
            }
        };
        let (mark, seen) = match *mark {
            Mark::Unscored => ("unscored", None),
            Mark::Forced => ("forced", None),
            Mark::Repeated { green, score } => ("repeated", Some((green, score))),
            Mark::Counted { green, score } => ("counted", Some((green, score))),
        };
        let (green, score) = seen.unzip();
        TokenMark { start: range.start, end: range.end, text, mark, green, score }
    });
    marks.collect()
}
