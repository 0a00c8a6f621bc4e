//! Tokens that are always forbidden.

use crate::warp::stateless;
use crate::{TokenId, TokenSet};

/// Forbids a fixed set of tokens: for example the end-of-text token, if a text must have a certain length.
#[doc(alias = "SuppressTokensLogitsProcessor")]
#[derive(Clone, Debug)]
pub struct Forbid {
    allowed: TokenSet,
}

impl Forbid {
    /// Forbids `tokens` in a vocabulary of `size`. Tokens outside it are never possible anyway.
    pub fn new(tokens: &[TokenId], size: usize) -> Self {
        let mut allowed = TokenSet::full(size);
        tokens.iter().for_each(|&token| allowed.remove(token));
        Self { allowed }
    }
}

impl From<TokenSet> for Forbid {
    /// Forbids all tokens outside `allowed`.
    fn from(allowed: TokenSet) -> Self {
        Self { allowed }
    }
}

stateless!(Forbid, |forbid, row| row.restrict(&forbid.allowed));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Row, Transform};

    #[test]
    fn forbidden_tokens_are_impossible_and_others_as_before() {
        let mut row = Row::from(vec![1.0, 2.0, 3.0]);
        Forbid::new(&[1, 99], 3).apply(&(), &mut row);
        assert_eq!(row.logits(), [1.0, f32::NEG_INFINITY, 3.0]);
        let mut only = TokenSet::new(2);
        only.insert(0);
        Forbid::from(only).apply(&(), &mut row);
        assert_eq!(row.logits(), [1.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    }
}
