//! Why parameters make no scheme.

use super::permutation::BadSplit;
use crate::context::BadContext;
use crate::gamma::BadGamma;
use crate::green_share::BadGreenShare;
use crate::scheme::MAX_CONTEXT;
use crate::vocabulary_id::BadVocabulary;

/// The most keys: one bit of a token each.
pub const MAX_DEPTH: usize = 64;

/// The fewest and the most bits of a payload.
pub const BITS: std::ops::RangeInclusive<u8> = 8..=32;

/// A payload that cannot be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPayload {
    /// Too few bits for the code, or too many.
    #[error("a payload has {least} to {most} bits, not {0}", least = BITS.start(), most = BITS.end())]
    Bits(u8),
    /// Another green share than a quarter.
    #[error("a key that carries a payload has gamma 0.25")]
    Gamma,
    /// A context without a seed.
    #[error("a self-salted context has no position for a payload: choose all or min")]
    SelfSalted,
    /// A number with more bits than the key carries.
    #[error("the payload {payload:#x} has more than {bits} bits")]
    TooLarge {
        /// The number.
        payload: u32,
        /// What the key carries.
        bits: u8,
    },
}

/// Parameters of SynthID that make no scheme.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSynthId {
    /// No key, or too many.
    #[error("SynthID needs 1 to {MAX_DEPTH} keys, not {0}")]
    Depth(usize),
    /// A strange length of the n-grams.
    #[error("ngram_len is {0}, but must be 2 to {most}", most = MAX_CONTEXT + 1)]
    Ngram(usize),
    /// Equal keys, whose layers are one layer counted twice.
    #[error(
        "keys {first} and {second} are the same number, and with the hash equal keys give equal bits, so that no \
         p-value would hold: give keys that are all different"
    )]
    Repeated {
        /// The place of the first, from 1.
        first: usize,
        /// That of its repeat.
        second: usize,
    },
    /// The parameters do not fit the keys.
    #[error(
        "the Bayesian score needs one beta and one row of as many deltas for each of {0} keys, and a prior between 0 \
         and 1"
    )]
    Bayesian(usize),
}

/// Parameters that make no scheme.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDialect {
    /// A context that cannot be used.
    #[error(transparent)]
    Context(#[from] BadContext),
    /// A vocabulary that no key can be for.
    #[error(transparent)]
    Vocabulary(#[from] BadVocabulary),
    /// A share or a vocabulary that cannot be split.
    #[error(transparent)]
    Split(#[from] BadSplit),
    /// Parameters of SynthID.
    #[error(transparent)]
    SynthId(#[from] BadSynthId),
    /// Parameters of a payload.
    #[error(transparent)]
    Payload(#[from] BadPayload),
    /// A green share that a native scheme cannot have.
    #[error(transparent)]
    Gamma(#[from] BadGamma),
    /// A green share that no scheme can have.
    #[error(transparent)]
    GreenShare(#[from] BadGreenShare),
    /// Another green share was asked of a dialect without colours.
    #[error("{0} has no green share")]
    NoColours(&'static str),
    /// A width out of range.
    #[error("context width is {0}, but must be 1 to {MAX_CONTEXT}")]
    Width(usize),
    /// A share of one of two keys.
    #[error("the share of a key is {0}, but must be above 0 and below 1")]
    Share(f64),
    /// A secret of the wrong length.
    #[error("the secret has {found} bytes, but {name} takes {wanted}")]
    Secret {
        /// The dialect.
        name: &'static str,
        /// Bytes there.
        found: usize,
        /// What it takes.
        wanted: &'static str,
    },
}
