//! Mamba, which has a state instead of a cache. Its size does not depend on the length of the text, so the context is
//! not limited.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::mamba::{Config as Described, Model, State};

use crate::config::Config;
use crate::decoder::{Decoder, Loaded, model};

/// More than the length of any text.
const CONTEXT: usize = 1 << 20;

struct MambaState {
    mamba: Arc<Model>,
    state: State,
}

impl Clone for MambaState {
    fn clone(&self) -> Self {
        let State { hs, prev_xs, pos } = &self.state;
        let state = State { hs: hs.clone(), prev_xs: prev_xs.clone(), pos: *pos };
        Self { mamba: self.mamba.clone(), state }
    }
}

impl Decoder for MambaState {
    fn read(&mut self, tokens: &Tensor, _: usize) -> Result<Tensor> {
        let mut row = None;
        for token in tokens.flatten_all()?.chunk(tokens.elem_count(), 0)? {
            row = Some(self.mamba.forward(&token, &mut self.state)?);
        }
        row.ok_or_else(|| candle_core::Error::msg("a call without tokens"))
    }
}

pub(super) fn load(config: &Config, weights: VarBuilder<'_>) -> Loaded {
    config.is("state_size", &[16.into()])?;
    config.is("conv_kernel", &[4.into()])?;
    config.is("expand", &[2.into()])?;
    config.is("use_bias", &[false.into()])?;
    config.is("use_conv_bias", &[true.into()])?;
    config.is("hidden_act", &["silu".into()])?;
    config.is("tie_word_embeddings", &[true.into()])?;
    config.is("layer_norm_epsilon", &[1e-5.into()])?;
    let (width, layers) = (config.number("hidden_size")?, config.number("num_hidden_layers")?);
    config.is("time_step_rank", &[width.div_ceil(16).into(), "auto".into()])?;
    config.is("intermediate_size", &[(2 * width).into()])?;
    let vocabulary = config.number("vocab_size")?;
    let described = Described { d_model: width, n_layer: layers, vocab_size: vocabulary, pad_vocab_size_multiple: 1 };
    // The names in the file are those of transformers.
    let named = |name: &str| match name {
        "embedding.weight" => "backbone.embeddings.weight".to_owned(),
        _ => format!("backbone.{name}"),
    };
    let (kind, device) = (weights.dtype(), weights.device().clone());
    let mamba = Arc::new(Model::new(&described, weights.rename_f(named))?);
    let state = State::new(1, &described, kind, &device)?;
    Ok(model(MambaState { mamba, state }, &device, vocabulary, CONTEXT))
}
