//! The result of trying many keys on a text, as data.

use serde::{Serialize, Serializer};
use verdigris_watermark::{Level, TooShort};

use crate::identify::Candidate;
use crate::verdict::Outcome;

/// The result of [`Reader::identify`](crate::Reader::identify): the fields of `verdigris identify --json`, which
/// `docs/json.md` describes.
#[derive(Clone, Debug, Serialize)]
pub struct Identified<'a> {
    format: &'static str,
    name: &'a str,
    #[serde(rename = "verdict")]
    outcome: Outcome,
    #[serde(rename = "error", serialize_with = "in_words", skip_serializing_if = "Option::is_none")]
    short: Option<TooShort>,
    tried: usize,
    level: f64,
    found: Option<&'a Candidate>,
    best: &'a [Candidate],
}

impl<'a> Identified<'a> {
    /// The format name and version of the fields.
    pub const FORMAT: &'static str = "verdigris-identify-1";

    /// The result for the text `name`, from all candidates, of which there is at least one, the best first. It lists
    /// the first `shown` of them, or at least one.
    pub fn new(name: &'a str, candidates: &'a [Candidate], shown: usize, level: Level) -> Self {
        let best = &candidates[0];
        let short = best.evidence.is_marked(level).err();
        let outcome = match (&short, best.marked) {
            (Some(_), _) => Outcome::TooShort,
            (None, true) if best.forged => Outcome::Forged,
            (None, true) => Outcome::Marked,
            (None, false) => Outcome::NotMarked,
        };
        Self {
            format: Self::FORMAT,
            name,
            outcome,
            short,
            tried: candidates.len(),
            level: level.value(),
            found: Some(best).filter(|best| short.is_none() && best.marked),
            best: &candidates[..shown.clamp(1, candidates.len())],
        }
    }

    /// Whether the text is marked with the best of the candidates.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The reason that a verdict is missing, if the text is too short.
    pub fn short(&self) -> Option<TooShort> {
        self.short
    }

    /// The best candidates.
    pub fn best(&self) -> &'a [Candidate] {
        self.best
    }
}

fn in_words<S: Serializer>(short: &Option<TooShort>, serializer: S) -> Result<S::Ok, S::Error> {
    short.as_ref().map(ToString::to_string).serialize(serializer)
}
