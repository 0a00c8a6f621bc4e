//! N-grams that may occur only once.

use std::sync::Arc;

use crate::warp::{OutOfRange, check};
use crate::{Row, TokenId, Transform};

/// Forbids a token that would repeat any `n` consecutive tokens of prompt and output.
///
/// Each step scans all tokens so far, so it takes time in proportion to their number: about a nanosecond per token.
#[doc(alias = "NoRepeatNGramLogitsProcessor")]
#[doc(alias = "no_repeat_ngram_size")]
#[derive(Clone, Copy, Debug)]
pub struct NoRepeatNgram(usize);

impl NoRepeatNgram {
    /// Runs of `n` tokens, at least 1.
    ///
    /// # Errors
    /// [`OutOfRange`] for 0.
    pub fn new(n: usize) -> Result<Self, OutOfRange> {
        check("no-repeat n-gram size", n as f64, n >= 1, "at least 1")?;
        Ok(Self(n))
    }
}

/// All tokens so far. Forks share the prompt.
#[derive(Clone, Debug)]
pub struct History {
    prompt: Arc<[TokenId]>,
    output: Vec<TokenId>,
}

impl History {
    pub(crate) fn new(prompt: &[TokenId]) -> Self {
        Self { prompt: prompt.into(), output: Vec::new() }
    }

    pub(crate) fn push(&mut self, token: TokenId) {
        self.output.push(token);
    }

    pub(crate) fn len(&self) -> usize {
        self.prompt.len() + self.output.len()
    }

    /// The token at an index, which counts from the start of the prompt.
    pub(crate) fn get(&self, at: usize) -> TokenId {
        match at.checked_sub(self.prompt.len()) {
            None => self.prompt[at],
            Some(at) => self.output[at],
        }
    }
}

impl Transform for NoRepeatNgram {
    type State = History;

    fn start(&self, prompt: &[TokenId]) -> History {
        History::new(prompt)
    }

    fn apply(&self, state: &History, row: &mut Row) {
        let (length, before) = (state.len(), self.0 - 1);
        if length <= before {
            return;
        }
        row.with_set(row.len(), |row, repeats| {
            // The run that ends at `last` starts like the one that the next token would complete.
            for last in before..length {
                let is_repeat = (1..=before).all(|back| state.get(last - back) == state.get(length - back));
                let token = state.get(last);
                if is_repeat && (token as usize) < repeats.capacity() {
                    repeats.insert(token);
                }
            }
            if !repeats.is_empty() {
                row.bias(repeats, f32::NEG_INFINITY);
            }
        });
    }

    fn advance(&self, state: &mut History, token: TokenId) {
        state.push(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens out of six that are allowed after these.
    fn allowed(n: usize, prompt: &[TokenId], output: &[TokenId]) -> Vec<TokenId> {
        let step = NoRepeatNgram::new(n).unwrap();
        let mut state = step.start(prompt);
        output.iter().for_each(|&token| step.advance(&mut state, token));
        let mut row = Row::from(vec![1.0; 6]);
        step.apply(&state, &mut row);
        assert!(row.logits().iter().all(|&z| z == 1.0 || z == f32::NEG_INFINITY));
        (0..).zip(row.logits()).filter(|&(_, &z)| z == 1.0).map(|(token, _)| token).collect()
    }

    #[test]
    fn no_run_comes_twice() {
        assert_eq!(allowed(1, &[2, 99], &[4]), [0, 1, 3, 5]);
        assert_eq!(allowed(2, &[1, 2, 3, 1], &[]), [0, 1, 3, 4, 5]);
        assert_eq!(allowed(2, &[1, 2, 3], &[1, 4, 1]), [0, 1, 3, 5], "the runs cross from the prompt to the text");
        assert_eq!(allowed(3, &[1, 2, 3, 1, 2], &[]), [0, 1, 2, 4, 5]);
        assert_eq!(allowed(3, &[0, 0, 0], &[]), [1, 2, 3, 4, 5], "a run overlaps itself");
        assert_eq!(allowed(4, &[1, 2, 3], &[]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(allowed(9, &[], &[]), [0, 1, 2, 3, 4, 5]);
        assert!(NoRepeatNgram::new(0).is_err());
    }
}
