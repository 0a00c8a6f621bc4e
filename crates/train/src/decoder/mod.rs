//! A decoder built from candle's operations: Llama, and architectures that differ from it only in shape and biases.
//!
//! | module | holds |
//! |---|---|
//! | `differentiable` | whole sequences at once, with gradients to every weight: used in training |
//! | `cache`, `ops`, `tables` | keys and values, kernels as tensor operations, rotary positions: for one sequence, token by token |
//!
//! As a [`LanguageModel`] it checks, in any of candle's types, what `verdigris-models` computes.

mod cache;
mod differentiable;
mod ops;
mod tables;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use candle_nn::ops::{rms_norm, silu};
use candle_nn::rotary_emb::rope_thd;

use verdigris_models::config::{Activation, DecoderConfig, FeedForward, Norm, Positions, Rotary};
use verdigris_models::{Batch, Held, LanguageModel, ModelError, Rows, Sequence};

use crate::error::TrainError;
use crate::weights::Weights;

use cache::KvCache;
use ops::{attend, linear};
use tables::Tables;

/// A decoder-only transformer: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct Decoder {
    config: DecoderConfig,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    output: Tensor,
    rotary: Tables,
}

/// A matrix (`out x in`) and, in some families, a bias.
#[derive(Debug)]
struct Projection {
    weight: Tensor,
    bias: Option<Tensor>,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor,
    query: Projection,
    key: Projection,
    value: Projection,
    output: Projection,
    feed_forward_norm: Tensor,
    gate: Projection,
    up: Projection,
    down: Projection,
}

impl Projection {
    fn load(weights: &Weights, name: &str, out: usize, input: usize, bias: bool) -> Result<Self, TrainError> {
        let weight = weights.get(&format!("{name}.weight"), &[out, input])?;
        let bias = bias.then(|| weights.get(&format!("{name}.bias"), &[out])).transpose()?;
        Ok(Self { weight, bias })
    }

