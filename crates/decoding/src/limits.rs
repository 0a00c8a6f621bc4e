//! When a text ends.

use verdigris_logits::TokenId;

/// What ends a text, whichever comes first. The model's context ends it in any case.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most tokens to write.
    pub max_tokens: usize,
    /// Tokens that end the text; they are not part of it.
    pub end: Vec<TokenId>,
}

/// What ended a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model wrote an end token.
    End,
    /// As many tokens as asked for.
    Length,
    /// The model's context is full.
    Context,
}
