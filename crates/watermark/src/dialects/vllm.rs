//! The dialect of vLLM 0.33 (`vllm/v1/watermarking`): Gumbel-max on Philox, with one key and with two.
//!
//! The context is the last *generated* tokens: the prompt does not count, and missing tokens are padded with -1. Two
//! keys are derived from one by SHA-256; a share `alpha` of the tokens takes its noise from the second (vLLM flips that
//! coin without a key; here it is keyed and depends on the context), and the detector adds both scores, weighted.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use verdigris_logits::TokenId;
use verdigris_logits::random::philox4x32;
use zeroize::Zeroizing;

use super::error::BadDialect;
use super::gumbel::{Gumbel, Noise, RULES};
use super::spec::{Secret, Spec, share, tokens, width};
use crate::random::halves;
use crate::real::ln_1p;
use crate::scheme::{EmbedRules, Scheme};
use crate::score_distribution::ScoreDistribution;

/// vLLM with one key, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The number of tokens in a context.
    pub width: usize,
}

/// vLLM with two keys, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualParameters {
    /// The number of tokens in a context.
    pub width: usize,
    /// The share of the second key.
    pub alpha: f64,
}

impl Spec for Parameters {
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(vllm(secret.number()?, width(self.width)?, vocabulary)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", after {}", tokens(self.width))
    }
}

impl Spec for DualParameters {
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(vllm_dual(secret.number()?, share(self.alpha)?, width(self.width)?, vocabulary)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", after {}, alpha {}", tokens(self.width), self.alpha)
    }
}

const CONTEXT_DOMAIN: u32 = 0x574d_4358;
const TOKEN_DOMAIN: u32 = 0x574d_544b;

/// One key's noise.
struct Key(Zeroizing<[u32; 2]>);

impl Key {
    fn new(key: u64) -> Self {
        Self(Zeroizing::new(halves(key)))
    }

    fn state(&self, tokens: &[TokenId]) -> [u32; 4] {
        let [low, high] = *self.0;
        let mut state = [CONTEXT_DOMAIN, tokens.len() as u32, 0, 0];
        for (offset, block) in (0u32..).step_by(4).zip(tokens.chunks(4)) {
            for (i, word) in state.iter_mut().enumerate() {
                *word ^= block.get(i).copied().unwrap_or(u32::MAX - i as u32);
            }
            state = philox4x32(state, [low ^ offset, high]);
        }
        state
    }

    /// The upper 24 bits of a token's word.
    fn mantissa(&self, state: &[u32; 4], token: TokenId) -> u32 {
        let [low, high] = *self.0;
        let counter = [token >> 2, state[0], state[1], state[2]];
        philox4x32(counter, [low ^ state[3], high ^ TOKEN_DOMAIN])[token as usize & 3] >> 8
    }

    /// The uniform number of a mantissa, rounded to `f32` as in vLLM.
    fn uniform(&self, state: &[u32; 4], token: TokenId) -> f64 {
        let mantissa = f64::from(self.mantissa(state, token) + 1);
        f64::from((mantissa / f64::from((1u32 << 24) + 1)) as f32)
    }
}

/// The Philox noise of one key or two.
pub(super) struct Vllm {
    keys: Vec<Key>,
    /// The share of the second key.
    alpha: f64,
}

impl fmt::Debug for Vllm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vllm {{ keys: {}, alpha: {}, key: redacted }}", self.keys.len(), self.alpha)
    }
}

impl Vllm {
    pub(super) fn single(key: u64) -> Self {
        Self { keys: vec![Key::new(key)], alpha: 0.0 }
    }

    pub(super) fn dual(key: u64, alpha: f64) -> Self {
        let derive = |label: &[u8]| {
            let digest = Sha256::new_with_prefix(label).chain_update(key.to_be_bytes()).finalize();
            Key::new(u64::from_be_bytes(digest[..8].try_into().expect("eight bytes")))
        };
        Self { keys: vec![derive(b"key_a"), derive(b"key_b")], alpha }
    }

    /// The mantissas that give a token's noise, one per key.
    #[cfg(test)]
    pub(super) fn mantissas(&self, (states, _): &<Self as Noise>::Context, token: TokenId) -> Vec<u32> {
        self.keys.iter().zip(states).map(|(key, state)| key.mantissa(state, token)).collect()
    }
}

impl Noise for Vllm {
    /// The state of each key, and the index of the key that writes.
    type Context = ([[u32; 4]; 2], usize);

    fn context(&self, tokens: &[TokenId]) -> Self::Context {
        let mut states = [[0; 4]; 2];
        states.iter_mut().zip(&self.keys).for_each(|(state, key)| *state = key.state(tokens));
        if self.keys.len() == 1 {
            return (states, 0);
        }
        // A coin that depends on both keys and the context, from an input that is not used elsewhere.
        let coin = philox4x32([states[0][0], states[1][1], states[0][2], states[1][3]], [CONTEXT_DOMAIN, 1])[0];
        (states, usize::from(f64::from(coin) < self.alpha * f64::from(u32::MAX)))
    }

    fn uniform(&self, &(states, writer): &Self::Context, token: TokenId) -> f64 {
        self.keys[writer].uniform(&states[writer], token)
    }

    fn score(&self, (states, _): &Self::Context, token: TokenId) -> f64 {
        let scores = self.keys.iter().zip(states).map(|(key, state)| -ln_1p(-key.uniform(state, token)));
        match self.keys.len() {
            1 => scores.sum(),
            _ => scores.zip([1.0 - self.alpha, self.alpha]).map(|(score, weight)| score * weight).sum(),
        }
    }

    fn distribution(&self) -> ScoreDistribution {
        if self.keys.len() == 1 {
            ScoreDistribution::Exponential
        } else {
            ScoreDistribution::TwoKeys { share: self.alpha }
        }
    }

    fn embed_rules(&self) -> EmbedRules {
        EmbedRules { padding: Some(u32::MAX), judges_beginning: true, sees_prompt: false, memory: 8192, ..RULES }
    }
}

/// The scheme of one key over contexts of `width` tokens; vLLM's own default is 4.
pub fn vllm(key: u64, width: usize, vocabulary: usize) -> impl Scheme {
    Gumbel { noise: Vllm::single(key), width, vocabulary }
}

/// The scheme of two keys that are derived from one. `alpha`, the share of the second, is strictly between 0 and 1;
/// vLLM's default is .1.
pub fn vllm_dual(key: u64, alpha: f64, width: usize, vocabulary: usize) -> impl Scheme {
    Gumbel { noise: Vllm::dual(key, alpha), width, vocabulary }
}
