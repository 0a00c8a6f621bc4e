//! A reward model, or a classifier, as a scorer.

use std::sync::{Arc, Mutex, PoisonError};

use verdigris_logits::TokenId;
use verdigris_models::{Batch, LanguageModel, ModelError, Rows, Sequence, Wanted};

use super::readings::Readings;
use super::scorer::Scorer;

/// The maximum number of tokens tried in one call: each is compared with all others there, although it does not see
/// them.
const BESIDE: usize = 64;

/// The meaning of the number that a model gives a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreKind {
    /// A reward, which is used unchanged (ARGS).
    Reward,
    /// The logit of an attribute, as binary classifiers are trained to produce. It is converted to a log-probability,
    /// `ln(1 / (1 + exp(-logit)))` (FUDGE).
    Logit,
}

impl ScoreKind {
    fn of(self, number: f32) -> f32 {
        match self {
            Self::Reward => number,
            // Of two equivalent formulas, the one that does not overflow.
            Self::Logit if number < 0.0 => number - number.exp().ln_1p(),
            Self::Logit => -(-number).exp().ln_1p(),
        }
    }
}

/// A model that gives each text a number: the first of its row.
///
/// Up to 64 tokens are tried in one call, each as a branch of the text. Cached texts change nothing but the time of a
/// call.
pub struct RewardScorer {
    model: Arc<dyn LanguageModel>,
    kind: ScoreKind,
    capacity: usize,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    texts: Readings<Box<dyn Sequence>>,
    rows: Rows,
}

impl RewardScorer {
    /// A scorer for a model whose rows begin with the score of the text up to their token
    /// ([`RewardModel::scorer`](verdigris_models::RewardModel::scorer)), for texts of up to `capacity` tokens,
    /// including the prompt and the tokens that are tried.
    pub fn new(model: Arc<dyn LanguageModel>, kind: ScoreKind, capacity: usize) -> Self {
        let capacity = capacity.min(model.context_length());
        Self { model, kind, capacity, memory: Mutex::default() }
    }

    /// Sets the number of cached texts, at least 64. Further texts are read again for each token.
    #[must_use]
    pub fn remembering(mut self, texts: usize) -> Self {
        self.memory.get_mut().unwrap_or_else(PoisonError::into_inner).texts.remembering(texts);
        self
    }
}

impl Scorer for RewardScorer {
    fn score(&self, text: &[TokenId], tokens: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError> {
        let Memory { texts, rows } = &mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut read = texts.recall(text, || self.model.clone().begin(self.capacity))?;
        let from = read.tokens.len();
        // The rows of the text are not used, only those of the tokens that are tried.
        if from < text.len() {
            read.reading.forward(&Batch::chain(&text[from..], Wanted::Last), rows)?;
            read.tokens.extend(&text[from..]);
        }
        // Near the end of the model's context there is no room for all of them at once.
        let room = (self.capacity - text.len().min(self.capacity)).clamp(1, BESIDE);
        for (tokens, scores) in tokens.chunks(room).zip(scores.chunks_mut(room)) {
            read.reading.forward(&Batch::tree(tokens, &vec![None; tokens.len()]), rows)?;
            Sequence::truncate(&mut *read.reading, text.len());
            scores.iter_mut().enumerate().for_each(|(i, score)| *score = self.kind.of(rows.row(i)[0]));
        }
        texts.remember(read);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logit_is_read_as_a_log_probability() {
        for logit in [-90.0f32, -3.0, -1e-3, 0.0, 0.5, 4.0, 90.0] {
            let expected = -(-f64::from(logit)).exp().ln_1p();
            let got = f64::from(ScoreKind::Logit.of(logit));
            assert!((got - expected).abs() <= 1e-6 * expected.abs() + 1e-38, "{logit}: {got} and not {expected}");
            assert_eq!(ScoreKind::Reward.of(logit), logit);
        }
        assert!(ScoreKind::Logit.of(f32::NAN).is_nan());
    }
}
