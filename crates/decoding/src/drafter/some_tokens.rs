//! Rows of a draft head that covers only some tokens.

use verdigris_logits::{Row, TokenId};

/// The tokens that a head covers, as a subset of its target's.
pub(super) struct SomeTokens {
    tokens: Box<[TokenId]>,
    /// A row of all tokens in which each is impossible.
    none: Vec<f32>,
}

impl SomeTokens {
    /// The tokens of a head, for a target whose rows have `size` logits.
    pub(super) fn new(tokens: &[TokenId], size: usize) -> Self {
        Self { tokens: tokens.into(), none: vec![f32::NEG_INFINITY; size] }
    }

    /// The number of tokens of the target.
    pub(super) fn of(&self) -> usize {
        self.none.len()
    }

    /// Loads a row with one logit for each covered token as a row of all tokens.
    pub(super) fn load(&self, logits: &[f32], row: &mut Row) {
        row.load(&self.none);
        let all = row.logits_mut();
        for (&token, &logit) in self.tokens.iter().zip(logits) {
            all[token as usize] = logit;
        }
    }
}
