//! Falcon like its first 7B: rotary positions, one head of keys and values, attention and the feed-forward part in
//! parallel.
//!
//! candle uses the tanh approximation of GELU although the model was trained with GELU: logits of a random model differ
//! by 1e-3. The decoder of `verdigris-models` uses GELU.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::falcon;
use serde_json::Value;

use crate::config::Config;
use crate::decoder::{Decoder, Loaded, model};

impl Decoder for falcon::Falcon {
    // Its mask only fits the beginning of a text.
    const READS_ON: bool = false;

    fn read(&mut self, tokens: &Tensor, _: usize) -> Result<Tensor> {
        self.forward(tokens)
    }
}

/// The number of positions in its tables.
const CONTEXT: usize = 2048;

pub(super) fn load(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    let heads: Value = config.number("num_attention_heads")?.into();
    if config.get("multi_query") == Some(&true.into()) {
        config.is("num_kv_heads", &[1.into(), heads])?;
    }
    config.is("activation", &["gelu".into()])?;
    config.is("ffn_hidden_size", &[(4 * config.number("hidden_size")?).into()])?;
    let described = config.copy().or("bos_token_id", 0).or("eos_token_id", 0).or("use_cache", true);
    let candle: falcon::Config = described.of()?;
    candle.validate()?;
    let context = config.number("max_position_embeddings").map_or(CONTEXT, |positions| positions.min(CONTEXT));
    let decoder = falcon::Falcon::load(weights.clone(), candle)?;
    Ok(model(decoder, weights.device(), config.number("vocab_size")?, context))
}
