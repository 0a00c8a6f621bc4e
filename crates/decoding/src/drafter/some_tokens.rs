//! Rows of a draft head, which guesses among some tokens alone.

use verdigris_logits::{Row, TokenId};

/// The tokens that a head guesses among, as part of its target's.
pub(super) struct SomeTokens {
    tokens: Box<[TokenId]>,
    /// The logits of all tokens, none of which is guessed.
    none: Vec<f32>,
}

impl SomeTokens {
    /// Those of a target whose rows have `size` logits.
    pub(super) fn new(tokens: &[TokenId], size: usize) -> Self {
        Self { tokens: tokens.into(), none: vec![f32::NEG_INFINITY; size] }
    }

    /// How many tokens the target has.
    pub(super) fn of(&self) -> usize {
        self.none.len()
    }

    /// Loads a row of logits, one for each of them, as one of all tokens.
    pub(super) fn load(&self, logits: &[f32], row: &mut Row) {
        row.load(&self.none);
        let all = row.logits_mut();
        for (&token, &logit) in self.tokens.iter().zip(logits) {
            all[token as usize] = logit;
        }
    }
}
