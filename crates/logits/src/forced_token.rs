//! A token that is forced at one position.

use crate::{Row, TokenId, TokenSet, Transform};

/// Forces a token at one position of the output: the first, or, with an end-of-text token, where the output must end.
/// The prompt does not count, so this step treats prompt and output differently. If another step forbids the token, no
/// token is left.
#[doc(alias = "ForcedBOSTokenLogitsProcessor")]
#[doc(alias = "ForcedEOSTokenLogitsProcessor")]
#[derive(Clone, Debug)]
pub struct ForcedToken {
    token: TokenId,
    place: usize,
    only: TokenSet,
}

impl ForcedToken {
    /// Forces `token` after `place` tokens of output.
    ///
    /// # Panics
    /// If the token is outside the vocabulary of `size`.
    pub fn new(token: TokenId, place: usize, size: usize) -> Self {
        let mut only = TokenSet::new(size);
        only.insert(token);
        Self { token, place, only }
    }
}

impl Transform for ForcedToken {
    /// The number of tokens written.
    type State = usize;

    fn start(&self, _: &[TokenId]) -> usize {
        0
    }

    fn apply(&self, written: &usize, row: &mut Row) {
        if *written == self.place {
            row.restrict(&self.only);
        }
    }

    fn advance(&self, written: &mut usize, _: TokenId) {
        *written += 1;
    }

    fn decided(&self, written: &usize) -> Option<TokenId> {
        (*written == self.place).then_some(self.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_comes_at_its_place_alone() {
        let step = ForcedToken::new(1, 1, 3);
        let mut state = step.start(&[2, 2]);
        for forced in [false, true, false] {
            let mut row = Row::from(vec![1.0, 2.0, 3.0]);
            step.apply(&state, &mut row);
            let only = [f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY];
            assert_eq!(row.logits(), if forced { only } else { [1.0, 2.0, 3.0] });
            assert_eq!(step.decided(&state), forced.then_some(1));
            step.advance(&mut state, 0);
        }
    }
}
