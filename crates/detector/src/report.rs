//! What a judgement comes to, as data: the fields that `verdigris detect --json` and `POST /detect` share.

use std::ops::Range;

use serde::Serialize;
use verdigris_watermark::normalize::Repair;
use verdigris_watermark::real::ln;
use verdigris_watermark::{Mark, Verdict};

use crate::judge::Judgement;

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is marked.
    Marked,
    /// A passage of it is marked, the text as a whole is not.
    MarkedInPart,
    /// It is not.
    NotMarked,
    /// It is not, and would not be if it were marked: it left too little choice.
    NotEnough,
    /// Not even the highest scores would be enough.
    TooShort,
}

impl Outcome {
    /// As people and programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Marked => "marked",
            Self::MarkedInPart => "marked in part",
            Self::NotMarked => "not marked",
            Self::NotEnough => "not enough evidence",
            Self::TooShort => "too short",
        }
    }

    /// Whether there is a mark.
    pub fn is_marked(self) -> bool {
        matches!(self, Self::Marked | Self::MarkedInPart)
    }
}

impl Judgement<'_> {
    /// What becomes of the text at a level.
    pub fn outcome(&self, level: f64) -> Outcome {
        match self.evidence.verdict(level) {
            Ok(Verdict::Marked) => Outcome::Marked,
            // A marked passage marks the text: its p-value pays for that.
            _ if !self.passages.is_empty() => Outcome::MarkedInPart,
            Ok(Verdict::NotMarked) => match self.expected {
                Some(expected) if expected.ln_p > ln(level) => Outcome::NotEnough,
                _ => Outcome::NotMarked,
            },
            Err(_) => Outcome::TooShort,
        }
    }
}

/// The fields of a judgement; `docs/json.md` says what each is. One that is not set is left out.
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    key_id: &'a str,
    dialect: &'static str,
    tokens: u64,
    scored: u64,
    score: f64,
    expected: f64,
    z: f64,
    p: f64,
    log10_p: f64,
    looks: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_z: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_log10_p: Option<f64>,
    level: f64,
    sampled: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    manifests: Vec<[usize; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passages: Option<Vec<Passage<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forced: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<Vec<[usize; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
struct Passage<'a> {
    key_id: &'a str,
    start: usize,
    end: usize,
    scored: u64,
    z: f64,
    log10_p: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
}

impl<'a> Report<'a> {
    /// What a judgement comes to at a level.
    pub fn new(judgement: &'a Judgement<'_>, level: f64) -> Self {
        let evidence = &judgement.evidence;
        Self {
            key_id: judgement.key.id(),
            dialect: judgement.key.dialect().name(),
            tokens: evidence.tokens,
            scored: evidence.scored,
            score: evidence.score,
            expected: evidence.expected,
            z: evidence.z,
            p: evidence.p(),
            log10_p: log10(evidence.ln_p_corrected()),
            looks: evidence.tried,
            expected_z: judgement.expected.map(|expected| expected.z),
            expected_log10_p: judgement.expected.map(|expected| log10(expected.ln_p)),
            level,
            sampled: evidence.sampled,
            repairs: &judgement.repairs,
            skipped: Some(judgement.skipped).filter(|&skipped| skipped > 0),
            manifests: judgement.manifests.iter().map(|range| [range.start, range.end]).collect(),
            passages: None,
            forced: None,
            counted: None,
            payload: judgement.payload.map(|read| read.payload),
        }
    }

    /// With the marked passages: where they were looked for.
    #[must_use]
    pub fn with_passages(self, judgement: &'a Judgement<'_>) -> Self {
        let passages = judgement.passages.iter().map(|passage| Passage {
            key_id: passage.key.id(),
            start: passage.range.start,
            end: passage.range.end,
            scored: passage.scored,
            z: passage.z,
            log10_p: log10(passage.ln_p),
            repairs: &passage.repairs,
        });
        Self { passages: Some(passages.collect()), ..self }
    }

    /// With what the form of the text left to choose: where it was known. Without the tokens of the judgement there is
    /// nothing to tell.
    #[must_use]
    pub fn with_form(self, judgement: &Judgement<'_>) -> Self {
        let tokens = &judgement.tokens;
        if tokens.is_empty() {
            return self;
        }
        Self { forced: Some(forced(tokens)), counted: Some(counted(tokens)), ..self }
    }
}

fn log10(ln: f64) -> f64 {
    ln / std::f64::consts::LN_10
}

/// How many tokens the form left no choice about.
fn forced(tokens: &[(Range<usize>, Mark)]) -> usize {
    tokens.iter().filter(|(_, mark)| *mark == Mark::Forced).count()
}

/// The bytes of the tokens that were counted.
fn counted(tokens: &[(Range<usize>, Mark)]) -> Vec<[usize; 2]> {
    let counted = tokens.iter().filter(|(_, mark)| matches!(mark, Mark::Counted { .. }));
    counted.map(|(range, _)| [range.start, range.end]).collect()
}
