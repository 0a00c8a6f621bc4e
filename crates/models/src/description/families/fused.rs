//! GPT-NeoX, BLOOM, MPT and Falcon: queries, keys and values in one matrix, each packed differently.

use serde_json::Map;

use super::fields::{Fields, Shape};
use super::prefixed::{Prefixed, alike};
use super::rotary::{Elsewhere, longest, parameters, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{Activation, Attention, DecoderConfig, Dense, Norm, Parallel, Positions};
use crate::description::parts::{AttentionParts, DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Projection};
use crate::error::ModelError;

/// The slopes of ALiBi are powers of `2^(-8 / heads)`.
const ALIBI_MAX_BIAS: f64 = 8.0;

/// The order of the rows in the fused matrix.
#[derive(Clone, Copy)]
enum Packing {
    /// All queries, then all keys, then all values.
    Apart,
    /// For each key head: the queries that share it, the key, the value.
    Groups,
}

impl Packing {
    fn unpack(self, all: &Projection, attention: &Attention) -> (Projection, Projection, Projection) {
        let &Attention { heads, kv_heads, head_dim, .. } = attention;
        let (of_query, of_key) = (heads * head_dim, kv_heads * head_dim);
        match self {
            Self::Apart => {
                let (to_key, to_value) = (of_query + of_key, of_query + 2 * of_key);
                (all.part(0..of_query), all.part(of_query..to_key), all.part(to_key..to_value))
            }
            Self::Groups => {
                let group = heads / kv_heads;
                let rows = |from: usize, count: usize| {
                    (0..kv_heads).flat_map(move |head| {
                        let first = (head * (group + 2) + from) * head_dim;
                        first..first + count * head_dim
                    })
                };
                (all.gather(rows(0, group)), all.gather(rows(group, 1)), all.gather(rows(group + 1, 1)))
            }
        }
    }
}

/// The names of a model's weights.
struct Names {
    /// The prefix of all names but that of the output matrix, which some files leave out.
    prefix: &'static str,
    embedding: &'static str,
    embedding_norm: Option<&'static str>,
    layers: &'static str,
    attention_norm: &'static str,
    /// Queries, keys and values.
    all: &'static str,
    attention_output: &'static str,
    feed_forward_norm: Option<&'static str>,
    up: &'static str,
    down: &'static str,
    /// The norm after the last layer.
    norm: &'static str,
    output: &'static str,
    norms_have_biases: bool,
}

/// The names of Megatron-LM.
const MEGATRON: Names = Names {
    prefix: "transformer.",
    embedding: "word_embeddings.weight",
    embedding_norm: None,
    layers: "h",
    attention_norm: "input_layernorm",
    all: "self_attention.query_key_value",
    attention_output: "self_attention.dense",
    feed_forward_norm: Some("post_attention_layernorm"),
    up: "mlp.dense_h_to_4h",
    down: "mlp.dense_4h_to_h",
    norm: "ln_f",
    output: "lm_head.weight",
    norms_have_biases: true,
};

fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, of: &Names, packing: Packing) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &[of.prefix, ""], of.embedding);
    let layer = |i: usize| layer(&names, config, i, of, packing);
    let parts = names.parts(config, layer, of.embedding, of.output, of.norm, of.norms_have_biases)?;
    let norm = |name: &str| names.scales(name, config.width, config.norm, of.norms_have_biases);
    Ok(Parts { embedding_norm: of.embedding_norm.map(norm).transpose()?, ..parts })
}

fn layer(
    names: &Prefixed<'_>,
    config: &DecoderConfig,
    i: usize,
    of: &Names,
    packing: Packing,
) -> Result<Layer, ModelError> {
    let &DecoderConfig { width, norm, .. } = config;
    let (attention, &Dense { width: inner, bias, .. }) = alike(config);
    let &Attention { heads, kv_heads, head_dim, bias: attention_bias, output_bias, .. } = attention;
    let name = |part: &str| format!("{}.{i}.{part}", of.layers);
    let scales = |part: &str| names.scales(&name(part), width, norm, of.norms_have_biases);
    let all = names.projection(&name(of.all), (heads + 2 * kv_heads) * head_dim, width, attention_bias)?;
    let (query, key, value) = packing.unpack(&all, attention);
    let output = names.projection(&name(of.attention_output), width, heads * head_dim, output_bias)?;
    let attention = AttentionParts::new([query, key, value, output]);
    let network = DenseParts {
        gate: None,
        up: names.projection(&name(of.up), inner, width, bias)?,
        down: names.projection(&name(of.down), width, inner, bias)?,
    };
    Ok(Layer {
        mixer_norm: Some(scales(of.attention_norm)?),
        mixer: MixerParts::Attention(attention),
        after_mixer: None,
        feed_forward_norm: of.feed_forward_norm.map(scales).transpose()?,
        feed_forward: FeedForwardParts::Dense(network),
        after_feed_forward: None,
    })
}

