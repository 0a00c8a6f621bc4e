//! A decoder out of candle's operations, for training: Llama and what differs from it in shape alone.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use candle_nn::ops::{rms_norm, silu};
use candle_nn::rotary_emb::rope_thd;

use crate::cache::KvCache;
use crate::config::{DecoderConfig, FeedForward, Norm, Positions};
use crate::error::ModelError;
use crate::language_model::{Batch, LanguageModel, Rows, Sequence, Wanted, kept};
use crate::ops::{attend, linear};
use crate::rotary::Tables;
use crate::weights::Weights;

/// A decoder-only transformer: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct Decoder {
    pub(crate) config: DecoderConfig,
    pub(crate) embedding: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Tensor,
    pub(crate) output: Tensor,
    rotary: Tables,
}

/// A matrix (`out x in`) and, in some families, a bias.
#[derive(Debug)]
pub(crate) struct Projection {
    pub(crate) weight: Tensor,
    pub(crate) bias: Option<Tensor>,
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Tensor,
    pub(crate) query: Projection,
    pub(crate) key: Projection,
    pub(crate) value: Projection,
    pub(crate) output: Projection,
    pub(crate) feed_forward_norm: Tensor,
    pub(crate) gate: Projection,
    pub(crate) up: Projection,
    pub(crate) down: Projection,
}

impl Projection {
    fn load(weights: &Weights, name: &str, out: usize, input: usize, bias: bool) -> Result<Self, ModelError> {
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
    pub fn new(config: DecoderConfig, weights: &Weights) -> Result<Self, ModelError> {
        let DecoderConfig { vocabulary, width, heads, kv_heads, head_dim, .. } = config;
        let (FeedForward::Gated { bias: feed_forward_bias, .. } | FeedForward::Plain { bias: feed_forward_bias, .. }) =
            config.feed_forward;
        let (inner, Positions::Rotary(rotary)) = (config.feed_forward.width(), &config.positions) else {
            return Err(ModelError::OfTensors);
        };
        if !config.is_like_llama() {
            return Err(ModelError::OfTensors);
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
            .collect::<Result<_, ModelError>>()?;
        let norm = weights.get("model.norm.weight", &[width])?;
        Ok(Self { config, embedding, layers, norm, output, rotary })
    }

    /// The description it was built from.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    pub(crate) fn rotary(&self) -> &Tables {
        &self.rotary
    }

    fn normalize(&self, x: &Tensor, weight: &Tensor) -> candle_core::Result<Tensor> {
        match self.config.norm {
            Norm::Rms { epsilon } | Norm::Layer { epsilon } => rms_norm(x, weight, epsilon as f32),
        }
    }

    /// The rows of a batch after `held` tokens, whose keys and values go into `caches`.
    fn forward(&self, held: usize, caches: &mut [KvCache], batch: &Batch<'_>) -> candle_core::Result<Vec<f32>> {
        let DecoderConfig { heads, kv_heads, head_dim, .. } = self.config;
        let m = batch.tokens.len();
        let visible = batch.visibility();
        let (cos, sin) = self.rotary.at(&batch.positions(held))?;
        let split = |x: Tensor, heads: usize| x.reshape((1, m, heads, head_dim));
        // Positions are turned in f32 whatever the weights are.
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
        if batch.wanted == Wanted::Last {
            h = h.narrow(0, m - 1, 1)?;
        }
        let rows = linear(&self.normalize(&h.contiguous()?, &self.norm)?, &self.output)?;
        rows.to_dtype(DType::F32)?.flatten_all()?.to_vec1()
    }
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
        if capacity > context {
            return Err(ModelError::ContextFull { tokens: capacity, capacity: context });
        }
        let caches = self
            .layers
            .iter()
            .map(|_| KvCache::new(capacity.max(1), kv_heads, head_dim, self.embedding.dtype()))
            .collect::<candle_core::Result<_>>()?;
        Ok(Box::new(DecoderSequence { decoder: self, caches, length: 0, capacity }))
    }
}

struct DecoderSequence {
    decoder: Arc<Decoder>,
    caches: Vec<KvCache>,
    length: usize,
    capacity: usize,
}

impl Sequence for DecoderSequence {
    fn len(&self) -> usize {
        self.length
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let size = self.decoder.config.vocabulary;
        let length = batch.admitted(size, self.length, self.capacity)?;
        if batch.tokens.is_empty() {
            rows.set(Vec::new(), size);
            return Ok(());
        }
        rows.set(self.decoder.forward(self.length, &mut self.caches, batch)?, size);
        self.length = length;
        Ok(())
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.length, "truncating {} tokens to {length}", self.length);
        self.length = length;
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let length = kept(self.length, from, path);
        if length > from {
            self.caches.iter_mut().try_for_each(|cache| cache.keep(from, path))?;
        }
        self.length = length;
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let caches = self.caches.iter().map(KvCache::fork).collect::<candle_core::Result<_>>()?;
        let (length, capacity) = (self.length, self.capacity);
        Ok(Box::new(Self { decoder: self.decoder.clone(), caches, length, capacity }))
    }
}
