//! GPT-2 and OPT: learned positions, layer norms, biases everywhere.

use super::fields::Fields;
use super::output::output;
use super::prefixed::Prefixed;
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{DecoderConfig, FeedForward, Norm, Positions};
use crate::description::parts::{Layer, Parts, Projection};
use crate::error::ModelError;

pub(super) fn gpt2_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let (width, heads) = (fields.size(&["n_embd", "hidden_size"])?, fields.size(&["n_head", "num_attention_heads"])?);
    fields.refuse("scale_attn_by_inverse_layer_idx", |value| value == false)?;
    fields.refuse("add_cross_attention", |value| value == false)?;
    let head_dim = Fields::head_dim(width, heads)?;
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        layers: fields.size(&["n_layer", "num_hidden_layers"])?,
        heads,
        kv_heads: heads,
        head_dim,
        context: fields.size(&["n_positions", "n_ctx", "max_position_embeddings"])?,
        norm: Norm::Layer { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        positions: Positions::Learned { offset: 0 },
        feed_forward: FeedForward::Plain {
            width: fields.size_or(&["n_inner"])?.unwrap_or(width.saturating_mul(4)),
            activation: fields.activation(&["activation_function"], "gelu_new")?,
            bias: true,
        },
        attention_bias: true,
        output_bias: true,
        attention_scale: (!fields.flag("scale_attn_weights", true)?).then_some(1.0),
        tied: fields.flag("tie_word_embeddings", true)?,
        ..DecoderConfig::default()
    })
}

pub(super) fn gpt2_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["transformer.", ""], "wte.weight");
    let &DecoderConfig { vocabulary, width, context, norm, .. } = config;
    let inner = config.feed_forward.width();
    // Its matrices are stored transposed.
    let transposed = |name: &str, out: usize, input: usize| -> Result<Projection, ModelError> {
        let name = names.name(name);
        let matrix = checkpoint.transposed(&format!("{name}.weight"), [out, input])?;
        Ok(Projection { matrix, bias: Some(checkpoint.vector(&format!("{name}.bias"), out)?) })
    };
    let layer = |i: usize| {
        let name = |part: &str| format!("h.{i}.{part}");
        let all = transposed(&name("attn.c_attn"), 3 * width, width)?;
        Ok(Layer {
            attention_norm: Some(names.scales(&name("ln_1"), width, norm, true)?),
            query: all.part(0..width),
            key: all.part(width..2 * width),
            value: all.part(2 * width..3 * width),
            query_norm: None,
            key_norm: None,
            output: transposed(&name("attn.c_proj"), width, width)?,
            after_attention: None,
            feed_forward_norm: Some(names.scales(&name("ln_2"), width, norm, true)?),
            gate: None,
            up: transposed(&name("mlp.c_fc"), inner, width)?,
            down: transposed(&name("mlp.c_proj"), width, inner)?,
            after_feed_forward: None,
        })
    };
    let layers = (0..config.layers).map(layer).collect::<Result<_, ModelError>>()?;
    let embedding = checkpoint.matrix(&names.name("wte.weight"), [vocabulary, width])?;
    let output = output(checkpoint, config, &names.name("wte.weight"), "lm_head.weight")?;
    let positions = Some(checkpoint.matrix(&names.name("wpe.weight"), [context, width])?);
    let norm = names.scales("ln_f", width, norm, true)?;
    Ok(Parts { embedding, positions, embedding_norm: None, layers, norm, output })
}

/// The row of the first position in OPT.
const OPT_OFFSET: usize = 2;

pub(super) fn opt_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let (width, heads) = (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?);
    fields.refuse("do_layer_norm_before", |value| value == true)?;
    fields.refuse("word_embed_proj_dim", |value| value.as_u64() == Some(width as u64))?;
    fields.refuse("_remove_final_layer_norm", |value| value == false)?;
    fields.refuse("layer_norm_elementwise_affine", |value| value == true)?;
    let bias = fields.flag("enable_bias", true)?;
    let head_dim = Fields::head_dim(width, heads)?;
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        layers: fields.size(&["num_hidden_layers"])?,
        heads,
        kv_heads: heads,
        head_dim,
        context: fields.size(&["max_position_embeddings"])?,
        norm: Norm::Layer { epsilon: 1e-5 },
        positions: Positions::Learned { offset: OPT_OFFSET },
        feed_forward: FeedForward::Plain {
            width: fields.size(&["ffn_dim"])?,
            activation: fields.activation(&["activation_function"], "relu")?,
            bias,
        },
        attention_bias: bias,
        output_bias: bias,
        tied: fields.flag("tie_word_embeddings", true)?,
        ..DecoderConfig::default()
    })
}

pub(super) fn opt_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["model.decoder.", "decoder.", ""], "embed_tokens.weight");
    let &DecoderConfig { vocabulary, width, context, norm, attention_bias: bias, .. } = config;
    let inner = config.feed_forward.width();
    let layer = |i: usize| {
        let name = |part: &str| format!("layers.{i}.{part}");
        let attention = |part: &str| names.projection(&name(&format!("self_attn.{part}_proj")), width, width, bias);
        Ok(Layer {
            attention_norm: Some(names.scales(&name("self_attn_layer_norm"), width, norm, true)?),
            query: attention("q")?,
            key: attention("k")?,
            value: attention("v")?,
            query_norm: None,
            key_norm: None,
            output: attention("out")?,
            after_attention: None,
            feed_forward_norm: Some(names.scales(&name("final_layer_norm"), width, norm, true)?),
            gate: None,
            up: names.projection(&name("fc1"), inner, width, bias)?,
            down: names.projection(&name("fc2"), width, inner, bias)?,
            after_feed_forward: None,
        })
    };
    let layers = (0..config.layers).map(layer).collect::<Result<_, ModelError>>()?;
    let embedding = checkpoint.matrix(&names.name("embed_tokens.weight"), [vocabulary, width])?;
    let output = output(checkpoint, config, &names.name("embed_tokens.weight"), "lm_head.weight")?;
    let positions = Some(checkpoint.matrix(&names.name("embed_positions.weight"), [context + OPT_OFFSET, width])?);
    let norm = names.scales("final_layer_norm", width, norm, true)?;
    Ok(Parts { embedding, positions, embedding_norm: None, layers, norm, output })
}
