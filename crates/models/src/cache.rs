//! The storage of keys and values, on a CPU and on a GPU.

use verdigris_kernels::Format;

use crate::description::config::{DecoderConfig, Mixer};
use crate::description::parts::Parts;
use crate::error::ModelError;

/// The memory layout of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLayout {
    /// In pages, allocated when they are needed. Forks share them: a common prefix is stored once.
    Paged {
        /// Tokens per page; at least one.
        tokens: usize,
    },
    /// In one block for the whole capacity of a sequence, allocated when it begins. Tokens need no memory after that,
    /// and a fork copies the common prefix as soon as it continues.
    Contiguous,
}

impl CacheLayout {
    pub(crate) const DEFAULT: Self = Self::Paged { tokens: 64 };
}

/// The format of keys and values: `asked` if given; otherwise F32 for F32 weights, and F16 for all others.
pub(crate) fn cache_format(config: &DecoderConfig, parts: &Parts, asked: Option<Format>) -> Result<Format, ModelError> {
    let exact = parts.layers[0].matrices().all(|weight| weight.format() == Format::F32);
    let format = asked.unwrap_or(if exact { Format::F32 } else { Format::F16 });
    let is_possible = matches!(format, Format::F32 | Format::F16 | Format::Bf16 | Format::Q8_0);
    let mut heads = config.blocks.iter().flat_map(|block| match &block.mixer {
        Mixer::Attention(attention) => vec![attention.head_dim],
        // Values are the first elements of keys.
        Mixer::Latent(latent) => vec![latent.rank, latent.stored()],
        Mixer::Convolution(_) | Mixer::DeltaNet(_) | Mixer::Mamba(_) => vec![],
    });
    match heads.find(|head_dim| !is_possible || !head_dim.is_multiple_of(format.block())) {
        Some(head_dim) => Err(ModelError::Cache { format, head_dim }),
        None => Ok(format),
    }
}
