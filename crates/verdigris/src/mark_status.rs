//! Whether a written text is marked, as a detector can verify from the delivered text.

use verdigris_watermark::{Evidence, Key, Level, TooShort};

use crate::engine::Engine;
use crate::error::Error;
use crate::request::Written;

/// Whether a detector finds a text marked. This depends on the text alone, which is tokenized again, and not on the
/// options that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkStatus {
    /// Its p-value is at or below the level.
    Watermarked,
    /// Some of its tokens are scored, but their evidence does not reach the level.
    TooWeak,
    /// None of its tokens can be scored.
    Skipped,
}

impl MarkStatus {
    /// The name in answers, metrics, logs and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Watermarked => "watermarked",
            Self::TooWeak => "too_weak",
            Self::Skipped => "skipped",
        }
    }
}

/// The result of detection in a text that was written with a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarkCheck {
    /// Whether the text is marked.
    pub status: MarkStatus,
    /// The reason that it is not marked, for answers; `None` if it is.
    pub reason: Option<&'static str>,
    /// The number of scored tokens: those about which the constraint left a choice, each context once.
    pub scored: u64,
    /// The logarithm of the p-value to base 10; 0 if nothing was scored.
    pub log10_p: f64,
    /// The level that the p-value was compared with.
    pub level: Level,
}

impl MarkCheck {
    /// Summarizes the evidence of a text at a level. If the text has a constraint, the evidence must be that of a
    /// reader that knows it; `is_forced` is [`Reader::is_forced`](verdigris_detector::Reader::is_forced).
    pub fn of(evidence: &Evidence, level: Level, is_forced: bool) -> Self {
        let (status, reason) = match evidence.is_marked(level) {
            _ if is_forced => (MarkStatus::Skipped, Some("the constraint left no choice")),
            _ if evidence.scored == 0 => (MarkStatus::Skipped, Some("the text is too short")),
            Ok(true) => (MarkStatus::Watermarked, None),
            Err(TooShort { .. }) => (MarkStatus::TooWeak, Some("the text is too short for a verdict")),
            Ok(false) => (MarkStatus::TooWeak, Some("the text is too short, or had too little choice, for a verdict")),
        };
        let log10_p = evidence.ln_p_corrected() / std::f64::consts::LN_10;
        Self { status, reason, scored: evidence.scored, log10_p, level }
    }
}

impl Engine {
    /// Runs detection with this key on a text that this engine has written. It reads the delivered text, and the
    /// control tokens in it, under its constraint, if there is one. If the text does not satisfy the constraint, since
    /// a stop string cut it, the constraint and the control tokens are ignored. A text without control tokens is judged
    /// like any other ([`Reader::judge`]): in all its readings, repaired ones included.
    ///
    /// [`Reader::judge`]: verdigris_detector::Reader::judge
    ///
    /// # Errors
    /// [`Error::Detect`] if the key is for another tokenizer.
    pub fn mark_check(&self, key: &Key, written: &Written, level: Level) -> Result<MarkCheck, Error> {
        let reader = self.reader().clone();
        let reader = match &written.constraint {
            Some(constraint) => reader.of_constraint(constraint.clone()),
            None => reader,
        };
        let evidence = reader.detect_parts(key, written.parts()).map_err(Error::Detect)?;
        Ok(MarkCheck::of(&evidence, level, reader.is_forced(key, &written.text, &evidence)))
    }
}

#[cfg(test)]
mod tests {
    use verdigris_watermark::{Mark, ScoreDistribution, weighted};

    use super::*;

    /// A text with one scored token is too short for a verdict, but is not skipped.
    #[test]
    fn one_token_is_scored() {
        let of = |tokens: usize| {
            let marks = vec![Mark::Counted { green: true, score: 1.0 }; tokens];
            let evidence =
                weighted::evidence_of_ways(&ScoreDistribution::Green { gamma: 0.25 }, &marks, &vec![64; tokens], 2.0);
            MarkCheck::of(&evidence.unwrap(), Level::DEFAULT, false)
        };
        assert_eq!(
            [of(0), of(1), of(9)].map(|check| check.status),
            [MarkStatus::Skipped, MarkStatus::TooWeak, MarkStatus::Watermarked]
        );
        assert_eq!([of(0), of(1)].map(|check| check.scored), [0, 1]);
    }
}
