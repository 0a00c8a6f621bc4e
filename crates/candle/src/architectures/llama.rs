//! Llama, whose cache is separate from the weights.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};

use crate::config::Config;
use crate::decoder::{Decoder, Loaded, model};

#[derive(Clone)]
struct LlamaState {
    llama: Arc<Llama>,
    cache: Cache,
}

impl Decoder for LlamaState {
    fn read(&mut self, tokens: &Tensor, held: usize) -> Result<Tensor> {
        self.llama.forward(tokens, held, &mut self.cache)
    }
}

pub(super) fn load(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.is("attention_bias", &[false.into()])?;
    config.is("mlp_bias", &[false.into()])?;
    config.is("hidden_act", &["silu".into()])?;
    config.has_usual_heads()?;
    let candle = config.of::<LlamaConfig>()?.into_config(false);
    let llama = Arc::new(Llama::load(weights.clone(), &candle)?);
    let cache = Cache::new(true, weights.dtype(), &candle, weights.device())?;
    Ok(model(LlamaState { llama, cache }, weights.device(), config.number("vocab_size")?, config.context()?))
}
