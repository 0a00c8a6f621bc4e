//! The dialect of SGLang 0.5.23 (`sglang/srt/sampling/watermarking`): Gumbel-max on MurmurHash3, with one key and
//! with two.
//!
//! The context is the last tokens, including those of the prompt. With two keys a keyed coin, a function of both keys
//! and the context, selects the one that writes; the detector computes the same coin, so every score is Exp(1).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::TokenId;
use zeroize::Zeroizing;

use super::error::BadDialect;
use super::gumbel::{Gumbel, Noise, RULES};
use super::spec::{Secret, Spec, share, tokens, width};
use crate::random::{halves, murmur3};
use crate::scheme::{EmbedRules, Scheme};

/// SGLang with one key, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The number of tokens in a context.
    pub width: usize,
}

/// SGLang with two keys, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualParameters {
    /// The number of tokens in a context.
    pub width: usize,
    /// The share of the first key.
    pub mixing: f64,
}

impl Spec for Parameters {
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(sglang(secret.number()?, width(self.width)?, vocabulary)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", after {}", tokens(self.width))
    }
}

impl Spec for DualParameters {
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(sglang_dual(secret.pair()?, share(self.mixing)?, width(self.width)?, vocabulary)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", after {}, mixing {}", tokens(self.width), self.mixing)
    }
}

/// The Murmur noise of one key or two.
pub(super) struct Sglang {
    key: Zeroizing<u64>,
    /// The second key, with the bound below which the coin selects the first.
    second: Option<(Zeroizing<u64>, u32)>,
}

impl fmt::Debug for Sglang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sglang {{ keys: {}, key: redacted }}", 1 + usize::from(self.second.is_some()))
    }
}

/// The hash that gives the noise of a token.
pub(super) fn hash((key, context): ([u32; 2], u32), token: TokenId) -> u32 {
    murmur3::hash([key[0], key[1], context, token])
}

impl Sglang {
    pub(super) fn new(keys: [u64; 2], mixing: Option<f64>) -> Self {
        let [key, second] = keys.map(Zeroizing::new);
        let second = mixing.map(|mixing| (second, (mixing * 4_294_967_296.0) as u32));
        Self { key, second }
    }
}

impl Noise for Sglang {
    /// The key that writes, and the hash of the context.
    type Context = ([u32; 2], u32);

    fn context(&self, tokens: &[TokenId]) -> Self::Context {
        let context = murmur3::hash(tokens.iter().copied());
        let first = halves(*self.key);
        let key = match &self.second {
            None => first,
            Some((second, threshold)) => {
                let second = halves(**second);
                let coin = murmur3::hash([first[0], first[1], second[0], second[1], context]);
                if coin < *threshold { first } else { second }
            }
        };
        (key, context)
    }

    fn uniform(&self, &(key, context): &Self::Context, token: TokenId) -> f64 {
        (f64::from(hash((key, context), token)) + 0.5) / 4_294_967_296.0
    }

    fn embed_rules(&self) -> EmbedRules {
        RULES
    }
}

/// The scheme of one key over contexts of `width` tokens; SGLang's own default is 4.
pub fn sglang(key: u64, width: usize, vocabulary: usize) -> impl Scheme {
    Gumbel { noise: Sglang::new([key, 0], None), width, vocabulary }
}

/// The scheme of two keys: the first writes with probability `mixing`, strictly between 0 and 1; .5 by default.
pub fn sglang_dual(keys: [u64; 2], mixing: f64, width: usize, vocabulary: usize) -> impl Scheme {
    Gumbel { noise: Sglang::new(keys, Some(mixing)), width, vocabulary }
}
