//! The decoder for training: whole sequences at once, and gradients to every weight.
//!
//! candle's fused operations (`rms_norm`, `rope`, `softmax_last_dim`) have no backward pass and silently cut gradients,
//! so this path consists of operations that have one. It computes the same as [`Decoder`], up to rounding; a test
//! compares the two, and another compares every gradient with finite differences.

use candle_core::{D, DType, Result, Tensor};
use candle_nn::ops::{rms_norm_slow, silu, softmax};
use candle_nn::rotary_emb::rope_slow;

use verdigris_models::config::{DecoderConfig, Norm};

use super::{Decoder, Projection};

impl Decoder {
    /// The logits of every position: token ids `b x t` (u32) give `b x t x vocabulary`.
    ///
    /// # Errors
    /// If candle fails, as it does for ids outside the vocabulary.
    pub fn forward_differentiable(&self, ids: &Tensor) -> Result<Tensor> {
        let (b, t) = ids.dims2()?;
        let DecoderConfig { heads, kv_heads, head_dim, width, .. } = self.config;
        let positions: Vec<u32> = (0..t as u32).collect();
        let (cos, sin) = self.rotary_tables(&positions)?;
        let causal: Vec<f32> = (0..t * t).map(|i| if i % t <= i / t { 0.0 } else { f32::NEG_INFINITY }).collect();
        let causal = Tensor::from_vec(causal, (t, t), ids.device())?.to_dtype(self.embedding.dtype())?;
        let split = |x: Tensor, heads: usize| x.reshape((b, t, heads, head_dim))?.transpose(1, 2)?.contiguous();
        let norm = |x: &Tensor, weight: &Tensor| match self.config.norm {
            Norm::Rms { epsilon } | Norm::Layer { epsilon } => rms_norm_slow(x, weight, epsilon as f32),
        };
        let mut h = self.embedding.index_select(&ids.flatten_all()?, 0)?;
        for layer in &self.layers {
            let x = norm(&h, &layer.attention_norm)?;
            let query = rope_slow(&split(project(&layer.query, &x)?, heads)?, &cos, &sin)?;
            let key = rope_slow(&split(project(&layer.key, &x)?, kv_heads)?, &cos, &sin)?;
            let value = split(project(&layer.value, &x)?, kv_heads)?;
            // Query heads that share keys are grouped, so no key is copied.
            let group = heads / kv_heads;
            let query = query.contiguous()?.reshape((b, kv_heads, group * t, head_dim))?;
            let scores = (query.matmul(&key.transpose(2, 3)?.contiguous()?)? / (head_dim as f64).sqrt())?;
            let scores = scores.reshape((b, kv_heads, group, t, t))?.broadcast_add(&causal)?;
            let weights = softmax(&scores, D::Minus1)?.reshape((b, kv_heads, group * t, t))?;
            let mixed = weights.matmul(&value)?.reshape((b, heads, t, head_dim))?;
            let mixed = mixed.transpose(1, 2)?.contiguous()?.reshape((b * t, heads * head_dim))?;
            h = (h + project(&layer.output, &mixed)?)?;
            let x = norm(&h, &layer.feed_forward_norm)?;
            h = (&h + project(&layer.down, &(silu(&project(&layer.gate, &x)?)? * project(&layer.up, &x)?)?)?)?;
        }
        let logits = norm(&h.reshape((b * t, width))?, &self.norm)?.matmul(&self.output.t()?)?;
        logits.reshape((b, t, self.config.vocabulary))
    }

    fn rotary_tables(&self, positions: &[u32]) -> Result<(Tensor, Tensor)> {
        let (cos, sin) = self.rotary.at(positions)?;
        let dtype: DType = self.embedding.dtype();
        Ok((cos.to_dtype(dtype)?, sin.to_dtype(dtype)?))
    }
}

fn project(projection: &Projection, x: &Tensor) -> Result<Tensor> {
    let product = x.matmul(&projection.weight.t()?)?;
    match &projection.bias {
        Some(bias) => product.broadcast_add(bias),
        None => Ok(product),
    }
}
