//! The contract of a watermark: how it judges tokens, and how it takes part in writing.

use std::fmt::Debug;

use verdigris_logits::{Row, TokenId, TokenSet};

use crate::score_law::ScoreLaw;
use crate::strength::Strength;

/// The most tokens before the judged one that a scheme may look at.
pub const MAX_CONTEXT: usize = 16;

/// One judged position of a text: its score, and names by which repeats are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Names the tokens that stand before the position and have a say in it. Equal contexts have equal names;
    /// different ones have the same with probability about 2^-64.
    pub context: u64,
    /// Names the observation itself, likewise. Uniform enough, and independent enough of the
    /// score, that a threshold on it takes a random sample. Equal observations can have different contexts: where the
    /// smallest of several hashes decides, other tokens come and go.
    pub identity: u64,
    /// What the position says for the mark; its distribution over keys is [`Scheme::law`].
    pub score: f32,
}

/// A keyed watermark.
///
/// # Contract
/// - Over random keys the score of an observation has the law [`Scheme::law`], and observations of different identity
///   are independent (lists that are permutations: up to sampling without replacement inside one list, which makes
///   large sums rarer).
/// - `mark` makes tokens with a high score more probable, and `observe` gives those scores back from the text.
/// - Nothing but the key and the tokens given decides; there is no hidden state.
pub trait Scheme: Send + Sync + Debug {
    /// The law of a score in text that knows nothing of the key.
    fn law(&self) -> ScoreLaw;

    /// How many tokens before the judged one take part; at most [`MAX_CONTEXT`].
    fn context_width(&self) -> usize;

    /// The number of tokens in the vocabulary that the key is for.
    fn vocabulary_size(&self) -> usize;

    /// Judges `tokens[context_width..]`, each in the context of the tokens before it, and appends one observation a
    /// token to `out`. Tokens outside the vocabulary are the caller's error; they get some observation, no panic.
    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>);

    /// Changes the law of the token that follows `context` (of `context_width` tokens). Never makes a forbidden
    /// token possible, and never forbids all. Does not allocate once it has run on a row of that size.
    fn mark(&self, context: &[TokenId], strength: Strength, row: &mut Row);

    /// Names a context of `context_width` tokens as [`Observation::context`] does; for self-salted schemes the name
    /// that it has before the candidate is known.
    fn context_name(&self, context: &[TokenId]) -> u64 {
        name(context)
    }

    /// Whether observations with equal identities have equal contexts: then contexts alone say what is a repeat.
    fn context_decides(&self) -> bool {
        false
    }

    /// How it takes part in writing.
    fn embed_rules(&self) -> EmbedRules {
        EmbedRules::default()
    }
}

/// How a scheme takes part in writing: what the other systems' logits processors do beyond the list itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbedRules {
    /// Where in the law of a token it acts.
    pub stage: Stage,
    /// The token that stands in for those that are missing at the beginning. Without one, nothing is marked
    /// before `context_width` tokens are there.
    pub padding: Option<TokenId>,
    /// Whether the first tokens of a text are judged too, with padding before them.
    pub judges_beginning: bool,
    /// Whether the prompt is context.
    pub sees_prompt: bool,
    /// How many of the last contexts are remembered: where one of them comes again, nothing is marked, so that
    /// the same noise does not favour the same token again and again.
    pub memory: usize,
}

impl Default for EmbedRules {
    /// Acts on logits, after whole contexts, of prompt and text alike, and remembers nothing.
    fn default() -> Self {
        let stage = Stage::Logits;
        Self { stage, padding: None, judges_beginning: false, sees_prompt: true, memory: 0 }
    }
}

/// Where in the law of a token a watermark acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// On the logits, before temperature and the other warpers.
    Logits,
    /// On the law that the warpers leave.
    Warped,
}

/// Marks a row with a green list that `fill` makes.
pub(crate) fn mark_list(row: &mut Row, vocabulary: usize, strength: Strength, fill: impl FnOnce(&mut TokenSet)) {
    row.with_set(vocabulary, |row, green| {
        fill(green);
        match strength {
            Strength::Soft(delta) => row.bias(green, delta.value() as f32),
            Strength::Hard => {
                if green.iter().any(|t| row.logits().get(t as usize).is_some_and(|&z| z > f32::NEG_INFINITY)) {
                    row.restrict(green);
                }
            }
        }
    });
}

/// A bijection that spreads numbers over all 64 bits (the finalizer of Vigna's SplitMix64).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A name for some tokens in order: a polynomial in a large odd number. No key takes part, for equal tokens are
/// equal whatever the key.
#[inline]
pub(crate) fn name(tokens: &[TokenId]) -> u64 {
    let polynomial = tokens.iter().fold(tokens.len() as u64, |name, &token| {
        name.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(token) + 1)
    });
    mix(polynomial)
}
