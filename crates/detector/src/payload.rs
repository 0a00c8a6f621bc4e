//! The payload of a mark: the number that the mark carries.

use serde::Serialize;
use verdigris_watermark::normalize::Repair;
use verdigris_watermark::payload::PayloadReading;
use verdigris_watermark::{Evidence, Key, Level, TooShort};

use crate::error::DetectError;
use crate::reader::Reader;
use crate::verdict::{Outcome, log10};

/// The payload that fits a text best.
#[derive(Clone, Debug)]
pub struct PayloadFinding {
    /// The payload, whether the text is marked or not.
    pub read: PayloadReading,
    /// The evidence that the text carries any payload, corrected for all payloads and all looks.
    pub evidence: Evidence,
    /// The repairs of its look; empty for the original text.
    pub repairs: Vec<(Repair, usize)>,
}

/// The verdict on the payload of a text, as data. `docs/json.md` describes each field.
#[derive(Clone, Debug, Serialize)]
pub struct PayloadVerdict {
    /// The class: marked, not marked or too short.
    pub verdict: Outcome,
    /// Whether there is a payload.
    pub marked: bool,
    /// The reason why there is no verdict, if the text is too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The repairs of the best look, each with the number of times it was made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<(Repair, usize)>,
    /// The id of the key.
    pub key_id: String,
    /// The payload; `None` if no mark was found.
    pub payload: Option<u32>,
    /// The payload that fits best, whether there is a mark or not; `None` if nothing was counted.
    pub best: Option<u32>,
    /// The number of tokens that were counted.
    pub scored: u64,
    /// The number of them that are green under the best payload.
    pub green: u64,
    /// The logarithm to base 10 of the p-value for any payload.
    pub log10_p: f64,
    /// The probability that another payload was written, given that there is one.
    pub doubt: f64,
    /// The p-value at which a payload is reported.
    pub level: f64,
    /// The natural logarithm of the p-value.
    #[serde(skip)]
    pub ln_p: f64,
    /// The expected number of green tokens of unmarked text.
    #[serde(skip)]
    pub expected: f64,
    /// The reason why there is no verdict, if the text is too short, as an error.
    #[serde(skip)]
    pub short: Option<TooShort>,
}

impl PayloadFinding {
    /// Returns the verdict at a level.
    pub fn verdict(self, key: &Key, level: Level) -> PayloadVerdict {
        let Self { read, evidence, repairs } = self;
        let (ln_p, marked) = (evidence.ln_p_corrected(), evidence.reaches(level));
        let short = evidence.is_marked(level).err().filter(|_| !marked);
        let verdict = match (marked, &short) {
            (true, _) => Outcome::Marked,
            (false, None) => Outcome::NotMarked,
            (false, Some(_)) => Outcome::TooShort,
        };
        PayloadVerdict {
            verdict,
            marked,
            error: short.map(|short| short.to_string()),
            repairs,
            key_id: key.id().to_owned(),
            payload: marked.then_some(read.payload),
            best: Some(read.payload).filter(|_| read.scored > 0),
            scored: read.scored,
            green: read.green,
            log10_p: log10(ln_p),
            doubt: read.doubt,
            level: level.value(),
            ln_p,
            expected: read.expected,
            short,
        }
    }
}

impl Reader {
    /// Reads the payload of a text in all its versions ([`Versions`](crate::Versions)), with a key that carries
    /// payloads.
    ///
    /// # Errors
    /// [`DetectError::ForeignKey`] if the key was made for another tokenizer, [`DetectError::Key`] if it carries no
    /// payload, [`DetectError::Read`] if the text cannot be tokenized, and [`DetectError::Constraint`] if no version of
    /// it obeys the reader's constraint.
    pub fn payload(&self, key: &Key, text: &str) -> Result<PayloadFinding, DetectError> {
        self.fits(key)?;
        key.payload_reader()?;
        let readings = self.tokenized_versions(text)?;
        let looks = readings.len() as f64;
        let mut best: Option<PayloadFinding> = None;
        for (tokens, repairs) in readings {
            let mut payloads = key.payload_reader()?;
            tokens.read_payload(&mut payloads);
            let evidence = payloads.evidence(tokens.len() as u64);
            if best.as_ref().is_none_or(|best| evidence.ln_p < best.evidence.ln_p) {
                let evidence = evidence.best_of(evidence.tried * looks);
                best = Some(PayloadFinding { read: payloads.read(), evidence, repairs });
            }
        }
        Ok(best.expect("at least one version obeys the constraint"))
    }
}
