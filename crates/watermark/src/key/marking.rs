//! How a new key of our own schemes marks.

use crate::context::Context;
use crate::dialect::Dialect;
use crate::dialects::{native, native_gumbel};
use crate::gamma::Gamma;
use crate::strength::Strength;

/// How a new key marks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Marking {
    /// `native-gumbel` with [`Marking::VARIANTS`] variants: keeps the model's distribution, and so its right answers.
    #[default]
    Noise,
    /// `native`: a preference for green tokens, which costs the text more, but can be embedded by other engines and
    /// carry payloads.
    Lists(GreenLists),
}

/// The parameters of green lists.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GreenLists {
    /// The green share; 1/4 by default.
    pub gamma: Gamma,
    /// The context that chooses a list; the minimum over 4 tokens by default.
    pub context: Context,
    /// The strength of the preference for green; `delta` 2 by default.
    pub strength: Strength,
}

impl Marking {
    /// The number of variants of a key of noise. Noise is found in few tokens, so it can pay for them.
    pub const VARIANTS: u8 = 8;

    /// Green lists with the default parameters.
    pub fn lists() -> Self {
        Self::Lists(GreenLists::default())
    }

    /// The dialect, the strength and the number of variants.
    pub(super) fn parts(self) -> (Dialect, Option<Strength>, u8) {
        match self {
            Self::Noise => (Dialect::NativeGumbel(native_gumbel::Parameters::default()), None, Self::VARIANTS),
            Self::Lists(GreenLists { gamma, context, strength }) => {
                (Dialect::Native(native::Parameters { gamma, context, payload_bits: None }), Some(strength), 1)
            }
        }
    }
}
