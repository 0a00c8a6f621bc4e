//! The dialect of Three Bricks: colours ("maryland") and Gumbel scores ("openai") from one rolling seed.
//!
//! Fernandez, Chaffin, Tit, Chappelier and Furon, *Three Bricks to Consolidate Watermarks for Large Language Models*,
//! WIFS 2023, as in the authors' code: `seed = (seed * salt + token) mod (2^64 - 1)` over the context, from a start
//! seed; under it torch's CPU generator makes a permutation, whose first `int(V * gamma)` entries are green, or one
//! uniform number for each token of the vocabulary.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::TokenId;
use zeroize::Zeroizing;

use super::error::BadDialect;
use super::gumbel::{Gumbel, Noise, RULES};
use super::permutation::{BadSplit, Permutation};
use super::seeded::{Seed, Seeded};
use super::spec::{Secret, Spec, colours, tokens, width};
use crate::green_share::GreenShare;
use crate::random::mt19937::Mt19937;
use crate::scheme::{EmbedRules, Scheme};

/// The default salt of the authors' code. Public.
pub const DEFAULT_SALT: u64 = 35_317;

/// Colours, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarylandParameters {
    /// The number of tokens in a context.
    pub width: usize,
    /// The green share.
    pub gamma: GreenShare,
}

/// Gumbel scores, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenaiParameters {
    /// The number of tokens in a context.
    pub width: usize,
}

impl Spec for MarylandParameters {
    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(maryland(secret.pair()?, width(self.width)?, self.gamma.value(), vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", after {}", tokens(self.width))
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        numbers == [0, DEFAULT_SALT]
    }
}

impl Spec for OpenaiParameters {
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(openai(secret.pair()?, width(self.width)?, vocabulary)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", after {}", tokens(self.width))
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        numbers == [0, DEFAULT_SALT]
    }
}

/// The rolling seed.
struct Seeds {
    salt: Zeroizing<u64>,
    start: Zeroizing<u64>,
    width: usize,
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreeBricks {{ width: {}, key: redacted }}", self.width)
    }
}

impl Seed for Seeds {
    fn context_width(&self) -> usize {
        self.width
    }

    fn seed(&self, context: &[TokenId], _: TokenId) -> u64 {
        context.iter().fold(*self.start, |seed, &token| {
            ((u128::from(seed) * u128::from(*self.salt) + u128::from(token)) % u128::from(u64::MAX)) as u64
        })
    }
}

/// One uniform number of 24 bits for each token: `torch.rand(V)`.
#[derive(Debug)]
pub(super) struct Uniforms {
    seeds: Seeds,
    vocabulary: usize,
}

impl Uniforms {
    pub(super) fn new([start, salt]: [u64; 2], width: usize, vocabulary: usize) -> Self {
        let seeds = Seeds { salt: Zeroizing::new(salt), start: Zeroizing::new(start), width };
        Self { seeds, vocabulary }
    }
}

impl Noise for Uniforms {
    /// The generator, and the numbers made so far, in order.
    type Context = std::cell::RefCell<(Mt19937, Vec<u32>)>;

    fn context(&self, tokens: &[TokenId]) -> Self::Context {
        (Mt19937::new(self.seeds.seed(tokens, 0) as u32), Vec::new()).into()
    }

    fn uniform(&self, context: &Self::Context, token: TokenId) -> f64 {
        let (random, made) = &mut *context.borrow_mut();
        // At most one per token of the vocabulary, whatever token the caller passes.
        let token = (token as usize).min(self.vocabulary - 1);
        while made.len() <= token {
            made.push(random.next() & 0xff_ffff);
        }
        // Zero would give a noise of minus infinity; torch returns it once in 2^24.
        f64::from(made[token]).max(0.5) / f64::from(1u32 << 24)
    }

    fn embed_rules(&self) -> EmbedRules {
        EmbedRules { memory: 0, ..RULES }
    }
}

/// The scheme "maryland": colours.
///
/// # Errors
/// [`BadSplit`] if the share does not split the vocabulary into two colours.
pub fn maryland([start, salt]: [u64; 2], width: usize, gamma: f64, vocabulary: usize) -> Result<impl Scheme, BadSplit> {
    let seed = Seeds { salt: Zeroizing::new(salt), start: Zeroizing::new(start), width };
    Ok(Seeded { seed, list: Permutation::new(gamma, vocabulary)? })
}

/// The scheme "openai": Gumbel scores.
pub fn openai([start, salt]: [u64; 2], width: usize, vocabulary: usize) -> impl Scheme {
    Gumbel { noise: Uniforms::new([start, salt], width, vocabulary), width, vocabulary }
}
