//! GPT-2 and OPT: learned positions, layer norms, biases everywhere.

use super::fields::{Fields, Shape};
use super::prefixed::{Prefixed, alike};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{Attention, DecoderConfig, Dense, Norm, Positions};
use crate::description::parts::{AttentionParts, DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Projection};
use crate::error::ModelError;

pub(super) fn gpt2_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let names: [&[&str]; 3] =
        [&["n_embd", "hidden_size"], &["n_head", "num_attention_heads"], &["n_layer", "num_hidden_layers"]];
    let Shape { config, layers, attention } = fields.shape(names)?;
    fields.refuse("scale_attn_by_inverse_layer_idx", |value| value == false)?;
    fields.refuse("add_cross_attention", |value| value == false)?;
    let network = Dense {
        width: fields.size_or(&["n_inner"])?.unwrap_or(config.width.saturating_mul(4)),
        activation: fields.activation(&["activation_function"], "gelu_new")?,
        gated: false,
        bias: true,
    };
    let scale = (!fields.flag("scale_attn_weights", true)?).then_some(1.0);
    let config = DecoderConfig {
        context: fields.size(&["n_positions", "n_ctx", "max_position_embeddings"])?,
        norm: Norm::Layer { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        positions: Positions::Learned { offset: 0 },
        ..config
    };
    let attention = Attention { bias: true, output_bias: true, scale, rotary: None, ..attention };
    Ok(config.with_layers(layers, attention, network))
}

pub(super) fn gpt2_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["transformer.", ""], "wte.weight");
    let &DecoderConfig { width, context, norm, .. } = config;
    let inner = alike(config).1.width;
    // Its matrices are stored transposed.
    let transposed = |name: &str, out: usize, input: usize| -> Result<Projection, ModelError> {
        let name = names.name(name);
        let matrix = checkpoint.transposed(&format!("{name}.weight"), [out, input])?;
        Ok(Projection { matrix, bias: Some(checkpoint.vector(&format!("{name}.bias"), out)?) })
    };
    let layer = |i: usize| {
        let name = |part: &str| format!("h.{i}.{part}");
        let all = transposed(&name("attn.c_attn"), 3 * width, width)?;
        let [query, key, value] = [0, 1, 2].map(|i| all.part(i * width..(i + 1) * width));
        let output = transposed(&name("attn.c_proj"), width, width)?;
        let attention = AttentionParts::new([query, key, value, output]);
        let network = DenseParts {
            gate: None,
            up: transposed(&name("mlp.c_fc"), inner, width)?,
            down: transposed(&name("mlp.c_proj"), width, inner)?,
        };
        Ok(Layer {
            mixer_norm: Some(names.scales(&name("ln_1"), width, norm, true)?),
            mixer: MixerParts::Attention(attention),
            after_mixer: None,
            feed_forward_norm: Some(names.scales(&name("ln_2"), width, norm, true)?),
            feed_forward: FeedForwardParts::Dense(network),
            after_feed_forward: None,
        })
    };
    let parts = names.parts(config, layer, "wte.weight", "lm_head.weight", "ln_f", true)?;
    let positions = Some(checkpoint.matrix(&names.name("wpe.weight"), [context, width])?);
    Ok(Parts { positions, ..parts })
}

/// The row of the first position in OPT.
const OPT_OFFSET: usize = 2;

pub(super) fn opt_config(fields: &Fields) -> Result<DecoderConfig, String> {
    let names: [&[&str]; 3] = [&["hidden_size"], &["num_attention_heads"], &["num_hidden_layers"]];
    let Shape { config, layers, attention } = fields.shape(names)?;
    fields.refuse("do_layer_norm_before", |value| value == true)?;
    fields.refuse("word_embed_proj_dim", |value| value.as_u64() == Some(config.width as u64))?;
    fields.refuse("_remove_final_layer_norm", |value| value == false)?;
    fields.refuse("layer_norm_elementwise_affine", |value| value == true)?;
    let bias = fields.flag("enable_bias", true)?;
    let network = Dense {
        width: fields.size(&["ffn_dim"])?,
        activation: fields.activation(&["activation_function"], "relu")?,
        gated: false,
        bias,
    };
    let config = DecoderConfig {
        context: fields.size(&["max_position_embeddings"])?,
        norm: Norm::Layer { epsilon: 1e-5 },
        positions: Positions::Learned { offset: OPT_OFFSET },
        ..config
    };
    let attention = Attention { bias, output_bias: bias, rotary: None, ..attention };
    Ok(config.with_layers(layers, attention, network))
}

pub(super) fn opt_parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["model.decoder.", "decoder.", ""], "embed_tokens.weight");
    let &DecoderConfig { width, context, norm, .. } = config;
    let (&Attention { bias, .. }, &Dense { width: inner, .. }) = alike(config);
    let layer = |i: usize| {
        let name = |part: &str| format!("layers.{i}.{part}");
        let attention = |part: &str| names.projection(&name(&format!("self_attn.{part}_proj")), width, width, bias);
        let attention = AttentionParts::new([attention("q")?, attention("k")?, attention("v")?, attention("out")?]);
        let network = DenseParts {
            gate: None,
            up: names.projection(&name("fc1"), inner, width, bias)?,
            down: names.projection(&name("fc2"), width, inner, bias)?,
        };
        Ok(Layer {
            mixer_norm: Some(names.scales(&name("self_attn_layer_norm"), width, norm, true)?),
            mixer: MixerParts::Attention(attention),
            after_mixer: None,
            feed_forward_norm: Some(names.scales(&name("final_layer_norm"), width, norm, true)?),
            feed_forward: FeedForwardParts::Dense(network),
            after_feed_forward: None,
        })
    };
    let parts = names.parts(config, layer, "embed_tokens.weight", "lm_head.weight", "final_layer_norm", true)?;
    let positions = Some(checkpoint.matrix(&names.name("embed_positions.weight"), [context + OPT_OFFSET, width])?);
    Ok(Parts { positions, ..parts })
}
