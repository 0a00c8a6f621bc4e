//! A decoder built from candle's operations, with gradients to every weight: Llama, and architectures that differ from
//! it only in shape and biases.
//!
//! candle's fused operations (`rms_norm`, `rope`, `softmax_last_dim`) have no backward pass and silently cut gradients,
//! so this decoder consists of operations that have one. It computes the same as the decoder of `verdigris-models`, up
//! to rounding; a test compares the two, and another compares every gradient with finite differences.

use candle_core::{D, Device, Tensor};
use candle_nn::ops::{rms_norm_slow, silu, softmax};
use candle_nn::rotary_emb::rope_slow;
use verdigris_models::config::{Activation, Attention, DecoderConfig, Dense, Norm, Positions, Rotary};
use verdigris_models::rotary::Angles;

use crate::error::TrainError;
use crate::weights::Weights;

/// A decoder-only transformer: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct Decoder {
    config: DecoderConfig,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    output: Tensor,
    /// Cosines and sines of all positions of a context: `context x pairs` in f32.
    rotary: [Tensor; 2],
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
        let product = x.matmul(&self.weight.t()?)?;
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
        let DecoderConfig { vocabulary, width, .. } = config;
        let (Some((shape, network)), Positions::Rotary(rotary)) = (config.alike(), &config.positions) else {
            return Err(TrainError::Architecture);
        };
        if !is_like_llama(&config) {
            return Err(TrainError::Architecture);
        }
        let &Attention { heads, kv_heads, head_dim, .. } = shape;
        let inner = network.width;
        let rotary = rotary_tables(&rotary[0], head_dim, config.context)?;
        let embedding = weights.get("model.embed_tokens.weight", &[vocabulary, width])?;
        let output =
            if config.tied { embedding.clone() } else { weights.get("lm_head.weight", &[vocabulary, width])? };
        let layers = (0..config.blocks.len())
            .map(|i| {
                let name = |part: &str| format!("model.layers.{i}.{part}");
                let attention = |part: &str, out, input| {
                    let bias = if part == "o" { shape.output_bias } else { shape.bias };
                    Projection::load(weights, &name(&format!("self_attn.{part}_proj")), out, input, bias)
                };
                let mlp = |part: &str, out, input| {
                    Projection::load(weights, &name(&format!("mlp.{part}_proj")), out, input, network.bias)
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

    /// The logits of every position: token ids `b x t` (u32) give `b x t x vocabulary`.
    ///
    /// # Errors
    /// If candle fails, as it does for ids outside the vocabulary.
    pub fn forward_differentiable(&self, ids: &Tensor) -> candle_core::Result<Tensor> {
        let (b, t) = ids.dims2()?;
        let width = self.config.width;
        let (&Attention { heads, kv_heads, head_dim, .. }, _) = self.config.alike().expect("a decoder like Llama's");
        let kind = self.embedding.dtype();
        let [cos, sin] = &self.rotary;
        let (cos, sin) = (cos.narrow(0, 0, t)?.to_dtype(kind)?, sin.narrow(0, 0, t)?.to_dtype(kind)?);
        let causal: Vec<f32> = (0..t * t).map(|i| if i % t <= i / t { 0.0 } else { f32::NEG_INFINITY }).collect();
        let causal = Tensor::from_vec(causal, (t, t), ids.device())?.to_dtype(kind)?;
        let split = |x: Tensor, heads: usize| x.reshape((b, t, heads, head_dim))?.transpose(1, 2)?.contiguous();
        let norm = |x: &Tensor, weight: &Tensor| match self.config.norm {
            Norm::Rms { epsilon } | Norm::Layer { epsilon } => rms_norm_slow(x, weight, epsilon as f32),
        };
        let mut h = self.embedding.index_select(&ids.flatten_all()?, 0)?;
        for layer in &self.layers {
            let x = norm(&h, &layer.attention_norm)?;
            let query = rope_slow(&split(layer.query.apply(&x)?, heads)?, &cos, &sin)?;
            let key = rope_slow(&split(layer.key.apply(&x)?, kv_heads)?, &cos, &sin)?;
            let value = split(layer.value.apply(&x)?, kv_heads)?;
            // Query heads that share keys are grouped, so no key is copied.
            let group = heads / kv_heads;
            let query = query.contiguous()?.reshape((b, kv_heads, group * t, head_dim))?;
            let scores = (query.matmul(&key.transpose(2, 3)?.contiguous()?)? / (head_dim as f64).sqrt())?;
            let scores = scores.reshape((b, kv_heads, group, t, t))?.broadcast_add(&causal)?;
            let weights = softmax(&scores, D::Minus1)?.reshape((b, kv_heads, group * t, t))?;
            let mixed = weights.matmul(&value)?.reshape((b, heads, t, head_dim))?;
            let mixed = mixed.transpose(1, 2)?.contiguous()?.reshape((b * t, heads * head_dim))?;
            h = (h + layer.output.apply(&mixed)?)?;
            let x = norm(&h, &layer.feed_forward_norm)?;
            h = (&h + layer.down.apply(&(silu(&layer.gate.apply(&x)?)? * layer.up.apply(&x)?)?)?)?;
        }
        let logits = norm(&h.reshape((b * t, width))?, &self.norm)?.matmul(&self.output.t()?)?;
        logits.reshape((b, t, self.config.vocabulary))
    }
}

/// Cosines and sines of all positions of a context: `context x pairs` in f32.
fn rotary_tables(rotary: &Rotary, head_dim: usize, context: usize) -> candle_core::Result<[Tensor; 2]> {
    let angles = Angles::new(rotary, head_dim, context);
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    (0..context as u32).for_each(|position| angles.extend(position, &mut cos, &mut sin));
    let table = |values: Vec<f32>| {
        let pairs = values.len() / context;
        Tensor::from_vec(values, (context, pairs), &Device::Cpu)
    };
    Ok([table(cos)?, table(sin)?])
}

/// Whether it differs from Llama only in shape and biases.
fn is_like_llama(config: &DecoderConfig) -> bool {
    let DecoderConfig { positions: Positions::Rotary(rotary), norm: Norm::Rms { .. }, .. } = config else {
        return false;
    };
    let Some((shape, network)) = config.alike() else { return false };
    let &Attention { heads, kv_heads, head_dim, bias, output_bias, .. } = shape;
    let attention = Attention { heads, kv_heads, head_dim, bias, output_bias, ..Attention::default() };
    let network = Dense { activation: Activation::Silu, gated: true, ..*network };
    let plain = DecoderConfig {
        vocabulary: config.vocabulary,
        width: config.width,
        context: config.context,
        norm: config.norm,
        positions: config.positions.clone(),
        tied: config.tied,
        ..DecoderConfig::default()
    };
    let plain = plain.with_layers(config.blocks.len(), attention, network);
    *rotary == [Rotary::new(rotary[0].theta)] && *config == plain
}
