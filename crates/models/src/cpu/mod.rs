//! The decoder on a CPU: weights as they are stored, kernels on slices, and memory that is used again.

mod pages;
mod pass;
mod sequence;

use std::sync::Arc;

use verdigris_kernels::{Format, layer_norm, rms_norm};

use crate::config::{DecoderConfig, Norm, NormPlaces, Positions};
use crate::error::ModelError;
use crate::held::Held;
use crate::language_model::{LanguageModel, Sequence, Turn};
use crate::matrix::Matrix;
use crate::rotary::Angles;

pub use pages::CacheLayout;
use pages::Pages;
use sequence::CpuSequence;

/// A decoder-only transformer on a CPU: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct CpuDecoder {
    config: DecoderConfig,
    parts: Parts,
    slopes: Option<Vec<f32>>,
    /// How keys and values are stored.
    cached_as: Format,
    layout: CacheLayout,
}

/// The weights of a decoder.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) embedding: Matrix,
    /// Learned positions.
    pub(crate) positions: Option<Matrix>,
    pub(crate) embedding_norm: Option<Scales>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Scales,
    pub(crate) output: Matrix,
}

/// What a norm multiplies by, and adds.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub(crate) weight: Vec<f32>,
    /// For [`Norm::Layer`].
    pub(crate) bias: Vec<f32>,
}

/// A matrix (`out x in`) and, in some families, a bias.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Option<Scales>,
    pub(crate) query: Projection,
    pub(crate) key: Projection,
    pub(crate) value: Projection,
    pub(crate) query_norm: Option<Vec<f32>>,
    pub(crate) key_norm: Option<Vec<f32>>,
    pub(crate) output: Projection,
    pub(crate) after_attention: Option<Scales>,
    pub(crate) feed_forward_norm: Option<Scales>,
    pub(crate) gate: Option<Projection>,
    pub(crate) up: Projection,
    pub(crate) down: Projection,
    pub(crate) after_feed_forward: Option<Scales>,
}

impl CpuDecoder {
    /// Keys and values are kept as is said, else as exactly as the weights are, but in no less than half precision.
    pub(crate) fn new(
        config: DecoderConfig,
        parts: Parts,
        cached_as: Option<Format>,
        layout: CacheLayout,
    ) -> Result<Self, ModelError> {
        let cached_as = self::cached_as(&config, &parts, cached_as)?;
        Ok(Self { slopes: slopes_of(&config), config, parts, cached_as, layout })
    }

    /// The description of it.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    fn normalize(&self, x: &[f32], scales: &Scales, out: &mut Vec<f32>) {
        out.resize(x.len(), 0.0);
        match self.config.norm {
            Norm::Rms { epsilon } => rms_norm(x, &scales.weight, epsilon as f32, out),
            Norm::Layer { epsilon } => layer_norm(x, &scales.weight, &scales.bias, epsilon as f32, out),
        }
    }
}

/// As what keys and values are kept.
pub(crate) fn cached_as(config: &DecoderConfig, parts: &Parts, said: Option<Format>) -> Result<Format, ModelError> {
    let exact = parts.layers[0].key.matrix.format() == Format::F32;
    let format = said.unwrap_or(if exact { Format::F32 } else { Format::F16 });
    let is_possible = matches!(format, Format::F32 | Format::F16 | Format::Bf16 | Format::Q8_0);
    if is_possible && config.head_dim.is_multiple_of(format.block()) {
        return Ok(format);
    }
    Err(ModelError::Cache { format, head_dim: config.head_dim })
}

/// What is taken from a score for each position back, where positions are ALiBi's.
pub(crate) fn slopes_of(config: &DecoderConfig) -> Option<Vec<f32>> {
    let Positions::Alibi { most, odd_first, by_scale } = config.positions else { return None };
    let mut slopes = slopes(config.heads, most, odd_first);
    if by_scale {
        slopes.iter_mut().for_each(|slope| *slope *= config.scale());
    }
    Some(slopes)
}

/// The slopes of ALiBi: a geometric series from the number of heads, if that is a power of two. Else that of the power below, and
/// every other one of twice that (the paper's own code); or of the power above every other one first (MPT's).
fn slopes(heads: usize, most: f64, odd_first: bool) -> Vec<f32> {
    let series = |of: usize| (1..=of).map(move |i| 2f64.powf(-most * i as f64 / of as f64) as f32);
    let below = 1 << heads.ilog2();
    if below == heads {
        return series(heads).collect();
    }
    let above = 2 * below;
    match odd_first {
        true => series(above).skip(1).step_by(2).chain(series(above).step_by(2)).take(heads).collect(),
        false => series(below).chain(series(above).step_by(2)).take(heads).collect(),
    }
}

impl LanguageModel for CpuDecoder {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn context_length(&self) -> usize {
        self.config.context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let DecoderConfig { layers, kv_heads, head_dim, context, .. } = self.config;
        let held = Held::none(capacity, context)?;
        let pages = Pages::new(self.layout, self.cached_as, kv_heads * head_dim, layers, capacity)?;
        let rotary = if let Positions::Rotary(all) = &self.config.positions { &all[..] } else { &[] };
        let angles = rotary.iter().map(|rotary| Angles::new(rotary, head_dim, capacity)).collect();
        Ok(Box::new(CpuSequence::new(self, pages, angles, held)))
    }

    fn forward_each(&self, turns: &mut [Turn<'_>]) -> Result<(), ModelError> {
        sequence::forward_each(self, turns)
    }
}

/// Whether a layer has a norm before its parts, and after them.
pub(crate) fn norms(places: NormPlaces) -> (bool, bool) {
    match places {
        NormPlaces::Before => (true, false),
        NormPlaces::After => (false, true),
        NormPlaces::Around => (true, true),
    }
}
