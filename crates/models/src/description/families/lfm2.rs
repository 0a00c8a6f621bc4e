//! LFM2: gated convolutions, and attention in some layers.

use super::fields::Fields;
use super::mixture::{self, W1_W3_W2, dense, mixture};
use super::prefixed::Prefixed;
use super::rotary::{Elsewhere, longest, parameters, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Activation, Attention, Block, Convolution, DecoderConfig, Dense, FeedForward, Mixer, Norm, Positions, QueryKeyNorm,
};
use crate::description::parts::{AttentionParts, ConvolutionParts, FeedForwardParts, Layer, MixerParts, Parts, Taps};
use crate::error::ModelError;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let model = fields.model_type()?;
    let (width, heads) = (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?);
    let layers = fields.layers(&["num_hidden_layers"])?;
    let context = fields.size(&["max_position_embeddings"])?;
    let head_dim = fields.size_or(&["head_dim"])?.map_or_else(|| Fields::head_dim(width, heads), Ok)?;
    let theta = fields.number("rope_theta")?.unwrap_or(1_000_000.0);
    let elsewhere = Elsewhere { theta, head_dim, share: None, context };
    let rotary = vec![rotary(fields, parameters(fields)?.as_ref(), &elsewhere)?];
    let attention = Attention {
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(8),
        head_dim,
        query_key_norm: Some(QueryKeyNorm::Heads),
        ..Attention::default()
    };
    let convolution =
        Convolution { taps: fields.size_or(&["conv_L_cache"])?.unwrap_or(3), bias: fields.flag("conv_bias", false)? };
    let dense = Dense { width: inner(model, fields)?, activation: Activation::Silu, gated: true, bias: false };
    let first_sparse = match model {
        "lfm2_moe" => fields.size_or(&["num_dense_layers"])?.unwrap_or(2),
        _ => usize::MAX,
    };
    let attends = attends(fields, layers)?;
    let block = |layer: usize| {
        let mixture = if layer < first_sparse { None } else { mixture(model, fields, layer)? };
        Ok(Block {
            mixer: match attends[layer] {
                true => Mixer::Attention(attention.clone()),
                false => Mixer::Convolution(convolution),
            },
            feed_forward: mixture.map_or(FeedForward::Dense(dense), FeedForward::Mixture),
        })
    };
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: longest(context, &rotary),
        norm: Norm::Rms { epsilon: fields.number("norm_eps")?.unwrap_or(1e-5) },
        positions: Positions::Rotary(rotary),
        blocks: (0..layers).map(block).collect::<Result<_, String>>()?,
        tied: fields.flag("tie_word_embeddings", fields.flag("tie_embedding", true)?)?,
        ..DecoderConfig::default()
    })
}

/// The width of the dense networks, which some files give as that of a network without a gate.
fn inner(model: &str, fields: &Fields) -> Result<usize, String> {
    let width = fields.size(&["block_ff_dim", "intermediate_size"])?;
    if model != "lfm2" || !fields.flag("block_auto_adjust_ff_dim", true)? {
        return Ok(width);
    }
    let width = width.saturating_mul(2) / 3;
    let width = match fields.number("block_ffn_dim_multiplier")? {
        Some(factor) => (factor * width as f64) as usize,
        None => width,
    };
    let multiple = fields.size_or(&["block_multiple_of"])?.unwrap_or(256).max(1);
    width.checked_next_multiple_of(multiple).ok_or_else(|| format!("block_ff_dim is {width}, which is too large"))
}

/// The layers with attention.
fn attends(fields: &Fields, layers: usize) -> Result<Vec<bool>, String> {
    let kinds = [("full_attention", true), ("conv", false)];
    if let Some(attends) = fields.layer_types(&["layer_types"], layers, &kinds, "conv and full_attention")? {
        return Ok(attends);
    }
    let Some(listed) = fields.list("full_attn_idxs")? else { return Ok(vec![true; layers]) };
    Ok((0..layers).map(|layer| listed.iter().any(|one| one.as_u64() == Some(layer as u64))).collect())
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let model = fields.model_type().unwrap_or_default();
    let names = Prefixed::new(checkpoint, &["model.", "model.language_model.", ""], "embedding_norm.weight");
    let &DecoderConfig { width, norm, .. } = config;
    let layer = |i: usize| {
        let block = &config.blocks[i];
        let name = |part: &str| format!("layers.{i}.{part}");
        let mixer = match &block.mixer {
            Mixer::Attention(of) => {
                let norm = |part: &str| names.vector(&name(&format!("self_attn.{part}.weight")), of.head_dim);
                MixerParts::Attention(AttentionParts {
                    query_norm: Some(norm("q_layernorm")?),
                    key_norm: Some(norm("k_layernorm")?),
                    ..names.attention(&name("self_attn"), "out_proj", width, of)?
                })
            }
            Mixer::Convolution(of) => {
                let bias = of.bias.then(|| names.vector(&name("conv.conv.bias"), width)).transpose()?;
                let taps = names.taps(&name("conv.conv.weight"), width, of.taps)?;
                MixerParts::Convolution(ConvolutionParts {
                    input: names.projection(&name("conv.in_proj"), 3 * width, width, of.bias)?,
                    taps: Taps::new(&taps, width, bias),
                    output: names.projection(&name("conv.out_proj"), width, width, of.bias)?,
                })
            }
            _ => unreachable!("LFM2 has no other layers"),
        };
        Ok(Layer {
            mixer_norm: Some(names.scales(&name("operator_norm"), width, norm, false)?),
            mixer,
            after_mixer: None,
            feed_forward_norm: Some(names.scales(&name("ffn_norm"), width, norm, false)?),
            feed_forward: match &block.feed_forward {
                FeedForward::Dense(of) => {
                    FeedForwardParts::Dense(dense(&names, &name("feed_forward"), W1_W3_W2, width, of)?)
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
    names.parts(config, layer, "embed_tokens.weight", "lm_head.weight", "embedding_norm", false)
}
