//! Penalties: steps that make tokens less probable because they already occurred.
//!
//! They act on the logits before any warper. A state is the list of the distinct tokens so far, so a fork copies a few
//! bytes for each.

use crate::warp::{OutOfRange, check};
use crate::{Row, TokenId, Transform};

/// The repetition penalty of CTRL (Keskar et al. 2019, section 4.1) as in Hugging Face `transformers`: the logit of a
/// token that occurs in the prompt or the output is divided by the penalty if it is positive, and multiplied otherwise.
#[doc(alias = "RepetitionPenaltyLogitsProcessor")]
#[doc(alias = "repeat_penalty")]
#[derive(Clone, Copy, Debug)]
pub struct RepetitionPenalty(f32);

impl RepetitionPenalty {
    /// A penalty from 0.01 to 100; 1 changes nothing, above 1 discourages repetition.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(penalty: f64) -> Result<Self, OutOfRange> {
        check("repetition penalty", penalty, (0.01..=100.0).contains(&penalty), "from 0.01 to 100")?;
        Ok(Self(penalty as f32))
    }
}

/// The presence and frequency penalties of OpenAI's API: subtracts `presence` from the logit of each token of the
/// output, and `frequency` for each of its occurrences. The prompt does not count, so this step treats prompt and
/// output differently.
#[doc(alias = "presence_penalty")]
#[doc(alias = "frequency_penalty")]
#[derive(Clone, Copy, Debug)]
pub struct CountPenalty {
    presence: f32,
    frequency: f32,
}

impl CountPenalty {
    /// Penalties in logits, from -100 to 100; 0 changes nothing, above 0 discourages repetition.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(presence: f64, frequency: f64) -> Result<Self, OutOfRange> {
        let check = |name, value| check(name, value, (-100.0..=100.0).contains(&value), "from -100 to 100");
        check("presence penalty", presence)?;
        check("frequency penalty", frequency)?;
        Ok(Self { presence: presence as f32, frequency: frequency as f32 })
    }
}

/// The number of occurrences of each token, in the order of tokens.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<(TokenId, u32)>);

impl Counts {
    fn add(&mut self, token: TokenId) {
        match self.0.binary_search_by_key(&token, |&(token, _)| token) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (token, 1)),
        }
    }
}

impl Row {
    /// Divides the logits of tokens if they are positive, and multiplies them otherwise.
    pub(crate) fn repetition(&mut self, tokens: impl Iterator<Item = TokenId>, by: f32) {
        if let Some(steps) = self.recorded() {
            return steps.repetition(tokens, by);
        }
        change(self, tokens, |token| token, |logit, _| if logit > 0.0 { logit / by } else { logit * by });
    }

    /// Subtracts a number from the logit of each token.
    pub(crate) fn subtract(&mut self, each: impl Iterator<Item = (TokenId, f32)>) {
        if let Some(steps) = self.recorded() {
            return steps.subtract(each);
        }
        change(self, each, |(token, _)| token, |logit, (_, number)| logit - number);
    }
}

/// Changes the logits of some tokens, but not those of forbidden ones.
fn change<T: Copy>(
    row: &mut Row,
    each: impl Iterator<Item = T>,
    token: impl Fn(T) -> TokenId,
    change: impl Fn(f32, T) -> f32,
) {
    let logits = row.logits_mut();
    for item in each {
        if let Some(logit) = logits.get_mut(token(item) as usize).filter(|logit| **logit > f32::NEG_INFINITY) {
            *logit = change(*logit, item);
        }
    }
}

impl Transform for RepetitionPenalty {
    type State = Counts;

    fn start(&self, prompt: &[TokenId]) -> Counts {
        let mut counts = Counts::default();
        prompt.iter().for_each(|&token| counts.add(token));
        counts
    }

    fn apply(&self, state: &Counts, row: &mut Row) {
        row.repetition(state.0.iter().map(|&(token, _)| token), self.0);
    }

    fn advance(&self, state: &mut Counts, token: TokenId) {
        state.add(token);
    }
}

impl Transform for CountPenalty {
    type State = Counts;

    fn start(&self, _: &[TokenId]) -> Counts {
        Counts::default()
    }

    fn apply(&self, state: &Counts, row: &mut Row) {
        row.subtract(state.0.iter().map(|&(token, count)| (token, self.presence + self.frequency * count as f32)));
    }

    fn advance(&self, state: &mut Counts, token: TokenId) {
        state.add(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: f32 = f32::NEG_INFINITY;

    fn after<T: Transform>(step: &T, prompt: &[TokenId], output: &[TokenId]) -> Vec<f32> {
        let mut state = step.start(prompt);
        output.iter().for_each(|&token| step.advance(&mut state, token));
        let mut row = Row::from(vec![2.0, -1.0, 3.0, NO, 0.5]);
        step.apply(&state, &mut row);
        row.logits().to_vec()
    }

    #[test]
    fn rows_are_those_of_the_formulas() {
        let repetition = RepetitionPenalty::new(2.0).unwrap();
        assert_eq!(after(&repetition, &[1, 1], &[0, 3, 99]), [1.0, -2.0, 3.0, NO, 0.5]);
        let counts = CountPenalty::new(0.5, 0.25).unwrap();
        assert_eq!(after(&counts, &[2, 2], &[0, 1, 0, 3]), [1.0, -1.75, 3.0, NO, 0.5]);
        assert_eq!(after(&RepetitionPenalty::new(1.0).unwrap(), &[0, 1], &[2]), [2.0, -1.0, 3.0, NO, 0.5]);
    }

    /// A penalty below 1 encourages repetition, but makes no forbidden token possible.
    #[test]
    fn what_is_forbidden_stays_so() {
        assert_eq!(after(&RepetitionPenalty::new(0.01).unwrap(), &[3], &[])[3], NO);
        assert_eq!(after(&CountPenalty::new(-100.0, -100.0).unwrap(), &[], &[3])[3], NO);
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60, 101.0] {
            assert!(RepetitionPenalty::new(bad).unwrap_err().to_string().starts_with("repetition penalty is"));
        }
        assert!(CountPenalty::new(f64::NAN, 0.0).is_err() && CountPenalty::new(0.0, f64::INFINITY).is_err());
    }
}
