//! Models that are called with tokens and the number of tokens already read: `forward(tokens, held)`.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models;

use crate::config::Config;
use crate::decoder::{Decoder, Loaded, model};

macro_rules! forward_with_offset {
    ($($model:ty),* $(,)?) => {
        $(impl Decoder for $model {
            fn read(&mut self, tokens: &Tensor, held: usize) -> Result<Tensor> {
                self.forward(tokens, held)
            }
        })*
    };
}

forward_with_offset!(
    models::gemma::Model,
    models::mixtral::Model,
    models::phi3::Model,
    models::qwen2_moe::Model,
    models::starcoder2::Model,
);

impl Decoder for models::phi::Model {
    // Its mask only fits the beginning of a text.
    const READS_ON: bool = false;

    fn read(&mut self, tokens: &Tensor, _: usize) -> Result<Tensor> {
        self.forward(tokens)
    }
}

/// A decoder with the sizes from its configuration.
fn sized(decoder: impl Decoder, config: &Config, weights: &VarBuilder<'_>) -> Loaded {
    Ok(model(decoder, weights.device(), config.number("vocab_size")?, config.context()?))
}

pub(super) fn gemma(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    let described = config.copy().or("attention_bias", false);
    let described = described.or("hidden_activation", "gelu_pytorch_tanh");
    let mut candle: models::gemma::Config = described.of()?;
    // Its files have both fields; the second is the right one.
    candle.hidden_act = None;
    sized(models::gemma::Model::new(false, &candle, weights.clone())?, config, &weights)
}

pub(super) fn mixtral(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.has_usual_heads()?;
    let context = config.context()?;
    let described = config.copy().or("use_flash_attn", false).with("sliding_window", context);
    let candle: models::mixtral::Config = described.of()?;
    sized(models::mixtral::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn phi(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    let described = config.copy().or("qk_layernorm", false).or("tie_word_embeddings", false);
    let candle: models::phi::Config = described.of()?;
    sized(models::phi::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn phi3(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.has_usual_heads()?;
    let candle: models::phi3::Config = config.of()?;
    sized(models::phi3::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn qwen2_moe(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.has_usual_heads()?;
    config.is("mlp_only_layers", &[serde_json::json!([])])?;
    config.is("qkv_bias", &[true.into()])?;
    let context = config.context()?;
    // candle applies the window even if the file says that it is not used.
    let described = config.copy().with("sliding_window", context).or("use_sliding_window", false);
    let candle: models::qwen2_moe::Config = described.or("max_window_layers", 0).of()?;
    sized(models::qwen2_moe::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn starcoder2(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.has_usual_heads()?;
    config.is("tie_word_embeddings", &[true.into()])?;
    let candle: models::starcoder2::Config = config.of()?;
    sized(models::starcoder2::Model::new(&candle, weights.clone())?, config, &weights)
}