    fn apply(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let product = linear(x, &self.weight)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

impl Decoder {
    /// Builds a decoder from weights named as in a Hugging Face Llama checkpoint.
    ///
    /// # Errors
    /// [`TrainError::Architecture`] if the decoder is unlike Llama's, and [`TrainError::Model`] if a weight is missing
    /// or has another shape.
    pub fn new(config: DecoderConfig, weights: &Weights) -> Result<Self, TrainError> {
        let DecoderConfig { vocabulary, width, heads, kv_heads, head_dim, .. } = config;
        let (FeedForward::Gated { bias: feed_forward_bias, .. } | FeedForward::Plain { bias: feed_forward_bias, .. }) =
            config.feed_forward;
        let (inner, Positions::Rotary(rotary)) = (config.feed_forward.width(), &config.positions) else {
            return Err(TrainError::Architecture);
        };
        if !is_like_llama(&config) {
            return Err(TrainError::Architecture);
        }
        let rotary = Tables::new(&rotary[0], head_dim, config.context)?;
        let embedding = weights.get("model.embed_tokens.weight", &[vocabulary, width])?;
        let output =
            if config.tied { embedding.clone() } else { weights.get("lm_head.weight", &[vocabulary, width])? };
        let layers = (0..config.layers)
            .map(|i| {
                let name = |part: &str| format!("model.layers.{i}.{part}");
                let attention = |part: &str, out, input| {
                    let bias = if part == "o" { config.output_bias } else { config.attention_bias };
                    Projection::load(weights, &name(&format!("self_attn.{part}_proj")), out, input, bias)
                };
                let mlp = |part: &str, out, input| {
                    Projection::load(weights, &name(&format!("mlp.{part}_proj")), out, input, feed_forward_bias)
                };
                Ok(Layer {
                    attention_norm: weights.get(&name("input_layernorm.weight"), &[width])?,
                    query: attention("q", heads * head_dim, width)?,
                    key: attention("k", kv_heads * head_dim, width)?,
                    value: attention("v", kv_heads * head_dim, width)?,
                    output: attention("o", width, heads * head_dim)?,
                    feed_forward_norm: weights.get(&name("post_attention_layernorm.weight"), &[width])?,
                    gate: mlp("gate", inner, width)?,
                    up: mlp("up", inner, width)?,
                    down: mlp("down", width, inner)?,
                })
            })
            .collect::<Result<_, TrainError>>()?;
        let norm = weights.get("model.norm.weight", &[width])?;
        Ok(Self { config, embedding, layers, norm, output, rotary })
    }

    /// The configuration.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    fn normalize(&self, x: &Tensor, weight: &Tensor) -> candle_core::Result<Tensor> {
        match self.config.norm {
            Norm::Rms { epsilon } | Norm::Layer { epsilon } => rms_norm(x, weight, epsilon as f32),
        }
    }

    /// The rows of a batch after `held` tokens. Its keys and values go into `caches`.
    fn forward(&self, held: usize, caches: &mut [KvCache], batch: &Batch<'_>) -> candle_core::Result<Vec<f32>> {
        let DecoderConfig { heads, kv_heads, head_dim, .. } = self.config;
        let m = batch.tokens.len();
        let visible = batch.visibility();
        let (cos, sin) = self.rotary.at(&batch.positions(held))?;
        let split = |x: Tensor, heads: usize| x.reshape((1, m, heads, head_dim));
        // Positions are rotated in f32 for weights of any type.
        let kind = self.embedding.dtype();
        let rotate = |x: Tensor, heads: usize| {
            rope_thd(&split(x, heads)?.to_dtype(DType::F32)?, &cos, &sin)?.squeeze(0)?.to_dtype(kind)
        };
        let ids = Tensor::from_slice(batch.tokens, m, &Device::Cpu)?;
        let mut h = self.embedding.index_select(&ids, 0)?;
        for (layer, cache) in self.layers.iter().zip(caches) {
            let x = self.normalize(&h, &layer.attention_norm)?;
            let query = rotate(layer.query.apply(&x)?, heads)?;
            let key = rotate(layer.key.apply(&x)?, kv_heads)?;
            let value = split(layer.value.apply(&x)?, kv_heads)?.squeeze(0)?;
            let (keys, values) = cache.append(held, &key, &value)?;
            h = (h + layer.output.apply(&attend(&query, &keys, &values, visible.as_deref())?)?)?;
            let x = self.normalize(&h, &layer.feed_forward_norm)?;
            h = (&h + layer.down.apply(&(silu(&layer.gate.apply(&x)?)? * layer.up.apply(&x)?)?)?)?;
        }
        let first = batch.first_wanted();
        h = h.narrow(0, first, m - first)?;
        let rows = linear(&self.normalize(&h.contiguous()?, &self.norm)?, &self.output)?;
        rows.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
    }
}

/// Whether it differs from Llama only in shape and biases.
fn is_like_llama(config: &DecoderConfig) -> bool {
    let DecoderConfig { positions: Positions::Rotary(rotary), norm: Norm::Rms { .. }, .. } = config else {
        return false;
    };
    let FeedForward::Gated { width, activation: Activation::Silu, bias } = config.feed_forward else { return false };
    let plain = DecoderConfig {
        vocabulary: config.vocabulary,
        width: config.width,
        layers: config.layers,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        context: config.context,
        norm: config.norm,
        positions: config.positions.clone(),
        feed_forward: FeedForward::Gated { width, activation: Activation::Silu, bias },
        attention_bias: config.attention_bias,
        output_bias: config.output_bias,
        tied: config.tied,
        ..DecoderConfig::default()
    };
    *rotary == [Rotary::new(rotary[0].theta)] && *config == plain
}

/// An error of candle as one of a model.
fn failed(error: candle_core::Error) -> ModelError {
    ModelError::Compute(error.into())
}

impl LanguageModel for Decoder {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn context_length(&self) -> usize {
        self.config.context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let DecoderConfig { kv_heads, head_dim, context, .. } = self.config;
        let held = Held::none(capacity, context)?;
        let caches = self
            .layers
            .iter()
            .map(|_| KvCache::new(capacity.max(1), kv_heads, head_dim, self.embedding.dtype()))
            .collect::<candle_core::Result<_>>()
            .map_err(failed)?;
        Ok(Box::new(DecoderSequence { decoder: self, caches, held }))
    }
}

struct DecoderSequence {
    decoder: Arc<Decoder>,
    caches: Vec<KvCache>,
    held: Held,
}

impl Sequence for DecoderSequence {
    fn len(&self) -> usize {
        self.held.length()
    }

    fn capacity(&self) -> usize {
        self.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let size = self.decoder.config.vocabulary;
        self.held.after(batch, size)?;
        if batch.tokens.is_empty() {
            rows.set(Vec::new(), size);
            return Ok(());
        }
        let held = self.held.length();
        rows.set(self.decoder.forward(held, &mut self.caches, batch).map_err(failed)?, size);
        self.held.extend(batch.tokens.len());
        Ok(())
    }

    fn truncate(&mut self, length: usize) {
        self.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let length = self.held.after_keep(from, path);
        if length > from {
            self.caches.iter_mut().try_for_each(|cache| cache.keep(from, path)).map_err(failed)?;
        }
        self.held.truncate(length);
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let caches = self.caches.iter().map(KvCache::fork).collect::<candle_core::Result<_>>().map_err(failed)?;
        Ok(Box::new(Self { decoder: self.decoder.clone(), caches, held: self.held }))
    }
}
