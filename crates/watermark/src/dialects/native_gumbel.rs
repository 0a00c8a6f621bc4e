//! The native Gumbel-max scheme: the distortion-free sibling of the native scheme, on the same AES function.
//!
//! A context gives a 128-bit seed as in [`native`](super::native), under a separate sub-key; the uniform number of
//! token `v` is the lower 52 bits of `AES_noise(seed xor v)`, plus a half, over `2^52`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::TokenId;

use super::error::BadDialect;
use super::gumbel::{Gumbel, Noise, RULES};
use super::native::{Prf, describe_context};
use super::spec::{Secret, Spec};
use crate::context::{BadContext, Context, ContextFunction};
use crate::kdf::Purpose;
use crate::scheme::{EmbedRules, Scheme};

/// Gumbel noise made by AES, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The context that chooses the noise.
    pub context: Context,
}

impl Default for Parameters {
    /// All of the last four tokens.
    fn default() -> Self {
        Self { context: Context::new(ContextFunction::All, 4).expect("a width in range") }
    }
}

impl Spec for Parameters {
    fn is_native(&self) -> bool {
        true
    }

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(native_gumbel(secret.native()?, secret.id, secret.tenant, self.context, vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe_context(self.context, f)
    }
}

/// The surprise of a text before it is marked, in nats. Two texts of one prompt have the same tokens up to there with a
/// probability of at most `e^-7`, below .1 %; from there on, the noise of different contexts keeps them apart.
const AFTER: f64 = 7.0;

struct NativeGumbel {
    prf: Prf,
    context: Context,
}

impl fmt::Debug for NativeGumbel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NativeGumbel {{ context: {:?}, key: redacted }}", self.context)
    }
}

impl Noise for NativeGumbel {
    type Context = u128;

    fn context(&self, tokens: &[TokenId]) -> u128 {
        self.prf.seed(self.context.function(), tokens)
    }

    fn name(&self, _: &[TokenId], seed: &u128) -> u64 {
        *seed as u64
    }

    fn uniform(&self, seed: &u128, token: TokenId) -> f64 {
        let bits = self.prf.expand(seed ^ u128::from(token)) as u64 & ((1 << 52) - 1);
        (bits as f64 + 0.5) / (1u64 << 52) as f64
    }

    fn embed_rules(&self) -> EmbedRules {
        EmbedRules { after: AFTER, ..RULES }
    }
}

/// The scheme of a secret, a key id and a tenant.
///
/// # Errors
/// [`BadContext`] for a self-salted context, where the candidate would choose its own noise.
pub fn native_gumbel(
    secret: &[u8; 32],
    id: &str,
    tenant: &str,
    context: Context,
    vocabulary: usize,
) -> Result<impl Scheme + use<>, BadContext> {
    if context.function() == ContextFunction::SelfSalted {
        return Err(BadContext::SelfSalted);
    }
    let prf = Prf::new(secret, id, tenant, Purpose::NoiseContext, Purpose::Noise);
    Ok(Gumbel { noise: NativeGumbel { prf, context }, width: context.width(), vocabulary })
}
