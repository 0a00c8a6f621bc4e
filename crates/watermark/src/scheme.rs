//! The contract of a red/green scheme.

use std::fmt::Debug;

use verdigris_logits::{TokenId, TokenSet};

/// The most tokens before the judged one that a scheme may look at.
pub const MAX_CONTEXT: usize = 8;

/// One judged position of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Names the random draw that decided the colour. Equal draws have equal identities; different draws have
    /// the same one with probability about 2^-64. Independent of the colour, and uniform enough that a
    /// threshold on it takes a random sample.
    pub identity: u64,
    /// Whether the token is green.
    pub green: bool,
}

/// A keyed rule that splits the vocabulary, after each context, into green and red tokens.
///
/// # Contract
/// - Over random keys, a token is green with probability [`Scheme::gamma`], and draws of different identity
///   are independent (for `randperm` lists: up to sampling without replacement inside one list).
/// - `green_list` and `draws` agree: a token is in the list of its context just when its draw is green.
/// - Nothing but the key and the tokens given decides; there is no hidden state.
pub trait Scheme: Send + Sync + Debug {
    /// The probability that a token of unmarked text is green.
    fn gamma(&self) -> f64;

    /// How many tokens before the judged one take part; at most [`MAX_CONTEXT`].
    fn context_width(&self) -> usize;

    /// The number of tokens in the vocabulary that is split.
    fn vocabulary_size(&self) -> usize;

    /// Writes the green tokens after `context` (its last `context_width` tokens, no fewer) into `green`,
    /// which has the capacity of the vocabulary.
    fn green_list(&self, context: &[TokenId], green: &mut TokenSet);

    /// Judges `tokens[context_width..]`, each in the context of the tokens before it, and appends one draw a
    /// token to `out`. Tokens outside the vocabulary are the caller's error; they get some draw, no panic.
    fn draws(&self, tokens: &[TokenId], out: &mut Vec<Draw>);
}
