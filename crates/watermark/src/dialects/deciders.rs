//! The tokens of a function's input that decide its output.
//!
//! Repeats are recognized by these: where only the other tokens change, the list stays the same, and counting it again
//! would claim evidence that does not exist.

use verdigris_logits::TokenId;

use crate::scheme::{MAX_CONTEXT, name};

/// The tokens of a sequence that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deciders {
    /// All of them.
    All,
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The first and the last one.
    Ends,
    /// The first one and every second one after it.
    EverySecond,
}

impl Deciders {
    /// A name for the deciding ones of `tokens`, of which there are at most [`MAX_CONTEXT`] plus one.
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
