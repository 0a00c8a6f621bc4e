//! A decoder in the memory of a GPU: the data that no input changes.

use std::collections::HashMap;

use verdigris_kernels::Format;
use verdigris_kernels::cuda::activations::{Kinds, Precision};
use verdigris_kernels::cuda::attention::{self, MOST_DIM};
use verdigris_kernels::cuda::elements;
use verdigris_kernels::cuda::inputs::Pages;
use verdigris_kernels::cuda::{self, Buffer, CudaError, Gpu};

use crate::cache::{CacheLayout, cache_format};
use crate::description::alibi::slopes_of;
use crate::description::config::{Attention, DecoderConfig, Positions, QueryKeyNorm};
use crate::description::parts::{DenseParts, Layer, Parts, Projection, Scales, Upload};
use crate::description::rotary::Angles;
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The description and the weights of a decoder on a GPU.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) gpu: Gpu,
    pub(super) config: DecoderConfig,
    pub(super) parts: GpuParts,
    /// The kinds of activations that its matrices read.
    pub(super) kinds: Kinds,
    pub(super) precision: Precision,
    pub(super) slopes: Option<Buffer>,
    /// The rotary embeddings.
    pub(super) rotary: Vec<elements::Rotation>,
    /// The layout of keys and values.
    pub(super) layout: Pages,
}

/// Weights on a GPU.
type GpuParts = Parts<cuda::Matrix, Buffer>;
pub(super) type GpuDense = DenseParts<cuda::Matrix, Buffer>;
pub(super) type GpuProjection = Projection<cuda::Matrix, Buffer>;
pub(super) type GpuScales = Scales<Buffer>;

/// Copies weights to a GPU. A shared matrix is copied once.
struct ToGpu<'a> {
    gpu: &'a Gpu,
    done: HashMap<(*const u8, usize), cuda::Matrix>,
    kinds: Kinds,
}

impl Upload<Weight, Vec<f32>> for ToGpu<'_> {
    type Matrix = cuda::Matrix;
    type Vector = Buffer;
    type Error = CudaError;

    fn matrix(&mut self, weight: &Weight) -> Result<cuda::Matrix, CudaError> {
        let merged = weight.merged();
        let bytes = merged.bytes();
        let copied = || cuda::Matrix::new(self.gpu, merged.format(), bytes, merged.columns());
        let matrix = match (weight.update(), self.done.get(&(bytes.as_ptr(), bytes.len()))) {
            (Some(_), _) => copied()?,
            (None, Some(matrix)) => matrix.clone(),
            (None, None) => self.done.entry((bytes.as_ptr(), bytes.len())).or_insert(copied()?).clone(),
        };
        let on_tensor_cores = matrix.is_for_tensor_cores();
        self.kinds =
            Kinds { numbers: self.kinds.numbers || !on_tensor_cores, pieces: self.kinds.pieces || on_tensor_cores };
        Ok(matrix)
    }

    fn vector(&mut self, vector: &Vec<f32>) -> Result<Buffer, CudaError> {
        self.gpu.upload_numbers(vector)
    }
}

/// Bytes of the matrices, which are nearly all of a model.
fn bytes_of(parts: &Parts) -> usize {
    let of = |weight: &Weight| weight.matrix().bytes().len();
    let output = if parts.output.is_same(&parts.embedding) { 0 } else { of(&parts.output) };
    let layers = parts.layers.iter().flat_map(Layer::matrices).map(of);
    layers.sum::<usize>() + of(&parts.embedding) + output
}

/// The attention of all layers, if the kernels can run them. The error says what they cannot.
fn runs(config: &DecoderConfig) -> Result<&Attention, &'static str> {
    if config.is_recurrent() {
        return Err("recurrent layers");
    }
    if config.blocks.iter().any(|block| block.mixer.latent().is_some()) {
        return Err("attention to latent vectors");
    }
    if config.blocks.iter().any(|block| block.feed_forward.dense().is_none()) {
        return Err("mixtures of experts");
    }
    if config.residual_scale.is_some() {
        return Err("scaled residuals");
    }
    if config.logit_scale.is_some() {
        return Err("scaled logits");
    }
    if config.alternating.is_some() {
        return Err("several residual streams");
    }
    if config.per_layer.is_some() || config.layer_scales {
        return Err("embeddings or factors of each layer");
    }
    match config.alike() {
        Some((attention, _)) if attention.gated => Err("gated attention"),
        Some((attention, _)) if attention.sinks => Err("attention sinks"),
        Some((attention, _)) if attention.query_growth.is_some() => Err("queries that grow with their position"),
        Some((attention, _)) if attention.query_key_norm == Some(QueryKeyNorm::RotatedHeads) => {
            Err("norms of rotated queries and keys")
        }
        Some((attention, _)) if attention.reads.is_some() => Err("layers that read the keys and values of others"),
        Some((attention, _)) if attention.values_of_keys || attention.value_norm => Err("norms of values"),
        Some((attention, _)) => Ok(attention),
        None => Err("layers of several shapes"),
    }
}

impl Resident {
    /// Copies the weights to the GPU. Keys and values are stored as `format`; by default as on a CPU.
    pub(super) fn new(
        gpu: Gpu,
        config: DecoderConfig,
        parts: &Parts,
        format: Option<Format>,
        layout: CacheLayout,
    ) -> Result<Self, ModelError> {
        let Attention { heads, kv_heads, head_dim, .. } = *runs(&config).map_err(ModelError::NotOnGpu)?;
        let layers = config.blocks.len();
        let format = cache_format(&config, parts, format)?;
        if head_dim > MOST_DIM && format != Format::F32 {
            return Err(ModelError::HeadSize { head_dim, most: MOST_DIM });
        }
        let CacheLayout::Paged { tokens } = layout else { return Err(ModelError::PagesOnly) };
        let layout = Pages { tokens: tokens.max(1), layers, kv_heads, head_dim, format };
        if !attention::fits(&gpu, layout, heads / kv_heads)? {
            return Err(ModelError::NotOnGpu("heads of this size in f32"));
        }
        let (needed, free) = (bytes_of(parts), gpu.free_memory()?);
        if needed as u64 > free {
            return Err(ModelError::DeviceMemory { bytes: needed, free: Some(free) });
        }
        let mut to_gpu = ToGpu { gpu: &gpu, done: HashMap::new(), kinds: Kinds::default() };
        let on_gpu = parts.upload(&mut to_gpu)?;
        let kinds = to_gpu.kinds;
        let slopes = slopes_of(&config).map(|slopes| gpu.upload_numbers(&slopes)).transpose()?;
        let mut rotary: Vec<elements::Rotation> = Vec::new();
        if let Positions::Rotary(all) = &config.positions {
            let mut angles = 0;
            for one in all {
                let of = Angles::new(one, head_dim, config.context);
                let pairs = of.inverse().len();
                rotary.push(elements::Rotation { pairs, which: one.pairs, angles, magnitude: of.magnitude() as f32 });
                angles += pairs;
            }
        }
        let precision = Precision::default();
        Ok(Self { gpu, config, parts: on_gpu, kinds, precision, slopes, rotary, layout })
    }

    /// The angles of a sequence, one rotary embedding after the other.
    pub(super) fn angles(&self, capacity: usize) -> Vec<f32> {
        let Positions::Rotary(all) = &self.config.positions else { return Vec::new() };
        let of = |rotary| Angles::new(rotary, self.layout.head_dim, capacity).inverse().to_vec();
        all.iter().flat_map(of).collect()
    }
}