pub(super) fn neox_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let names: [&[&str]; 3] = [&["hidden_size"], &["num_attention_heads"], &["num_hidden_layers"]];
    let Shape { config, layers, attention } = fields.shape(names)?;
    let context = fields.size(&["max_position_embeddings"])?;
    let theta = fields.number("rotary_emb_base")?.unwrap_or(10_000.0);
    let share = Some(fields.number("rotary_pct")?.unwrap_or(0.25));
    let elsewhere = Elsewhere { theta, head_dim: attention.head_dim, share, context };
    let rotary = [rotary(fields, parameters(fields)?.as_ref(), &elsewhere)?];
    let bias = fields.flag("attention_bias", true)?;
    let network = Dense {
        width: fields.size(&["intermediate_size"])?,
        activation: fields.activation(&["hidden_act"], "gelu")?,
        gated: false,
        bias: true,
    };
    let config = DecoderConfig {
        context: longest(context, &rotary),
        norm: Norm::Layer { epsilon: fields.number("layer_norm_eps")?.unwrap_or(1e-5) },
        positions: Positions::Rotary(rotary.into()),
        parallel: fields.flag("use_parallel_residual", true)?.then_some(Parallel::TwoNorms),
        tied: fields.flag("tie_word_embeddings", false)?,
        ..config
    };
    Ok(config.with_layers(layers, Attention { bias, output_bias: bias, ..attention }, network))
}

pub(super) fn neox_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Names {
        prefix: "gpt_neox.",
        embedding: "embed_in.weight",
        layers: "layers",
        all: "attention.query_key_value",
        attention_output: "attention.dense",
        norm: "final_layer_norm",
        output: "embed_out.weight",
        ..MEGATRON
    };
    parts(checkpoint, config, &names, Packing::Groups)
}

pub(super) fn bloom_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let names: [&[&str]; 3] =
        [&["hidden_size", "n_embed"], &["n_head", "num_attention_heads"], &["n_layer", "num_hidden_layers"]];
    let Shape { config, layers, attention } = fields.shape(names)?;
    fields.refuse("apply_residual_connection_post_layernorm", |value| value == false)?;
    let width = config.width.saturating_mul(4);
    let network = Dense { width, activation: Activation::GeluTanh, gated: false, bias: true };
    let config = DecoderConfig {
        // It has no maximum of its own; this is the length that it was trained with.
        context: fields.size_or(&["seq_length"])?.unwrap_or(2048),
        norm: Norm::Layer { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        positions: Positions::Alibi { max_bias: ALIBI_MAX_BIAS, by_scale: false },
        embedding_norm: true,
        ..config
    };
    let attention = Attention { bias: true, output_bias: true, rotary: None, ..attention };
    Ok(config.with_layers(layers, attention, network))
}

pub(super) fn bloom_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Names { embedding_norm: Some("word_embeddings_layernorm"), ..MEGATRON };
    parts(checkpoint, config, &names, Packing::Groups)
}

pub(super) fn mpt_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let Shape { config, layers, attention: shape } = fields.shape([&["d_model"], &["n_heads"], &["n_layers"]])?;
    let attention = fields.inner("attn_config")?.unwrap_or_else(|| Fields::of(Map::new()));
    attention.refuse("attn_type", |value| value == "multihead_attention")?;
    attention.refuse("attn_uses_sequence_id", |value| value == false)?;
    // transformers has these fields, but uses their default values whatever they say.
    attention.refuse("alibi_bias_max", |value| value.as_f64() == Some(ALIBI_MAX_BIAS))?;
    fields.refuse("expansion_ratio", |value| value.as_u64() == Some(4))?;
    fields.refuse("norm_type", |value| value == "low_precision_layernorm" || value == "layernorm")?;
    attention.refuse("clip_qkv", |_| false)?;
    attention.refuse("qk_ln", |value| value == false)?;
    attention.refuse("prefix_lm", |value| value == false)?;
    attention.refuse("kv_n_heads", |value| value.as_u64() == Some(shape.heads as u64))?;
    fields.refuse("no_bias", |value| value == true)?;
    fields.refuse("logit_scale", |_| false)?;
    if !attention.flag("alibi", true)? {
        return Err("an mpt model without alibi is not supported".into());
    }
    let scale = attention.number("softmax_scale")?;
    let width = config.width.saturating_mul(4);
    let network = Dense { width, activation: Activation::Gelu, gated: false, bias: false };
    let config = DecoderConfig {
        context: fields.size(&["max_seq_len"])?,
        norm: Norm::Layer { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        positions: Positions::Alibi { max_bias: ALIBI_MAX_BIAS, by_scale: false },
        ..config
    };
    Ok(config.with_layers(layers, Attention { scale, rotary: None, ..shape }, network))
}

