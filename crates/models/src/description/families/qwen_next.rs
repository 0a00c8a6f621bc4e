//! Qwen3-Next and Qwen3.5: gated delta nets, and gated attention in every few layers.

use super::fields::Fields;
use super::mixture::{self, GATE_UP_DOWN, dense, mixture};
use super::prefixed::Prefixed;
use super::rotary::{Elsewhere, longest, parameters, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Attention, Block, DecoderConfig, DeltaNet, Dense, FeedForward, Mixer, Norm, Positions, QueryKeyNorm, RecurrentHeads,
};
use crate::description::parts::{
    AttentionParts, DeltaNetParts, FeedForwardParts, Layer, MixerParts, Parts, Projection, Scales, Taps,
};
use crate::error::ModelError;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let model = fields.model_type()?;
    let (width, heads) = (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?);
    let layers = fields.layers(&["num_hidden_layers"])?;
    let context = fields.size(&["max_position_embeddings"])?;
    let head_dim = fields.size_or(&["head_dim"])?.unwrap_or(256);
    fields.refuse("attn_output_gate", |value| value == true)?;
    fields.refuse("output_gate_type", |value| value == "swish")?;
    fields.refuse("mamba_ssm_dtype", |value| value == "float32")?;
    let theta = fields.number("rope_theta")?.unwrap_or(10_000.0);
    let elsewhere = Elsewhere { theta, head_dim, share: Some(0.25), context };
    // Of texts without pictures, the three positions of a token are the same.
    let rotary = vec![rotary(fields, parameters(fields)?.as_ref(), &elsewhere)?];
    let bias = fields.flag("attention_bias", false)?;
    let attention = Attention {
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim,
        bias,
        output_bias: bias,
        query_key_norm: Some(QueryKeyNorm::Heads),
        gated: true,
        ..Attention::default()
    };
    let net = DeltaNet {
        heads: RecurrentHeads {
            heads: fields.size_or(&["linear_num_value_heads"])?.unwrap_or(32),
            key_heads: fields.size_or(&["linear_num_key_heads"])?.unwrap_or(16),
            key_dim: fields.size_or(&["linear_key_head_dim"])?.unwrap_or(128),
            value_dim: fields.size_or(&["linear_value_head_dim"])?.unwrap_or(128),
            strided: fields.flag("value_heads_are_strided", false)?,
        },
        taps: fields.size_or(&["linear_conv_kernel_dim"])?.unwrap_or(4),
    };
    let activation = fields.activation(&["hidden_act"], "silu")?;
    let network = || {
        let width = fields.size(&["intermediate_size"])?;
        Ok::<_, String>(FeedForward::Dense(Dense { width, activation, gated: true, bias: false }))
    };
    let attends = attends(fields, layers)?;
    let block = |layer: usize| {
        let mixture = mixture(model, fields, layer)?.map(FeedForward::Mixture);
        Ok(Block {
            mixer: match attends[layer] {
                true => Mixer::Attention(attention.clone()),
                false => Mixer::DeltaNet(net),
            },
            feed_forward: mixture.map_or_else(network, Ok)?,
        })
    };
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: longest(context, &rotary),
        norm: Norm::Rms { epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) },
        positions: Positions::Rotary(rotary),
        blocks: (0..layers).map(block).collect::<Result<_, String>>()?,
        tied: fields.flag("tie_word_embeddings", false)?,
        ..DecoderConfig::default()
    })
}

