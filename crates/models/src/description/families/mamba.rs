//! Mamba-2: state-space models in every layer, and nothing else.

use super::fields::Fields;
use super::prefixed::Prefixed;
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{Block, DecoderConfig, FeedForward, Mamba, Mixer, Norm, Positions, RecurrentHeads};
use crate::description::parts::{FeedForwardParts, Layer, MambaParts, MixerParts, Parts, Taps};
use crate::error::ModelError;

/// The most tokens of a text. The models have no limit of their own.
const CONTEXT: usize = 1 << 20;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let width = fields.size(&["hidden_size"])?;
    let layers = fields.layers(&["num_hidden_layers"])?;
    fields.activation(&["hidden_act"], "silu").and_then(|activation| match activation {
        crate::description::config::Activation::Silu => Ok(()),
        _ => Err("a mamba2 model with another activation than silu is not supported".to_owned()),
    })?;
    fields.refuse("rms_norm", |value| value == true)?;
    fields.refuse("norm_before_gate", |value| value == false)?;
    no_limit(fields)?;
    let heads = RecurrentHeads {
        heads: fields.size_or(&["num_heads"])?.unwrap_or(128),
        key_heads: fields.size_or(&["n_groups"])?.unwrap_or(8),
        key_dim: fields.size_or(&["state_size"])?.unwrap_or(128),
        value_dim: fields.size_or(&["head_dim"])?.unwrap_or(64),
        strided: false,
    };
    let mamba = Mamba {
        heads,
        taps: fields.size_or(&["conv_kernel"])?.unwrap_or(4),
        taps_bias: fields.flag("use_conv_bias", true)?,
        bias: fields.flag("use_bias", false)?,
    };
    let block = Block { mixer: Mixer::Mamba(mamba), feed_forward: FeedForward::None };
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: CONTEXT,
        norm: Norm::Rms { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        positions: Positions::Rotary(Vec::new()),
        blocks: vec![block; layers],
        tied: fields.flag("tie_word_embeddings", false)?,
        ..DecoderConfig::default()
    })
}

/// Refuses a limit of time steps, which some implementations apply to prompts only.
pub(super) fn no_limit(fields: &Fields) -> Result<(), String> {
    // An infinite bound is null, or an object that names it.
    let is_infinite = |value: &serde_json::Value| value.is_null() || value.is_object();
    fields.refuse("time_step_limit", |value| {
        value.as_array().is_some_and(|limit| matches!(&limit[..], [from, to] if from == 0.0 && is_infinite(to)))
    })
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["backbone.", "model.", ""], "norm_f.weight");
    let &DecoderConfig { width, norm, .. } = config;
    let decays_are_whole = fields.flag("decays_are_whole", false).unwrap_or_default();
    let layer = |i: usize| {
        let Mixer::Mamba(of) = &config.blocks[i].mixer else { unreachable!("every layer is one") };
        let name = |part: &str| format!("layers.{i}.{part}");
        Ok(Layer {
            mixer_norm: Some(names.scales(&name("norm"), width, norm, false)?),
            mixer: MixerParts::Mamba(Box::new(mixer(&names, &name("mixer"), width, of, decays_are_whole)?)),
            after_mixer: None,
            feed_forward_norm: None,
            feed_forward: FeedForwardParts::None,
            after_feed_forward: None,
        })
    };
    names.parts(config, layer, "embeddings.weight", "lm_head.weight", "norm_f", false)
}

/// The weights of a state-space model, whose names begin with `prefix`.
pub(super) fn mixer(
    names: &Prefixed<'_>,
    prefix: &str,
    width: usize,
    of: &Mamba,
    decays_are_whole: bool,
) -> Result<MambaParts, ModelError> {
    let RecurrentHeads { heads, value_dim, .. } = of.heads;
    let (columns, values) = (of.columns(), heads * value_dim);
    let name = |part: &str| format!("{prefix}.{part}");
    let bias = of.taps_bias.then(|| names.vector(&name("conv1d.bias"), columns)).transpose()?;
    Ok(MambaParts {
        input: names.projection(&name("in_proj"), values + columns + heads, width, of.bias)?,
        taps: Taps::new(&names.taps(&name("conv1d.weight"), columns, of.taps)?, columns, bias),
        decay: names.decays(&name("A_log"), heads, decays_are_whole)?,
        rate_bias: names.vector(&name("dt_bias"), heads)?,
        skip: names.vector(&name("D"), heads)?,
        norm: names.vector(&name("norm.weight"), values)?,
        output: names.projection(&name("out_proj"), width, values, of.bias)?,
    })
}
