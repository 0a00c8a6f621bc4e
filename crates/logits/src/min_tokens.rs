//! Tokens that are forbidden up to a minimum length.

use crate::{Forbid, Row, TokenId, Transform};

/// Forbids some tokens until `least` tokens are written. With end-of-text tokens this is a minimum length. The prompt
/// does not count, so this step treats prompt and output differently.
#[doc(alias = "MinNewTokensLengthLogitsProcessor")]
#[doc(alias = "SuppressTokensAtBeginLogitsProcessor")]
#[doc(alias = "min_new_tokens")]
#[derive(Clone, Debug)]
pub struct MinTokens {
    forbid: Forbid,
    least: usize,
}

impl MinTokens {
    /// Forbids `tokens` of a vocabulary of `size` until `least` tokens are written.
    pub fn new(tokens: &[TokenId], least: usize, size: usize) -> Self {
        Self { forbid: Forbid::new(tokens, size), least }
    }
}

impl Transform for MinTokens {
    /// The number of tokens written.
    type State = usize;

    fn start(&self, _: &[TokenId]) -> usize {
        0
    }

    fn apply(&self, written: &usize, row: &mut Row) {
        if *written < self.least {
            self.forbid.apply(&(), row);
        }
    }

    fn advance(&self, written: &mut usize, _: TokenId) {
        *written += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_the_least_length() {
        let step = MinTokens::new(&[2], 2, 3);
        let mut state = step.start(&[0, 1, 0]);
        for may_end in [false, false, true, true] {
            let mut row = Row::from(vec![1.0; 3]);
            step.apply(&state, &mut row);
            assert_eq!(row.logits()[2] == 1.0, may_end);
            assert_eq!(row.logits()[..2], [1.0; 2]);
            step.advance(&mut state, 0);
        }
    }
}
