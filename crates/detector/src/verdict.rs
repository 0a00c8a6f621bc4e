//! The verdict on a text as data: the fields that all front ends show.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;
use verdigris_watermark::Mark;
use verdigris_watermark::normalize::Repair;
use verdigris_watermark::real::{exp, ln};

use crate::judge::Judgement;

/// The class of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum Outcome {
    /// The text is marked.
    Marked,
    /// A passage of the text is marked, but not the text as a whole.
    MarkedInPart,
    /// The text is not marked.
    NotMarked,
    /// The text is not marked, and would not be found to be marked even with a mark: it left too little choice.
    NotEnough,
    /// The text is too short for a mark to be found, even with the highest scores.
    TooShort,
    /// The same tokens have the marks of several variants of the key: the key's holder did not write the text.
    Forged,
}

impl Outcome {
    /// The name in all output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Marked => "marked",
            Self::MarkedInPart => "marked in part",
            Self::Forged => "forged",
            Self::NotMarked => "not marked",
            Self::NotEnough => "not enough evidence",
            Self::TooShort => "too short",
        }
    }

    /// Whether there is a genuine mark.
    pub fn is_marked(self) -> bool {
        matches!(self, Self::Marked | Self::MarkedInPart)
    }
}

impl From<Outcome> for &'static str {
    fn from(outcome: Outcome) -> Self {
        outcome.name()
    }
}

impl Judgement<'_> {
    /// The class of the verdict.
    pub fn outcome(&self) -> Outcome {
        match self.evidence.is_marked(self.level) {
            _ if self.forged => Outcome::Forged,
            Ok(true) => Outcome::Marked,
            // A marked passage makes the text marked: the passage's p-value is corrected for that.
            _ if !self.passages.is_empty() => Outcome::MarkedInPart,
            Ok(false) => match self.expected {
                Some(expected) if expected.ln_p > ln(self.level.value()) => Outcome::NotEnough,
                _ => Outcome::NotMarked,
            },
            Err(_) => Outcome::TooShort,
        }
    }

    /// Returns the verdict with its figures.
    pub fn verdict(&self) -> Verdict<'_> {
        Verdict::of(self)
    }
}

/// The verdict on a text with its figures. `docs/json.md` describes each field. Unset fields are left out of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict<'a> {
    /// The class.
    pub verdict: Outcome,
    /// Whether there is a genuine mark, in the whole or in a passage.
    pub marked: bool,
    /// The reason why there is no verdict, if the text is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The least number of scored tokens that a verdict needs, if the text is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// A suggestion, if no mark was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The id of the key with the least p-value.
    pub key_id: Cow<'a, str>,
    /// The dialect of that key.
    pub dialect: &'static str,
    /// The number of tokens.
    pub tokens: u64,
    /// The number of tokens that were counted.
    pub scored: u64,
    /// The sum of their scores: the number of green tokens, if scores are colours.
    pub score: f64,
    /// Its expectation for unmarked text.
    pub expected: f64,
    /// Standard deviations of the sum above its expectation.
    pub z: f64,
    /// The p-value, corrected for all looks.
    pub p: f64,
    /// Its logarithm to base 10, exact where `p` is 0.
    pub log10_p: f64,
    /// The number of looks that the p-value is corrected for.
    pub looks: f64,
    /// The expected `z` of a marked text with the same choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_z: Option<f64>,
    /// The expected `log10_p` of a marked text with the same choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_log10_p: Option<f64>,
    /// The p-value at which a text is called marked.
    pub level: f64,
    /// The share of the eligible tokens that was counted.
    pub sampled: f64,
    /// The repairs of the best look, each with the number of times it was made.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub repairs: Cow<'a, [(Repair, usize)]>,
    /// The number of bytes left out at the beginning.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: usize,
    /// The bytes of C2PA manifests, which were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<[usize; 2]>,
    /// The marked passages; `None` if they were not searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passages: Option<Vec<PassageVerdict<'a>>>,
    /// The number of tokens for which the constraint left no choice; `None` without a known constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<usize>,
    /// The bytes of each counted token; `None` without a known constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<Vec<[usize; 2]>>,
    /// The payload of the mark, if there is one; only for keys that carry payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<u32>,
    /// The probability that the payload is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<f64>,
    /// The number of variants of the key that the text is marked with; `None` for keys with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variants: Option<usize>,
    /// Whether the key is public, so that anyone can have written the mark.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub public: bool,
    /// Whether scores are colours, each token being green or not.
    #[serde(skip)]
    pub colours: bool,
}