/// The layers with attention.
fn attends(fields: &Fields, layers: usize) -> Result<Vec<bool>, String> {
    let kinds = [("full_attention", true), ("linear_attention", false)];
    let listed = fields.layer_types(&["layer_types"], layers, &kinds, "full_attention and linear_attention")?;
    if let Some(listed) = listed {
        return Ok(listed);
    }
    let every = fields.size_or(&["full_attention_interval"])?.unwrap_or(4).max(1);
    Ok((1..=layers).map(|layer| layer.is_multiple_of(every)).collect())
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let model = fields.model_type().unwrap_or_default();
    let is = |flag: &str| fields.flag(flag, false).unwrap_or_default();
    let (norms_are_whole, decays_are_whole) = (is("norms_are_whole"), is("decays_are_whole"));
    let names = Prefixed::new(checkpoint, &["model.", "model.language_model.", ""], "norm.weight");
    let &DecoderConfig { width, norm, .. } = config;
    let scales = |name: &str, length: usize| -> Result<Scales, ModelError> {
        let mut scales = names.scales(name, length, norm, false)?;
        if !norms_are_whole {
            scales.weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(scales)
    };
    let layer = |i: usize| {
        let block = &config.blocks[i];
        let name = |part: &str| format!("layers.{i}.{part}");
        let mixer = match &block.mixer {
            Mixer::Attention(of) => MixerParts::Attention(AttentionParts {
                query_norm: Some(scales(&name("self_attn.q_norm"), of.head_dim)?.weight),
                key_norm: Some(scales(&name("self_attn.k_norm"), of.head_dim)?.weight),
                ..names.attention(&name("self_attn"), "o_proj", width, of)?
            }),
            Mixer::DeltaNet(of) => {
                MixerParts::DeltaNet(Box::new(delta_net(&names, &name("linear_attn"), width, of, decays_are_whole)?))
            }
            _ => unreachable!("Qwen has no other layers"),
        };
        Ok(Layer {
            mixer_norm: Some(scales(&name("input_layernorm"), width)?),
            mixer,
            after_mixer: None,
            feed_forward_norm: Some(scales(&name("post_attention_layernorm"), width)?),
            feed_forward: match &block.feed_forward {
                FeedForward::Dense(of) => {
                    FeedForwardParts::Dense(dense(&names, &name("mlp"), GATE_UP_DOWN, width, of)?)
                }
                FeedForward::Mixture(of) => {
                    let parts = mixture::parts(&names, model, &format!("layers.{i}"), width, of)?;
                    FeedForwardParts::Mixture(Box::new(parts))
                }
                FeedForward::None => FeedForwardParts::None,
                _ => unreachable!("these models have no other feed-forward parts"),
            },
            after_feed_forward: None,
        })
    };
    let parts = names.parts(config, layer, "embed_tokens.weight", "lm_head.weight", "norm", false)?;
    Ok(Parts { norm: scales("norm", width)?, ..parts })
}

/// The weights of a gated delta net, whose names begin with `prefix`.
fn delta_net(
    names: &Prefixed<'_>,
    prefix: &str,
    width: usize,
    of: &DeltaNet,
    decays_are_whole: bool,
) -> Result<DeltaNetParts, ModelError> {
    let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = of.heads;
    let (columns, values) = (of.columns(), heads * value_dim);
    let name = |part: &str| format!("{prefix}.{part}");
    let project = |part: &str, out: usize| names.projection(&name(part), out, width, false);
    // Some files have all of a key head next to each other.
    let per_group = heads / key_heads;
    let gathered = |all: &Projection, group: usize, parts: &[(usize, usize)]| {
        let rows = parts.iter().flat_map(|&(from, count)| {
            (0..key_heads).flat_map(move |head| head * group + from..head * group + from + count)
        });
        all.gather(rows.collect::<Vec<_>>().into_iter())
    };
    let (input, gate) = if names.has(&name("in_proj_qkvz.weight")) {
        let (of_key, of_value) = (key_dim, per_group * value_dim);
        let group = 2 * of_key + 2 * of_value;
        let all = project("in_proj_qkvz", key_heads * group)?;
        let input = gathered(&all, group, &[(0, of_key), (of_key, of_key), (2 * of_key, of_value)]);
        (input, gathered(&all, group, &[(2 * of_key + of_value, of_value)]))
    } else {
        (project("in_proj_qkv", columns)?, project("in_proj_z", values)?)
    };
    let (strength, rate) = if names.has(&name("in_proj_ba.weight")) {
        let all = project("in_proj_ba", 2 * heads)?;
        let group = 2 * per_group;
        (gathered(&all, group, &[(0, per_group)]), gathered(&all, group, &[(per_group, per_group)]))
    } else {
        (project("in_proj_b", heads)?, project("in_proj_a", heads)?)
    };
    Ok(DeltaNetParts {
        input,
        gate,
        strength,
        rate,
        taps: Taps::new(&names.taps(&name("conv1d.weight"), columns, of.taps)?, columns, None),
        decay: names.decays(&name("A_log"), heads, decays_are_whole)?,
        rate_bias: names.vector(&name("dt_bias"), heads)?,
        norm: names.vector(&name("norm.weight"), value_dim)?,
        output: names.projection(&name("out_proj"), width, values, false)?,
    })
}
