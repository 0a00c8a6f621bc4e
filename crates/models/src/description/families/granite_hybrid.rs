//! Granite 4: state-space models, attention in some layers, and in some models experts next to a shared network.

use super::fields::Fields;
use super::mamba;
use super::mixture::{GATE_UP_DOWN, experts};
use super::prefixed::Prefixed;
use super::rotary::{Elsewhere, longest, parameters, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Attention, Block, DecoderConfig, Dense, FeedForward, Mamba, Mixer, Mixture, Norm, Positions, RecurrentHeads,
    Router, Score, Shared,
};
use crate::description::parts::{DenseParts, FeedForwardParts, Layer, MixerParts, MixtureParts, Parts};
use crate::error::ModelError;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let (width, heads) = (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?);
    let layers = fields.layers(&["num_hidden_layers"])?;
    let context = fields.size(&["max_position_embeddings"])?;
    let head_dim = Fields::head_dim(width, heads)?;
    let theta = fields.number("rope_theta")?.unwrap_or(10_000.0);
    let elsewhere = Elsewhere { theta, head_dim, share: None, context };
    let rotary = vec![rotary(fields, parameters(fields)?.as_ref(), &elsewhere)?];
    let has_positions = fields.text("position_embedding_type")? == Some("rope");
    let bias = fields.flag("attention_bias", false)?;
    let attention = Attention {
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim,
        rotary: has_positions.then_some(0),
        bias,
        output_bias: bias,
        scale: Some(fields.number("attention_multiplier")?.unwrap_or(1.0)),
        ..Attention::default()
    };
    mamba::no_limit(fields)?;
    let state_heads = fields.size_or(&["mamba_n_heads"])?.unwrap_or(128);
    let inner = width.saturating_mul(fields.size_or(&["mamba_expand"])?.unwrap_or(2));
    let value_dim = match fields.size_or(&["mamba_d_head"]) {
        Ok(Some(size)) => size,
        // It can also be "auto".
        _ => inner.checked_div(state_heads).unwrap_or(0),
    };
    let state = Mamba {
        heads: RecurrentHeads {
            heads: state_heads,
            key_heads: fields.size_or(&["mamba_n_groups"])?.unwrap_or(1),
            key_dim: fields.size_or(&["mamba_d_state"])?.unwrap_or(256),
            value_dim,
            strided: false,
        },
        taps: fields.size_or(&["mamba_d_conv"])?.unwrap_or(4),
        taps_bias: fields.flag("mamba_conv_bias", true)?,
        bias: fields.flag("mamba_proj_bias", false)?,
    };
    let activation = fields.activation(&["hidden_act"], "silu")?;
    let network = |width: usize| Dense { width, activation, gated: true, bias: false };
    let shared = network(fields.size_or(&["shared_intermediate_size"])?.unwrap_or(1024));
    let feed_forward = match fields.size_or(&["num_local_experts"])?.unwrap_or(8) {
        0 => FeedForward::Dense(shared),
        experts => FeedForward::Mixture(Mixture {
            experts,
            chosen: fields.size_or(&["num_experts_per_tok"])?.unwrap_or(2),
            expert: network(fields.size(&["intermediate_size"])?),
            router: Router { score: Score::SoftmaxOfChosen, ..Router::default() },
            shared: Some(Shared { network: shared, gated: false }),
            latent: None,
        }),
    };
    let attends = attends(fields, layers)?;
    let block = |attends: bool| Block {
        mixer: if attends { Mixer::Attention(attention.clone()) } else { Mixer::Mamba(state) },
        feed_forward,
    };
    let changes = |factor: &f64| *factor != 1.0;
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: longest(context, &rotary),
        norm: Norm::Rms { epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) },
        positions: Positions::Rotary(rotary),
        blocks: attends.into_iter().map(block).collect(),
        embedding_scale: fields.number("embedding_multiplier")?.filter(changes),
        residual_scale: fields.number("residual_multiplier")?.filter(changes),
        logit_scale: fields.number("logits_scaling")?.map(|scale| 1.0 / scale).filter(changes),
        tied: fields.flag("tie_word_embeddings", false)?,
        ..DecoderConfig::default()
    })
}

/// The layers with attention.
fn attends(fields: &Fields, layers: usize) -> Result<Vec<bool>, String> {
    let kinds = [("attention", true), ("full_attention", true), ("mamba", false), ("linear_attention", false)];
    let names = ["layer_types", "layers_block_type"];
    let listed = fields.layer_types(&names, layers, &kinds, "attention and mamba")?;
    Ok(listed.unwrap_or_else(|| vec![false; layers]))
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["model.", ""], "norm.weight");
    let decays_are_whole = fields.flag("decays_are_whole", false).unwrap_or_default();
    let &DecoderConfig { width, norm, .. } = config;
    let layer = |i: usize| {
        let block = &config.blocks[i];
        let name = |part: &str| format!("layers.{i}.{part}");
        let mixer = match &block.mixer {
            Mixer::Attention(of) => MixerParts::Attention(names.attention(&name("self_attn"), "o_proj", width, of)?),
            Mixer::Mamba(of) => {
                MixerParts::Mamba(Box::new(mamba::mixer(&names, &name("mamba"), width, of, decays_are_whole)?))
            }
            _ => unreachable!("Granite has no other layers"),
        };
        let shared = |of: &Dense| {
            // Files of llama.cpp have gate and up apart.
            let both = |part: &str, out| names.projection(&name(&format!("shared_mlp.{part}")), out, width, false);
            let (gate, up) = if names.has(&name("shared_mlp.input_linear.weight")) {
                let all = both("input_linear", 2 * of.width)?;
                (all.part(0..of.width), all.part(of.width..2 * of.width))
            } else {
                (both("gate_proj", of.width)?, both("up_proj", of.width)?)
            };
            let down = names.projection(&name("shared_mlp.output_linear"), width, of.width, false)?;
            Ok::<_, ModelError>(DenseParts { gate: Some(gate), up, down })
        };
        let feed_forward = match &block.feed_forward {
            FeedForward::Dense(of) => FeedForwardParts::Dense(shared(of)?),
            FeedForward::Mixture(of) => FeedForwardParts::Mixture(Box::new(MixtureParts {
                router: names.projection(&name("block_sparse_moe.router.layer"), of.experts, width, false)?,
                choice_bias: None,
                experts: experts(&names, &name("block_sparse_moe"), GATE_UP_DOWN, width, of)?,
                shared: of.shared.map(|of| shared(&of.network)).transpose()?,
                shared_gate: None,
                expert_scales: None,
                latent: None,
            })),
            FeedForward::None => FeedForwardParts::None,
            _ => unreachable!("these models have no other feed-forward parts"),
        };
        Ok(Layer {
            mixer_norm: Some(names.scales(&name("input_layernorm"), width, norm, false)?),
            mixer,
            after_mixer: None,
            feed_forward_norm: Some(names.scales(&name("post_attention_layernorm"), width, norm, false)?),
            feed_forward,
            after_feed_forward: None,
        })
    };
    names.parts(config, layer, "embed_tokens.weight", "lm_head.weight", "norm", false)
}
