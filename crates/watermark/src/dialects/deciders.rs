//! Which of the tokens that a function is given decide what it gives.
//!
//! Repeats are told by these: where the others change, the list stays the same, and to count it again would be to claim
//! evidence that is not there.

use verdigris_logits::TokenId;

use crate::scheme::{MAX_CONTEXT, name};

/// Which of some tokens in a row have a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deciders {
    /// Each of them.
    All,
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The first and the last one.
    Ends,
    /// The first one and every second after it.
    EverySecond,
}

impl Deciders {
    /// A name for those of `tokens` that have a say, at most [`MAX_CONTEXT`] and one.
    pub(crate) fn name(self, tokens: &[TokenId]) -> u64 {
        let last = tokens.len() - 1;
        match self {
            Self::All => name(tokens),
            Self::First => name(&tokens[..1]),
            Self::Last => name(&tokens[last..]),
            Self::Ends => name(&[tokens[0], tokens[last]]),
            Self::EverySecond => {
                let mut some = [0; MAX_CONTEXT / 2 + 1];
                some.iter_mut().zip(tokens.iter().step_by(2)).for_each(|(to, &token)| *to = token);
                name(&some[..tokens.len().div_ceil(2)])
            }
        }
    }
}
