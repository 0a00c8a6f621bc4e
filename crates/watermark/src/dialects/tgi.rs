//! The dialect of Text Generation Inference: KGW's `simple_1` over the width of the logits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::BadDialect;
use super::kgw::{DEFAULT_HASH_KEY, kgw, simple_1};
use super::spec::{Secret, Spec, colours};
use crate::green_share::GreenShare;
use crate::scheme::Scheme;

/// The lists of Text Generation Inference, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The green share; `WATERMARK_GAMMA`, .5 by default.
    pub gamma: GreenShare,
}

impl Spec for Parameters {
    colours!();

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(kgw(secret.number()?, simple_1(), self.gamma.value(), vocabulary)?))
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        numbers == [DEFAULT_HASH_KEY]
    }
}