/// A marked passage of a text.
#[derive(Clone, Debug, Serialize)]
pub struct PassageVerdict<'a> {
    /// The id of the key that it is marked with.
    pub key_id: Cow<'a, str>,
    /// Its first byte in the original text.
    pub start: usize,
    /// The byte after its last byte.
    pub end: usize,
    /// The number of its tokens that were counted.
    pub scored: u64,
    /// Standard deviations of their sum above its expectation.
    pub z: f64,
    /// The logarithm of its p-value to base 10, corrected for all windows and looks.
    pub log10_p: f64,
    /// The repairs of its look, each with the number of times it was made.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub repairs: Cow<'a, [(Repair, usize)]>,
}

impl<'a> Verdict<'a> {
    fn of(judgement: &'a Judgement<'_>) -> Self {
        let (evidence, outcome) = (&judgement.evidence, judgement.outcome());
        let short = evidence.is_marked(judgement.level).err().filter(|_| outcome == Outcome::TooShort);
        let tokens = Some(&judgement.tokens).filter(|tokens| judgement.has_constraint && !tokens.is_empty());
        let payload = judgement.payload.filter(|_| outcome.is_marked());
        Self {
            verdict: outcome,
            marked: outcome.is_marked(),
            error: short.map(|short| short.to_string()),
            needed: short.map(|short| short.needed),
            hint: None,
            key_id: judgement.key.id().into(),
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
            level: judgement.level.value(),
            sampled: evidence.sampled,
            repairs: judgement.repairs[..].into(),
            skipped: judgement.skipped,
            manifests: judgement.manifests.iter().map(|range| [range.start, range.end]).collect(),
            passages: judgement.searched.then(|| judgement.passages.iter().map(PassageVerdict::of).collect()),
            forced: tokens.map(|tokens| forced(tokens)),
            counted: tokens.map(|tokens| counted(tokens)),
            payload: payload.map(|read| read.payload),
            doubt: payload.map(|read| read.doubt),
            variants: Some(judgement.variants).filter(|_| judgement.key.variants() > 1),
            public: judgement.key.is_public(),
            colours: evidence.colours,
        }
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Converts the verdict into one without references.
    pub fn into_owned(self) -> Verdict<'static> {
        let passages = self.passages.map(|passages| passages.into_iter().map(PassageVerdict::into_owned).collect());
        let (key_id, repairs) = (self.key_id.into_owned().into(), self.repairs.into_owned().into());
        Verdict { key_id, repairs, passages, ..self }
    }
}

impl<'a> PassageVerdict<'a> {
    fn of(passage: &'a crate::MarkedPassage<'_>) -> Self {
        Self {
            key_id: passage.key.id().into(),
            start: passage.range.start,
            end: passage.range.end,
            scored: passage.scored,
            z: passage.z,
            log10_p: log10(passage.ln_p),
            repairs: passage.repairs[..].into(),
        }
    }

    fn into_owned(self) -> PassageVerdict<'static> {
        let (key_id, repairs) = (self.key_id.into_owned().into(), self.repairs.into_owned().into());
        PassageVerdict { key_id, repairs, ..self }
    }
}

/// Formats a p-value for people, from its natural logarithm, since it may be far below the smallest `f64`.
pub fn p_value(ln_p: f64) -> String {
    let log10 = log10(ln_p);
    if log10 > -4.0 {
        return format!("{:.4}", exp(ln_p));
    }
    let mut exponent = log10.floor();
    let mut mantissa = exp((log10 - exponent) * std::f64::consts::LN_10);
    if mantissa >= 9.95 {
        (mantissa, exponent) = (1.0, exponent + 1.0);
    }
    format!("{mantissa:.1}e{exponent}")
}

/// Converts a natural logarithm to one of base 10.
pub(crate) fn log10(ln: f64) -> f64 {
    ln / std::f64::consts::LN_10
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The number of tokens for which the constraint left no choice.
fn forced(tokens: &[(Range<usize>, Mark)]) -> usize {
    tokens.iter().filter(|(_, mark)| *mark == Mark::Forced).count()
}

/// The bytes of the tokens that were counted.
fn counted(tokens: &[(Range<usize>, Mark)]) -> Vec<[usize; 2]> {
    let counted = tokens.iter().filter(|(_, mark)| matches!(mark, Mark::Counted { .. }));
    counted.map(|(range, _)| [range.start, range.end]).collect()
}
