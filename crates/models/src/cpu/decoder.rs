//! The part of a CPU model that all its sequences share.

use std::sync::Arc;

use verdigris_kernels::{Format, layer_norm, rms_norm};

use super::pages::Widths;
use crate::cache::{CacheLayout, cache_format};
use crate::description::alibi::slopes_of;
use crate::description::config::{DecoderConfig, Mixer, Norm};
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
    /// The elements of a token's keys and values in each layer.
    pub(super) cached: Arc<[Widths]>,
    /// The length of a row: the vocabulary size, or 1 for a reward model.
    pub(super) row_width: usize,
}

impl CpuDecoder {
    /// Stores keys and values as `cached_as`; by default as exactly as the weights, but in at least half precision.
    pub(crate) fn new(
        config: DecoderConfig,
        parts: Parts,
        cached_as: Option<Format>,
        layout: CacheLayout,
    ) -> Result<Self, ModelError> {
        let cache_format = cache_format(&config, &parts, cached_as)?;
        let row_width = parts.output.rows();
        let (slopes, cached) = (slopes_of(&config), cached(&config));
        Ok(Self { slopes, config, parts, cache_format, layout, cached, row_width })
    }

    /// The part of one of several ranks. The split must have passed [`check`].
    pub(crate) fn part(&self, split: Split, rank: usize, world: usize) -> Self {
        let (config, parts) = part(&self.config, &self.parts, split, rank, world);
        let of_rank = |slopes: &Vec<f32>| match split {
            Split::Tensor => slopes[part_of(slopes.len(), rank, world)].to_vec(),
            Split::Layers => slopes.clone(),
        };
        let (slopes, cached) = (self.slopes.as_ref().map(of_rank), cached(&config));
        let Self { cache_format, layout, row_width, .. } = *self;
        Self { config, parts, slopes, cache_format, layout, cached, row_width }
    }

    /// Checks that the decoder can be split like this.
    pub(crate) fn check_split(&self, split: Split, world: usize) -> Result<(), BadSplit> {
        check(&self.config, &self.parts, split, world)
    }

    /// The configuration.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// The number that is added to the squares of norms.
    pub(super) fn epsilon(&self) -> f32 {
        let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = self.config.norm;
        epsilon as f32
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

/// The elements of a token's keys and values in each layer.
fn cached(config: &DecoderConfig) -> Arc<[Widths]> {
    let of = |mixer: &Mixer| match mixer {
        Mixer::Attention(attention) => Widths::equal(attention.stored()),
        // Values are the first elements of keys.
        Mixer::Latent(latent) => Widths { keys: latent.stored(), values: 0 },
        Mixer::Convolution(_) | Mixer::DeltaNet(_) | Mixer::Mamba(_) => Widths::equal(0),
    };
    config.blocks.iter().map(|block| of(&block.mixer)).collect()
}
