//! The decoder on an NVIDIA GPU: weights as they are stored, own kernels, steps as graphs, tokens drawn where the rows are.
//!
//! It runs the same description as [`CpuDecoder`](crate::CpuDecoder), with the same weights, of every family and format.

mod pass;
mod sequence;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use verdigris_kernels::Format;
use verdigris_kernels::cuda::draw::Drawer;
use verdigris_kernels::cuda::elements;
use verdigris_kernels::cuda::rows::Pages;
use verdigris_kernels::cuda::{self, Buffer, CudaError, Gpu};

use crate::config::{DecoderConfig, Norm, Positions};
use crate::cpu::{CacheLayout, Layer, Parts, Projection, Scales, cached_as, slopes_of};
use crate::error::ModelError;
use crate::held::Held;
use crate::language_model::{Drawn, LanguageModel, Sequence, Turn};
use crate::matrix::Matrix;
use crate::rotary::Angles;

use sequence::GpuSequence;
use work::Work;

/// A decoder-only transformer on a GPU: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct GpuDecoder {
    gpu: Gpu,
    config: DecoderConfig,
    parts: GpuParts,
    slopes: Option<Buffer>,
    /// Of each rotary embedding.
    turns: Vec<elements::Turn>,
    /// How keys and values lie.
    layout: Pages,
    shared: Mutex<Shared>,
}

/// What one pass at a time works in.
struct Shared {
    /// By the number of rows.
    works: HashMap<usize, Work>,
    drawer: Drawer,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "memory for passes of {:?} rows", self.works.keys())
    }
}

/// The weights of a decoder, as [`Parts`].
#[derive(Debug)]
struct GpuParts {
    embedding: cuda::Matrix,
    positions: Option<cuda::Matrix>,
    embedding_norm: Option<GpuScales>,
    layers: Vec<GpuLayer>,
    norm: GpuScales,
    output: cuda::Matrix,
}

#[derive(Debug)]
struct GpuScales {
    weight: Buffer,
    bias: Option<Buffer>,
    width: usize,
}

#[derive(Debug)]
struct GpuProjection {
    matrix: cuda::Matrix,
    bias: Option<Buffer>,
}

#[derive(Debug)]
struct GpuLayer {
    attention_norm: Option<GpuScales>,
    query: GpuProjection,
    key: GpuProjection,
    value: GpuProjection,
    query_norm: Option<GpuScales>,
    key_norm: Option<GpuScales>,
    output: GpuProjection,
    after_attention: Option<GpuScales>,
    feed_forward_norm: Option<GpuScales>,
    gate: Option<GpuProjection>,
    up: GpuProjection,
    down: GpuProjection,
    after_feed_forward: Option<GpuScales>,
}

/// Copies weights to a GPU, a matrix that two share once.
struct Upload<'a> {
    gpu: &'a Gpu,
    config: &'a DecoderConfig,
    done: HashMap<(*const u8, usize), Buffer>,
}

impl Upload<'_> {
    fn matrix(&mut self, matrix: &Matrix) -> Result<cuda::Matrix, CudaError> {
        let bytes = matrix.bytes();
        let buffer = match self.done.get(&(bytes.as_ptr(), bytes.len())) {
            Some(buffer) => buffer.clone(),
            None => self.gpu.upload(bytes)?,
        };
        self.done.insert((bytes.as_ptr(), bytes.len()), buffer.clone());
        Ok(cuda::Matrix::new(matrix.format(), buffer, matrix.columns()))
    }

    fn scales(&self, scales: &Scales) -> Result<GpuScales, CudaError> {
        let bias = match self.config.norm {
            Norm::Rms { .. } => None,
            Norm::Layer { .. } => Some(self.gpu.upload_numbers(&scales.bias)?),
        };
        Ok(GpuScales { weight: self.gpu.upload_numbers(&scales.weight)?, bias, width: scales.weight.len() })
    }

    fn some_scales(&self, scales: &Option<Scales>) -> Result<Option<GpuScales>, CudaError> {
        scales.as_ref().map(|scales| self.scales(scales)).transpose()
    }

    /// Of queries or keys, which have no biases.
    fn weight(&self, weight: &Option<Vec<f32>>) -> Result<Option<GpuScales>, CudaError> {
        let scales = |weight: &Vec<f32>| {
            Ok(GpuScales { weight: self.gpu.upload_numbers(weight)?, bias: None, width: weight.len() })
        };
        weight.as_ref().map(scales).transpose()
    }

    fn projection(&mut self, projection: &Projection) -> Result<GpuProjection, CudaError> {
        let bias = projection.bias.as_ref().map(|bias| self.gpu.upload_numbers(bias)).transpose()?;
        Ok(GpuProjection { matrix: self.matrix(&projection.matrix)?, bias })
    }

    fn layer(&mut self, layer: &Layer) -> Result<GpuLayer, CudaError> {
        Ok(GpuLayer {
            attention_norm: self.some_scales(&layer.attention_norm)?,
            query: self.projection(&layer.query)?,
            key: self.projection(&layer.key)?,
            value: self.projection(&layer.value)?,
            query_norm: self.weight(&layer.query_norm)?,
            key_norm: self.weight(&layer.key_norm)?,
            output: self.projection(&layer.output)?,
            after_attention: self.some_scales(&layer.after_attention)?,
            feed_forward_norm: self.some_scales(&layer.feed_forward_norm)?,
            gate: layer.gate.as_ref().map(|gate| self.projection(gate)).transpose()?,
            up: self.projection(&layer.up)?,
            down: self.projection(&layer.down)?,
            after_feed_forward: self.some_scales(&layer.after_feed_forward)?,
        })
    }

    fn all(&mut self, parts: &Parts) -> Result<GpuParts, CudaError> {
        Ok(GpuParts {
            embedding: self.matrix(&parts.embedding)?,
            positions: parts.positions.as_ref().map(|positions| self.matrix(positions)).transpose()?,
            embedding_norm: self.some_scales(&parts.embedding_norm)?,
            layers: parts.layers.iter().map(|layer| self.layer(layer)).collect::<Result<_, _>>()?,
            norm: self.scales(&parts.norm)?,
            output: self.matrix(&parts.output)?,
        })
    }
}

