//! What all texts of a model share.

use verdigris_kernels::{Format, layer_norm, rms_norm};

use crate::cache::{CacheLayout, cache_format};
use crate::description::alibi::slopes_of;
use crate::description::config::{DecoderConfig, Norm};
use crate::description::parts::{Parts, Scales};
use crate::description::share::{BadSplit, Split, check, part, part_of};
use crate::error::ModelError;

/// A decoder-only transformer on a CPU: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct CpuDecoder {
    pub(crate) config: DecoderConfig,
    pub(crate) parts: Parts,
    pub(super) slopes: Option<Vec<f32>>,
    pub(crate) cache_format: Format,
    pub(super) layout: CacheLayout,
    /// How long a row is: the vocabulary, and of a reward model one number.
    pub(super) row_width: usize,
}

impl CpuDecoder {
    /// Keys and values are kept as is said, else as exactly as the weights are, but in no less than half precision.
    pub(crate) fn new(
        config: DecoderConfig,
        parts: Parts,
        cached_as: Option<Format>,
        layout: CacheLayout,
    ) -> Result<Self, ModelError> {
        let cache_format = cache_format(&config, &parts, cached_as)?;
        let row_width = parts.output.rows();
        Ok(Self { slopes: slopes_of(&config), config, parts, cache_format, layout, row_width })
    }

    /// The part of one of several ranks. It must be [possible](check) to share the decoder out so.
    pub(crate) fn part(&self, split: Split, rank: usize, world: usize) -> Self {
        let (config, parts) = part(&self.config, &self.parts, split, rank, world);
        let heads = match split {
            Split::Tensor => part_of(self.config.heads, rank, world),
            Split::Layers => 0..self.config.heads,
        };
        let slopes = self.slopes.as_ref().map(|slopes| slopes[heads].to_vec());
        let Self { cache_format, layout, row_width, .. } = *self;
        Self { config, parts, slopes, cache_format, layout, row_width }
    }

    /// Whether it can be shared out so.
    pub(crate) fn check_split(&self, split: Split, world: usize) -> Result<(), BadSplit> {
        check(&self.config, &self.parts, split, world)
    }

    /// Its shape and choices.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    pub(super) fn normalize(&self, x: &[f32], scales: &Scales, out: &mut Vec<f32>) {
        out.resize(x.len(), 0.0);
        match self.config.norm {
            Norm::Rms { epsilon } => rms_norm(x, &scales.weight, epsilon as f32, out),
            Norm::Layer { epsilon } => {
                let bias = scales.bias.as_deref().unwrap_or_default();
                layer_norm(x, &scales.weight, bias, epsilon as f32, out);
            }
        }
    }
}
