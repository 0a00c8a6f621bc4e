//! How keys and values are kept, on a CPU and on a GPU.

use verdigris_kernels::Format;

use crate::description::config::DecoderConfig;
use crate::description::parts::Parts;
use crate::error::ModelError;

/// How the memory of keys and values is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLayout {
    /// In pages of so many tokens, made when they are needed. Forks share them: a common beginning is kept once.
    Paged {
        /// Tokens of a page; at least one.
        tokens: usize,
    },
    /// In one piece for as many tokens as a sequence may come to hold, made when it begins. No token takes memory after
    /// that, and a fork copies what it has in common as soon as it goes on.
    Contiguous,
}

impl CacheLayout {
    pub(crate) const DEFAULT: Self = Self::Paged { tokens: 64 };
}

/// The format of keys and values: what was `asked` for; else as exact as the weights, but in no less than half
/// precision.
pub(crate) fn cache_format(config: &DecoderConfig, parts: &Parts, asked: Option<Format>) -> Result<Format, ModelError> {
    let exact = parts.layers[0].key.matrix.matrix().format() == Format::F32;
    let format = asked.unwrap_or(if exact { Format::F32 } else { Format::F16 });
    let is_possible = matches!(format, Format::F32 | Format::F16 | Format::Bf16 | Format::Q8_0);
    if is_possible && config.head_dim.is_multiple_of(format.block()) {
        return Ok(format);
    }
    Err(ModelError::Cache { format, head_dim: config.head_dim })
}
