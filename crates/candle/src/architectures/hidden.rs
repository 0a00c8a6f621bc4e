//! Models that candle also has without their output matrix. They return its input for every token, so a separate output
//! matrix gives the rows of all tokens in one call.

use candle_core::{Module, Tensor};
use candle_nn::{Linear, VarBuilder, linear_no_bias};
use candle_transformers::models::{glm4_new, qwen2, qwen3, qwen3_moe};

use crate::config::Config;
use crate::decoder::{Decoder, Loaded, model};

/// A model up to its output matrix.
trait Hidden: Clone + Send + Sync + 'static {
    const SHARES_CACHE: bool = false;

    /// The input of the output matrix, `[1, count, width]`.
    fn hidden(&mut self, tokens: &Tensor, held: usize) -> candle_core::Result<Tensor>;
}

impl Hidden for qwen2::Model {
    fn hidden(&mut self, tokens: &Tensor, held: usize) -> candle_core::Result<Tensor> {
        self.forward(tokens, held, None)
    }
}

impl Hidden for qwen3::Model {
    fn hidden(&mut self, tokens: &Tensor, held: usize) -> candle_core::Result<Tensor> {
        self.forward(tokens, held)
    }
}

impl Hidden for qwen3_moe::Model {
    fn hidden(&mut self, tokens: &Tensor, held: usize) -> candle_core::Result<Tensor> {
        self.forward(tokens, held)
    }
}

impl Hidden for glm4_new::Model {
    const SHARES_CACHE: bool = true;

    fn hidden(&mut self, tokens: &Tensor, held: usize) -> candle_core::Result<Tensor> {
        self.forward(tokens, held)
    }
}

#[derive(Clone)]
struct WithOutput<H> {
    hidden: H,
    output: Linear,
}

impl<H: Hidden> Decoder for WithOutput<H> {
    const SHARES_CACHE: bool = H::SHARES_CACHE;

    fn read(&mut self, tokens: &Tensor, held: usize) -> candle_core::Result<Tensor> {
        let hidden = self.hidden.hidden(tokens, held)?;
        self.output.forward(&hidden.narrow(1, hidden.dim(1)? - 1, 1)?)
    }

    fn read_all(&mut self, tokens: &Tensor, held: usize) -> Option<candle_core::Result<Tensor>> {
        Some(self.hidden.hidden(tokens, held).and_then(|hidden| self.output.forward(&hidden)))
    }
}

/// A model with its output matrix, which is the embedding if the files have no other.
fn with_output(hidden: impl Hidden, config: &Config, weights: &VarBuilder<'_>) -> Loaded {
    let (width, vocabulary) = (config.number("hidden_size")?, config.number("vocab_size")?);
    let output = linear_no_bias(width, vocabulary, weights.pp("lm_head"))?;
    Ok(model(WithOutput { hidden, output }, weights.device(), vocabulary, config.context()?))
}

/// Adds the fields that the configurations of Qwen's models may omit.
fn qwen(config: &Config) -> Result<Config, String> {
    let described = config.copy().or("use_sliding_window", false).or("max_window_layers", 0);
    // Texts are limited to the length of a window that is used; candle also applies a window that is not used.
    Ok(described.with("sliding_window", config.context()?).or("attention_bias", false).or("tie_word_embeddings", false))
}

pub(super) fn qwen2(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.has_usual_heads()?;
    let candle: qwen2::Config = qwen(config)?.of()?;
    with_output(qwen2::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn qwen3(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    let candle: qwen3::Config = qwen(config)?.of()?;
    with_output(qwen3::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn qwen3_moe(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.is("mlp_only_layers", &[serde_json::json!([])])?;
    let candle: qwen3_moe::Config = qwen(config)?.of()?;
    with_output(qwen3_moe::Model::new(&candle, weights.clone())?, config, &weights)
}

pub(super) fn glm4(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    let described = config.copy().or("tie_word_embeddings", false);
    let candle: glm4_new::Config = described.of()?;
    with_output(glm4_new::Model::new(&candle, weights.clone())?, config, &weights)
}