/// Bytes of the matrices, which are nearly all of a model.
fn bytes_of(parts: &Parts) -> usize {
    let layer = |layer: &Layer| {
        let Layer { query, key, value, output, gate, up, down, .. } = layer;
        let all = [query, key, value, output, up, down].into_iter().chain(gate);
        all.map(|projection| projection.matrix.bytes().len()).sum::<usize>()
    };
    let outer = |matrix: &Matrix| matrix.bytes().len();
    let is_tied = std::ptr::eq(parts.output.bytes(), parts.embedding.bytes());
    let output = if is_tied { 0 } else { outer(&parts.output) };
    parts.layers.iter().map(layer).sum::<usize>() + outer(&parts.embedding) + output
}

impl GpuDecoder {
    /// Copies the weights to the GPU. Keys and values are kept as is said, else as on a CPU.
    pub(crate) fn new(
        gpu: Gpu,
        config: DecoderConfig,
        parts: &Parts,
        format: Option<Format>,
        layout: CacheLayout,
    ) -> Result<Self, ModelError> {
        let DecoderConfig { layers, kv_heads, head_dim, vocabulary, .. } = config;
        let format = cached_as(&config, parts, format)?;
        let CacheLayout::Paged { tokens } = layout else { return Err(ModelError::PagesOnly) };
        let (needed, free) = (bytes_of(parts), gpu.free_memory()?);
        if needed as u64 > free {
            return Err(ModelError::DeviceMemory { bytes: needed, free: Some(free) });
        }
        let mut upload = Upload { gpu: &gpu, config: &config, done: HashMap::new() };
        let on_gpu = upload.all(parts)?;
        let slopes = slopes_of(&config).map(|slopes| gpu.upload_numbers(&slopes)).transpose()?;
        let mut turns: Vec<elements::Turn> = Vec::new();
        if let Positions::Rotary(all) = &config.positions {
            let mut angles = 0;
            for rotary in all {
                let of = Angles::new(rotary, head_dim, config.context);
                let pairs = of.inverse().len();
                turns.push(elements::Turn { pairs, which: rotary.pairs, angles, magnitude: of.magnitude() as f32 });
                angles += pairs;
            }
        }
        let layout = Pages { tokens: tokens.max(1), layers, kv_heads, head_dim, format };
        let shared = Shared { works: HashMap::new(), drawer: Drawer::new(&gpu, vocabulary)? };
        Ok(Self { gpu, config, parts: on_gpu, slopes, turns, layout, shared: Mutex::new(shared) })
    }

    /// The angles of a sequence, one rotary embedding after the other.
    fn angles(&self, capacity: usize) -> Vec<f32> {
        let Positions::Rotary(all) = &self.config.positions else { return Vec::new() };
        let of = |rotary| Angles::new(rotary, self.config.head_dim, capacity).inverse().to_vec();
        all.iter().flat_map(of).collect()
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LanguageModel for GpuDecoder {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn context_length(&self) -> usize {
        self.config.context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let held = Held::none(capacity, self.config.context)?;
        Ok(Box::new(GpuSequence::new(self, held)?))
    }

    fn forward_each(&self, turns: &mut [Turn<'_>]) -> Result<(), ModelError> {
        sequence::forward_each(self, turns, &mut [])
    }

    fn draw_each(&self, turns: &mut [Turn<'_>], draws: &mut [Drawn<'_>]) -> Result<bool, ModelError> {
        sequence::forward_each(self, turns, draws)?;
        Ok(true)
    }
}
