//! The native scheme: a green list that is a bit-sliced AES-CTR keystream.
//!
//! Two AES-128 keys are derived from the secret: one turns a context into a 128-bit *seed*, the other expands the seed.
//! For `gamma = m / 2^k` there are `k` keystream planes; bit `t` of plane `p` is bit `t mod 128` of
//! `AES_list(seed ^ (p, t div 128))`. The `k` bits of a token, read as a number with plane 0 as the least significant
//! bit, are compared with `m`: the token is green if the number is below. So a whole list is `k * V / 128` blocks that
//! go straight into the words of a bitset, and one token's membership is `k` blocks.
//!
//! [`ContextFunction`] describes how a context gives a seed.

mod keystream;
mod prf;
mod scheme;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::{BITS, BadDialect, BadPayload};
use super::spec::{Secret, Spec, colours, tokens};
use crate::context::{Context, ContextFunction};
use crate::gamma::Gamma;
use crate::scheme::Scheme;

pub(crate) use prf::{BATCH, FEW, Prf, sub_keys};
pub use scheme::Native;

/// Green lists made by AES, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The green share.
    pub gamma: Gamma,
    /// The context that chooses the list.
    pub context: Context,
    /// The number of payload bits that the mark carries; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bits: Option<u8>,
}

impl Parameters {
    /// Checks that the scheme can carry `bits` bits.
    fn check_payload(&self, bits: u8) -> Result<(), BadPayload> {
        if !BITS.contains(&bits) {
            return Err(BadPayload::Bits(bits));
        }
        if self.gamma.value() != 0.25 {
            return Err(BadPayload::Gamma);
        }
        if self.context.function() == ContextFunction::SelfSalted {
            return Err(BadPayload::SelfSalted);
        }
        Ok(())
    }
}

impl Spec for Parameters {
    fn is_native(&self) -> bool {
        true
    }

    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        if let Some(bits) = self.payload_bits {
            self.check_payload(bits)?;
        }
        let Self { gamma, context, .. } = *self;
        Ok(Arc::new(Native::new(secret.native()?, secret.id, secret.tenant, gamma, context, vocabulary)))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe_context(self.context, f)?;
        self.payload_bits.map_or(Ok(()), |bits| write!(f, ", carries {bits} bits"))
    }
}

/// A context in words.
pub(super) fn describe_context(context: Context, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let function = match context.function() {
        ContextFunction::All => "all of",
        ContextFunction::Min => "minimum over",
        ContextFunction::SelfSalted => "self-salted over",
    };
    write!(f, ", {function} {}", tokens(context.width()))
}
