//! What all texts of a model share.

use verdigris_kernels::{Format, layer_norm, rms_norm};

use crate::cache::{CacheLayout, cache_format};
use crate::description::alibi::slopes_of;
use crate::description::config::{DecoderConfig, Norm};
use crate::description::parts::{Parts, Scales};
use crate::error::ModelError;

/// A decoder-only transformer on a CPU: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct CpuDecoder {
    pub(super) config: DecoderConfig,
    pub(super) parts: Parts,
    pub(super) slopes: Option<Vec<f32>>,
    pub(super) cache_format: Format,
    pub(super) layout: CacheLayout,
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
        Ok(Self { slopes: slopes_of(&config), config, parts, cache_format, layout })
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
