//! Errors of parameters that do not make a scheme.

use super::permutation::BadSplit;
use crate::context::BadContext;
use crate::gamma::BadGamma;
use crate::green_share::BadGreenShare;
use crate::scheme::MAX_CONTEXT;
use crate::vocabulary_id::BadVocabulary;

/// The most keys: each gives one bit of a token.
pub const MAX_DEPTH: usize = 64;

/// The fewest and the most bits of a payload.
pub const BITS: std::ops::RangeInclusive<u8> = 8..=32;

/// A payload that cannot be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPayload {
    /// Too few or too many bits for the code.
    #[error("a payload has {least} to {most} bits, not {0}", least = BITS.start(), most = BITS.end())]
    Bits(u8),
    /// A green share other than a quarter.
    #[error("a key that carries a payload has gamma 0.25")]
    Gamma,
    /// A context without a seed.
    #[error("a self-salted context has no position for a payload: choose all or min")]
    SelfSalted,
    /// A payload with more bits than the key carries.
    #[error("the payload {payload:#x} has more than {bits} bits")]
    TooLarge {
        /// The payload.
        payload: u32,
        /// The number of bits that the key carries.
        bits: u8,
    },
}

/// Parameters that do not make a SynthID scheme.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSynthId {
    /// No keys, or too many.
    #[error("SynthID needs 1 to {MAX_DEPTH} keys, not {0}")]
    Depth(usize),
    /// An n-gram length out of range.
    #[error("ngram_len is {0}, but must be 2 to {most}", most = MAX_CONTEXT + 1)]
    Ngram(usize),
    /// Equal keys, which would count one layer twice.
    #[error(
        "keys {first} and {second} are the same number, and with the hash equal keys give equal bits, so that no \
         p-value would hold: give keys that are all different"
    )]
    Repeated {
        /// The position of the first of the equal keys, from 1.
        first: usize,
        /// The position of its repeat.
        second: usize,
    },
    /// The parameters do not fit the keys.
    #[error(
        "the Bayesian score needs one beta and one row of as many deltas for each of {0} keys, and a prior between 0 \
         and 1"
    )]
    Bayesian(usize),
}

/// Parameters that do not make a scheme.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDialect {
    /// A context that cannot be used.
    #[error(transparent)]
    Context(#[from] BadContext),
    /// A vocabulary that no key can be made for.
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
    /// A green share was requested of a dialect without colours.
    #[error("{0} has no green share")]
    NoColours(&'static str),
    /// A width out of range.
    #[error("context width is {0}, but must be 1 to {MAX_CONTEXT}")]
    Width(usize),
    /// A share of one of two keys that is out of range.
    #[error("the share of a key is {0}, but must be above 0 and below 1")]
    Share(f64),
    /// A secret of the wrong length.
    #[error("the secret has {found} bytes, but {name} takes {wanted}")]
    Secret {
        /// The dialect.
        name: &'static str,
        /// The number of bytes found.
        found: usize,
        /// The number of bytes that the dialect takes.
        wanted: &'static str,
    },
}
