//! The weights of Llama and related models, under the names of a [`Row`].

use super::fields::Fields;
use super::latent;
use super::llama_table::{NO_NORM, Network, NormField, Row, row};
use super::mixture;
use super::prefixed::Prefixed;
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{Attention, Block, DecoderConfig, Dense, FeedForward, Mixer, QueryKeyNorm};
use crate::description::parts::{AttentionParts, DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Scales};
use crate::error::ModelError;

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let names = names(checkpoint);
    let embedding_name = names.name("embed_tokens.weight");
    let embedding = checkpoint.matrix(&embedding_name, [config.vocabulary, config.width])?;
    // Some wrappers have it inside their text part.
    let outputs = ["lm_head.weight", "language_model.lm_head.weight"];
    let output_name = outputs.into_iter().find(|name| checkpoint.has(name)).unwrap_or(outputs[0]);
    let output = names.output(config, &embedding_name, output_name)?;
    let (layers, norm) = layers(checkpoint, config, fields)?;
    Ok(Parts::new(embedding, layers, norm, output))
}

fn names(checkpoint: &Checkpoint) -> Prefixed<'_> {
    let prefixes = ["model.", "model.language_model.", "model.text_model.", "language_model.model.", ""];
    Prefixed::new(checkpoint, &prefixes, "norm.weight")
}

/// The layers, and the norm after the last.
pub(crate) fn layers(
    checkpoint: &Checkpoint,
    config: &DecoderConfig,
    fields: &Fields,
) -> Result<(Vec<Layer>, Scales), ModelError> {
    let model = fields.model_type().unwrap_or_default();
    let row = row(model);
    let norms_are_whole = fields.flag("norms_are_whole", false).unwrap_or_default();
    let names = names(checkpoint);
    let &DecoderConfig { width, norm, .. } = config;
    let has_bias = matches!(row.norm, NormField::Layer(_, true));
    let scales = |name: &str, length: usize| -> Result<Scales, ModelError> {
        let mut scales = names.scales(name, length, norm, has_bias)?;
        if row.norms_add_one && !norms_are_whole {
            scales.weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(scales)
    };
    let layer = |(i, block): (usize, &Block)| {
        let name = |part: &str| format!("layers.{i}.{part}");
        let norm_of = |which: usize| match row.norms[which] {
            NO_NORM => Ok(None),
            norm => scales(&name(norm), width).map(Some),
        };
        let mixer = match &block.mixer {
            Mixer::Attention(of) => {
                MixerParts::Attention(attention(&names, row, &name("self_attn"), width, of, &scales)?)
            }
            Mixer::Latent(of) => MixerParts::Latent(latent::parts(&names, &name("self_attn"), width, of)?),
            _ => unreachable!("models like Llama have attention in every layer"),
        };
        Ok(Layer {
            mixer_norm: norm_of(0)?,
            mixer,
            after_mixer: norm_of(1)?,
            feed_forward_norm: norm_of(2)?,
            feed_forward: match &block.feed_forward {
                FeedForward::Dense(of) => FeedForwardParts::Dense(network(&names, row, &name("mlp"), width, of)?),
                FeedForward::Mixture(of) => FeedForwardParts::Mixture(Box::new(mixture::parts(
                    &names,
                    model,
                    &format!("layers.{i}"),
                    width,
                    of,
                )?)),
                FeedForward::None => FeedForwardParts::None,
                _ => unreachable!("these models have no other feed-forward parts"),
            },
            after_feed_forward: norm_of(3)?,
        })
    };
    let layers = config.blocks.iter().enumerate().map(layer).collect::<Result<_, ModelError>>()?;
    Ok((layers, scales("norm", width)?))
}

/// The weights of attention, whose names begin with `prefix`.
fn attention(
    names: &Prefixed<'_>,
    row: &Row,
    prefix: &str,
    width: usize,
    of: &Attention,
    scales: &dyn Fn(&str, usize) -> Result<Scales, ModelError>,
) -> Result<AttentionParts, ModelError> {
    let &Attention { heads, kv_heads, head_dim, bias, output_bias, query_key_norm, sinks, .. } = of;
    let (of_query, of_key) = (heads * head_dim, kv_heads * head_dim);
    let name = |part: &str| format!("{prefix}.{part}");
    let projection = |part: &str, out| names.projection(&name(&format!("{part}_proj")), out, width, bias);
    let (query, key, value) = if row.fused_attention {
        let all = projection("qkv", of_query + 2 * of_key)?;
        let (to_key, to_value) = (of_query + of_key, of_query + 2 * of_key);
        (all.part(0..of_query), all.part(of_query..to_key), all.part(to_key..to_value))
    } else {
        (projection("q", of_query)?, projection("k", of_key)?, projection("v", of_key)?)
    };
    let [of_query_norm, of_key_norm] = row.query_key_norms;
    let head_norm = |name_of: &str, all: usize| {
        let length = match query_key_norm {
            None => return Ok(None),
            Some(QueryKeyNorm::Heads | QueryKeyNorm::RotatedHeads) => head_dim,
            Some(QueryKeyNorm::Tokens) => all,
        };
        scales(&name(name_of), length).map(|scales| Some(scales.weight))
    };
    let output = names.projection(&name("o_proj"), width, of_query, output_bias)?;
    Ok(AttentionParts {
        query_norm: head_norm(of_query_norm, of_query)?,
        key_norm: head_norm(of_key_norm, of_key)?,
        sinks: sinks.then(|| names.vector(&name("sinks"), heads)).transpose()?,
        ..AttentionParts::new([query, key, value, output])
    })
}

/// The weights of a feed-forward network, whose names begin with `prefix`.
fn network(
    names: &Prefixed<'_>,
    row: &Row,
    prefix: &str,
    width: usize,
    &Dense { width: inner, bias, .. }: &Dense,
) -> Result<DenseParts, ModelError> {
    let (gate, up) = match row.network {
        Network::Ungated => {
            let of = |part: &str, out, input| names.projection(&format!("{prefix}.{part}"), out, input, bias);
            return Ok(DenseParts { gate: None, up: of("c_fc", inner, width)?, down: of("c_proj", width, inner)? });
        }
        Network::Apart => {
            let of = |part: &str| names.projection(&format!("{prefix}.{part}_proj"), inner, width, bias);
            (of("gate")?, of("up")?)
        }
        Network::Fused => {
            let both = names.projection(&format!("{prefix}.gate_up_proj"), 2 * inner, width, bias)?;
            (both.part(0..inner), both.part(inner..2 * inner))
        }
    };
    let down = names.projection(&format!("{prefix}.down_proj"), width, inner, bias)?;
    Ok(DenseParts { gate: Some(gate), up, down })
}