pub(super) fn mpt_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Names {
        embedding: "wte.weight",
        layers: "blocks",
        attention_norm: "norm_1",
        all: "attn.Wqkv",
        attention_output: "attn.out_proj",
        feed_forward_norm: Some("norm_2"),
        up: "ffn.up_proj",
        down: "ffn.down_proj",
        norm: "norm_f",
        norms_have_biases: false,
        ..MEGATRON
    };
    parts(checkpoint, config, &names, Packing::Apart)
}

/// Whether a Falcon model has grouped heads and two norms (40B and later).
fn is_new_falcon(fields: &Fields) -> Result<bool, String> {
    fields.flag("new_decoder_architecture", false)
}

pub(super) fn falcon_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let names: [&[&str]; 3] =
        [&["hidden_size", "n_embed"], &["num_attention_heads", "n_head"], &["num_hidden_layers", "n_layer"]];
    let Shape { config, layers, attention } = fields.shape(names)?;
    let is_new = is_new_falcon(fields)?;
    let kv_heads = match (is_new, fields.flag("multi_query", true)?) {
        (true, _) => fields.size_or(&["num_kv_heads", "n_head_kv"])?.unwrap_or(attention.heads),
        (false, true) => 1,
        (false, false) => attention.heads,
    };
    let context = fields.size_or(&["max_position_embeddings"])?.unwrap_or(2048);
    let (alibi, theta) = (fields.flag("alibi", false)?, fields.number("rope_theta")?.unwrap_or(10_000.0));
    let elsewhere = Elsewhere { theta, head_dim: attention.head_dim, share: None, context };
    let rotary = [rotary(fields, parameters(fields)?.as_ref(), &elsewhere)?];
    fields.refuse("num_ln_in_parallel_attn", |value| value == 1 || value == 2)?;
    let one_norm = !is_new || fields.size_or(&["num_ln_in_parallel_attn"])? == Some(1);
    let parallel = is_new || fields.flag("parallel_attn", true)?;
    let bias = fields.flag("bias", false)?;
    let network = Dense {
        width: fields.size_or(&["ffn_hidden_size"])?.unwrap_or(config.width.saturating_mul(4)),
        activation: fields.activation(&["activation"], "gelu")?,
        gated: false,
        bias,
    };
    let config = DecoderConfig {
        context: if alibi { context } else { longest(context, &rotary) },
        norm: Norm::Layer { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        positions: match alibi {
            true => Positions::Alibi { max_bias: ALIBI_MAX_BIAS, by_scale: true },
            false => Positions::Rotary(rotary.into()),
        },
        parallel: parallel.then_some(if one_norm { Parallel::OneNorm } else { Parallel::TwoNorms }),
        ..config
    };
    let rotary = if alibi { None } else { attention.rotary };
    let attention = Attention { kv_heads, bias, output_bias: bias, rotary, ..attention };
    Ok(config.with_layers(layers, attention, network))
}

pub(super) fn falcon_parts(
    checkpoint: &Checkpoint,
    config: &DecoderConfig,
    fields: &Fields,
) -> Result<Parts, ModelError> {
    let names = match config.parallel {
        Some(Parallel::TwoNorms) => Names { attention_norm: "ln_attn", feed_forward_norm: Some("ln_mlp"), ..MEGATRON },
        Some(Parallel::OneNorm) => Names { feed_forward_norm: None, ..MEGATRON },
        None => MEGATRON,
    };
    let is_apart = alike(config).0.kv_heads == 1 && !is_new_falcon(fields).unwrap_or_default();
    parts(checkpoint, config, &names, if is_apart { Packing::Apart } else { Packing::Groups })
}
