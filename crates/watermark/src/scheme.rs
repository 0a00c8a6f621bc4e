//! The contract of a watermark: how it judges tokens and how it changes rows while writing.

use std::fmt::Debug;

use verdigris_logits::{Row, TokenId, TokenSet};

use crate::score_distribution::ScoreDistribution;
use crate::strength::Strength;

/// The most tokens before the judged one that a scheme may look at.
pub const MAX_CONTEXT: usize = 16;

/// One judged position of a text: its score, and the names by which repeats are recognized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// A name for those tokens before the position that influence it. Equal contexts have equal names; different ones
    /// have the same with probability about 2^-64.
    pub context: u64,
    /// A name for the observation itself, likewise. Uniform enough, and independent enough of the score, that a
    /// threshold on it takes a random sample. Equal observations can have different contexts: where the smallest of
    /// several hashes decides, the other tokens may change.
    pub identity: u64,
    /// The score of the position; its distribution over keys is [`Scheme::distribution`]. NaN if the position belongs
    /// to another [part](crate::dialects::native_gumbel::Part) of the key, and is not judged.
    pub score: f32,
}

/// A keyed watermark.
///
/// # Contract
/// - Over random keys the score of an observation has the distribution [`Scheme::distribution`], and observations of
///   different identity are independent (lists that are permutations: up to sampling without replacement inside one
///   list, which makes large sums rarer).
/// - `mark` makes tokens with a high score more probable, and `observe` returns those scores from the text.
/// - Results depend on the key and the given tokens only; there is no hidden state.
pub trait Scheme: Send + Sync + Debug {
    /// The distribution of a score in text that is independent of the key.
    fn distribution(&self) -> ScoreDistribution;

    /// The number of tokens before the judged one that take part; at most [`MAX_CONTEXT`].
    fn context_width(&self) -> usize;

    /// The number of tokens in the vocabulary that the key is for.
    fn vocabulary_size(&self) -> usize;

    /// Judges `tokens[context_width..]`, each in the context of the tokens before it, and appends one observation per
    /// token to `out`. The caller must not pass tokens outside the vocabulary; they get an arbitrary observation, but
    /// cause no panic.
    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>);

    /// Changes the distribution of the token that follows `context` (of `context_width` tokens). Never makes a
    /// forbidden token possible, and never forbids all. Does not allocate once it has run on a row of that size.
    fn mark(&self, context: &[TokenId], strength: Strength, row: &mut Row);

    /// The name of a context of `context_width` tokens, as in [`Observation::context`]; for self-salted schemes its
    /// name before the candidate is known.
    fn context_name(&self, context: &[TokenId]) -> u64 {
        name(context)
    }

    /// Whether observations with equal identities have equal contexts. Contexts alone then decide what is a repeat.
    fn context_decides(&self) -> bool {
        false
    }

    /// The scores of single positions, if repeats do not depend on the key: if the name of a context is the
    /// [name](Observation::context) of its tokens, that of an observation also depends on the judged token,
    /// [contexts decide](Scheme::context_decides), and every position has a score. The same positions of a text then
    /// count under every key.
    fn by_position(&self) -> Option<&dyn ByPosition> {
        None
    }

    /// The rules for writing.
    fn embed_rules(&self) -> EmbedRules {
        EmbedRules::default()
    }
}

/// A scheme that can score some positions of a text and leave out the others.
pub trait ByPosition {
    /// Appends the scores of the tokens at the given positions to `out`: those that [`Scheme::observe`] returns.
    ///
    /// # Panics
    /// If there are fewer than [`Scheme::context_width`] tokens before a position.
    fn scores(&self, tokens: &[TokenId], positions: &[u32], out: &mut Vec<f32>);
}

/// A scheme's rules for writing: what the other systems' logits processors do beyond the list itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbedRules {
    /// The stage at which it acts.
    pub stage: Stage,
    /// The token that pads a context at the beginning of a text. Without one, nothing is marked before `context_width`
    /// tokens are there.
    pub padding: Option<TokenId>,
    /// Whether the first tokens of a text are judged too, with padding before them.
    pub judges_beginning: bool,
    /// Whether the prompt is context.
    pub sees_prompt: bool,
    /// The number of recent contexts that are remembered: where one of them repeats, nothing is marked, so that the
    /// same noise does not favour the same token every time.
    pub memory: usize,
    /// The surprise of the text, in nats, before anything is marked: see [`Embed::after`](crate::Embed::after).
    pub after: f64,
}

impl Default for EmbedRules {
    /// Acts on logits, after complete contexts, of prompt and text alike, from the first token, and remembers nothing.
    fn default() -> Self {
        let stage = Stage::Logits;
        Self { stage, padding: None, judges_beginning: false, sees_prompt: true, memory: 0, after: 0.0 }
    }
}

/// The stage of sampling at which a watermark acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// On the logits, before temperature and the other warpers.
    Logits,
    /// On the distribution that the warpers leave.
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

/// The name of the token `token` after a context of this name, where contexts decide what is a repeat.
pub(crate) fn identity(context: u64, token: TokenId) -> u64 {
    mix(context ^ mix(u64::from(token)))
}

/// A name for some tokens in order: a polynomial in a large odd number. It does not involve the key, since equal tokens
/// are equal under every key.
#[inline]
pub(crate) fn name(tokens: &[TokenId]) -> u64 {
    let polynomial = tokens.iter().fold(tokens.len() as u64, |name, &token| {
        name.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(token) + 1)
    });
    mix(polynomial)
}
