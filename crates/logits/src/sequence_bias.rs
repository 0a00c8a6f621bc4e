//! Sequences of tokens that are made more or less probable, or forbidden.

use std::collections::BTreeMap;

use crate::warp::{OutOfRange, check};
use crate::{Row, TokenId, Transform};

/// Adds a number to the logit of a token that would complete a sequence: the other tokens of the sequence are the last
/// ones of prompt and output. A sequence of one token is always completed.
///
/// This is the `sequence_bias` and `bad_words_ids` of Hugging Face `transformers`, and the `logit_bias` of OpenAI's API
/// and vLLM.
#[doc(alias = "SequenceBiasLogitsProcessor")]
#[doc(alias = "NoBadWordsLogitsProcessor")]
#[doc(alias = "logit_bias")]
#[doc(alias = "bad_words")]
#[derive(Clone, Debug, Default)]
pub struct SequenceBias {
    /// By the last token of a sequence: the tokens before it, and the number.
    endings: BTreeMap<TokenId, Vec<(Vec<TokenId>, f32)>>,
    /// The length of the longest sequence without its last token.
    longest: usize,
}

impl SequenceBias {
    /// A step without sequences, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number, in logits, from -100 to 100, where `sequence` would be completed. Of equal sequences the last one
    /// counts; different ones that end with the same token add up.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    ///
    /// # Panics
    /// If the sequence is empty.
    pub fn bias(self, sequence: &[TokenId], bias: f64) -> Result<Self, OutOfRange> {
        check("logit bias", bias, (-100.0..=100.0).contains(&bias), "from -100 to 100")?;
        Ok(self.with(sequence, bias as f32))
    }

    /// Forbids tokens that would complete `sequence`.
    ///
    /// # Panics
    /// If the sequence is empty.
    #[must_use]
    pub fn forbid(self, sequence: &[TokenId]) -> Self {
        self.with(sequence, f32::NEG_INFINITY)
    }

    fn with(mut self, sequence: &[TokenId], bias: f32) -> Self {
        let (&last, before) = sequence.split_last().expect("a sequence has tokens");
        let endings = self.endings.entry(last).or_default();
        endings.retain(|(other, _)| other != before);
        endings.push((before.to_vec(), bias));
        self.longest = self.longest.max(before.len());
        self
    }

    /// Whether there are no sequences.
    pub fn is_empty(&self) -> bool {
        self.endings.is_empty()
    }
}

/// The last tokens, as many as the longest sequence needs.
#[derive(Clone, Debug)]
pub struct Recent(Vec<TokenId>);

impl Transform for SequenceBias {
    type State = Recent;

    fn start(&self, prompt: &[TokenId]) -> Recent {
        let mut recent = Vec::with_capacity(self.longest);
        recent.extend_from_slice(&prompt[prompt.len().saturating_sub(self.longest)..]);
        Recent(recent)
    }

    fn apply(&self, state: &Recent, row: &mut Row) {
        row.subtract(self.endings.iter().filter_map(|(&last, endings)| {
            let completed = endings.iter().filter(|(before, _)| state.0.ends_with(before));
            let bias: f32 = completed.map(|(_, bias)| bias).sum();
            (bias != 0.0).then_some((last, -bias))
        }));
    }

    fn advance(&self, state: &mut Recent, token: TokenId) {
        if self.longest > 0 {
            if state.0.len() == self.longest {
                state.0.remove(0);
            }
            state.0.push(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: f32 = f32::NEG_INFINITY;

    fn after(step: &SequenceBias, prompt: &[TokenId], output: &[TokenId]) -> Vec<f32> {
        let mut state = step.start(prompt);
        output.iter().for_each(|&token| step.advance(&mut state, token));
        assert!(state.0.len() <= step.longest, "the state stays small");
        let mut row = Row::from(vec![0.0, 1.0, 2.0, NO]);
        step.apply(&state, &mut row);
        row.logits().to_vec()
    }

    #[test]
    fn a_sequence_counts_where_it_would_be_completed() {
        let step = SequenceBias::new().bias(&[1], 0.5).unwrap().bias(&[0, 2, 1], 4.0).unwrap().forbid(&[2, 0]);
        assert_eq!(after(&step, &[], &[]), [0.0, 1.5, 2.0, NO]);
        assert_eq!(after(&step, &[0, 2], &[]), [NO, 5.5, 2.0, NO]);
        assert_eq!(after(&step, &[1, 0], &[2]), [NO, 5.5, 2.0, NO], "prompt and text are one");
        assert_eq!(after(&step, &[0, 2], &[1]), [0.0, 1.5, 2.0, NO]);
    }

    #[test]
    fn the_last_of_equals_counts_and_nothing_forbidden_comes_back() {
        let step = SequenceBias::new().bias(&[2], -1.0).unwrap().bias(&[2], 3.0).unwrap().bias(&[3], 9.0).unwrap();
        assert_eq!(after(&step, &[], &[]), [0.0, 1.0, 5.0, NO]);
        let both = SequenceBias::new().forbid(&[2]).bias(&[0, 2], 100.0).unwrap();
        assert_eq!(after(&both, &[0], &[]), [0.0, 1.0, NO, NO]);
        assert!(SequenceBias::new().is_empty() && !step.is_empty());
    }

    #[test]
    fn a_bias_out_of_range_is_named() {
        for bad in [f64::NAN, f64::INFINITY, -100.5] {
            let error = SequenceBias::new().bias(&[1], bad).unwrap_err().to_string();
            assert!(error.starts_with("logit bias is") && error.ends_with("from -100 to 100"), "{error}");
        }
    }
}
