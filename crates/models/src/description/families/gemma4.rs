//! Gemma 4: heads of other sizes in layers of full attention, values that are normalised, layers that read the keys and
//! values of others, embeddings of which each layer reads a part, and a mixture of experts next to the network.

use std::collections::HashMap;

use verdigris_text::shown;

use super::fields::Fields;
use super::mixture::{GATE_UP_DOWN, dense, experts};
use super::prefixed::Prefixed;
use super::rotary::{Elsewhere, longest, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Activation, Attention, Block, Both, DecoderConfig, Dense, FeedForward, Mixer, Mixture, Norm, NormPlacement,
    PerLayer, Positions, QueryKeyNorm, Rotary, Router, Scaling,
};
use crate::description::parts::{
    AttentionParts, BothParts, FeedForwardParts, Layer, MixerParts, MixtureParts, Parts, PerLayerPart, PerLayerParts,
    Scales,
};
use crate::error::ModelError;

/// The two types of layers. The number is that of the rotary embedding.
const TYPES: [&str; 2] = ["full_attention", "sliding_attention"];

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let width = fields.size(&["hidden_size"])?;
    let layers = fields.layers(&["num_hidden_layers"])?;
    let trained = fields.size(&["max_position_embeddings"])?;
    let activation = fields.activation(&["hidden_activation"], "gelu_pytorch_tanh")?;
    // With "vision", only the parts of an image see those after them.
    fields.refuse("use_bidirectional_attention", |value| value == false || value == "vision")?;
    // This model type has neither embeddings for each layer nor experts, whatever the file says.
    let is_plain = fields.model_type()? == "gemma4_unified_text";
    let mut slides = slides(fields, layers, 6)?;
    // The last layer never has a window.
    slides.iter_mut().last().into_iter().for_each(|slides| *slides = false);
    let attentions = attentions(fields, &slides)?;
    let mixture = if is_plain { None } else { mixture(fields, activation)? };
    let inner = fields.size(&["intermediate_size"])?;
    let is_wide = fields.flag("use_double_wide_mlp", false)?;
    let block = |attention: Attention| {
        let width = if is_wide && attention.reads.is_some() { inner.saturating_mul(2) } else { inner };
        let dense = Dense { width, activation, gated: true, bias: false };
        let both = mixture.map(|mixture| FeedForward::Both(Both { dense, mixture }));
        Block { mixer: Mixer::Attention(attention), feed_forward: both.unwrap_or(FeedForward::Dense(dense)) }
    };
    let head_dims = [0, 1].map(|which| attentions.iter().find(|one| one.rotary == Some(which)).map(|one| one.head_dim));
    let rotary = rotaries(fields, head_dims, trained)?;
    let of_each = fields.size_or(&["hidden_size_per_layer_input"])?.filter(|&width| width > 0 && !is_plain);
    let tokens = fields.size(&["vocab_size"])?;
    let per_layer = of_each.map(|width| match fields.size(&["vocab_size_per_layer_input"])? {
        rows if rows < tokens => Err(format!("vocab_size_per_layer_input is {rows}, but there are {tokens} tokens")),
        vocabulary => Ok(PerLayer { vocabulary, width, activation }),
    });
    Ok(DecoderConfig {
        vocabulary: tokens,
        width,
        context: longest(trained, &rotary),
        norm: Norm::Rms { epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) },
        norm_placement: NormPlacement::Around,
        positions: Positions::Rotary(rotary),
        blocks: attentions.into_iter().map(block).collect(),
        embedding_scale: Some((width as f64).sqrt()),
        logit_cap: fields.number("final_logit_softcapping")?,
        tied: fields.flag("tie_word_embeddings", true)?,
        per_layer: per_layer.transpose()?,
        layer_scales: true,
        ..DecoderConfig::default()
    })
}

/// Whether each layer has a window. By default every `period`th has none.
pub(super) fn slides(fields: &Fields, layers: usize, period: usize) -> Result<Vec<bool>, String> {
    let Some(types) = fields.list("layer_types")? else {
        return Ok((1..=layers).map(|layer| !layer.is_multiple_of(period)).collect());
    };
    if types.len() != layers {
        return Err(format!("layer_types has {} of {layers} layers", types.len()));
    }
    Ok(fields.windows(layers)?.unwrap_or_default())
}

/// The attention of each layer.
fn attentions(fields: &Fields, slides: &[bool]) -> Result<Vec<Attention>, String> {
    let layers = slides.len();
    let (heads, kv_heads) = (fields.size(&["num_attention_heads"])?, fields.size(&["num_key_value_heads"])?);
    let head_dim = fields.size(&["head_dim"])?;
    let window = fields.size_or(&["sliding_window"])?;
    if window.is_none() && slides.contains(&true) {
        return Err("layer_types has layers with a window, but sliding_window is missing".into());
    }
    let bias = fields.flag("attention_bias", false)?;
    let values_of_keys = fields.flag("attention_k_eq_v", false)?;
    let of_full = Own {
        head_dim: Some(fields.size_or(&["global_head_dim"])?.unwrap_or(512)),
        kv_heads: fields.size_or(&["num_global_key_value_heads"])?.filter(|_| values_of_keys),
    };
    let of_layers = own(fields, layers)?;
    let first = first_shared(fields, layers)?;
    let attention = |layer: usize| {
        let slides_here = slides[layer];
        let own = match &of_layers {
            Some(own) => own.get(&layer).copied().unwrap_or_default(),
            None if slides_here => Own::default(),
            None => of_full,
        };
        Ok(Attention {
            heads,
            kv_heads: own.kv_heads.unwrap_or(kv_heads),
            head_dim: own.head_dim.unwrap_or(head_dim),
            window: window.filter(|_| slides_here),
            rotary: Some(usize::from(slides_here)),
            bias,
            output_bias: bias,
            query_key_norm: Some(QueryKeyNorm::Heads),
            scale: Some(1.0),
            reads: reads(slides, first, layer)?,
            values_of_keys: values_of_keys && !slides_here,
            value_norm: true,
            ..Attention::default()
        })
    };
    (0..layers).map(attention).collect()
}

/// The first of the last layers that read the keys and values of earlier ones.
pub(super) fn first_shared(fields: &Fields, layers: usize) -> Result<usize, String> {
    let shared = fields.size_or(&["num_kv_shared_layers"])?.unwrap_or(0);
    let first = layers.checked_sub(shared).filter(|first| *first > 0 || layers == 0);
    first.ok_or_else(|| format!("num_kv_shared_layers is {shared}, but at least one of {layers} layers has keys"))
}

/// The layer whose keys and values a layer reads: the last of its type that has any.
pub(super) fn reads(slides: &[bool], first: usize, layer: usize) -> Result<Option<usize>, String> {
    if layer < first {
        return Ok(None);
    }
    let last = slides[..first].iter().rposition(|&one| one == slides[layer]);
    let kind = TYPES[usize::from(slides[layer])];
    let missing = || format!("layer {layer} reads the keys of an earlier layer of {kind}, but none has any");
    last.map(Some).ok_or_else(missing)
}

/// The numbers of a layer that are its own.
#[derive(Clone, Copy, Default)]
struct Own {
    head_dim: Option<usize>,
    kv_heads: Option<usize>,
}

/// The own numbers of each layer that has any, if they are listed by layer.
fn own(fields: &Fields, layers: usize) -> Result<Option<HashMap<usize, Own>>, String> {
    const LIST: &str = "per_layer_config";
    let Some(listed) = fields.inner(LIST)? else { return Ok(None) };
    let mut all = HashMap::new();
    for name in listed.names() {
        let layer = name.parse().ok().filter(|&layer| layer < layers);
        let layer =
            layer.ok_or_else(|| format!("{LIST} has {:?}, which is not one of {layers} layers", shown(name)))?;
        let of = listed.inner(name)?.unwrap_or_else(|| Fields::of(Default::default()));
        if let Some(other) = of.names().find(|name| !["head_dim", "num_key_value_heads"].contains(name)) {
            return Err(format!("{LIST} with {} is not supported", shown(other)));
        }
        let own = Own { head_dim: of.size_or(&["head_dim"])?, kv_heads: of.size_or(&["num_key_value_heads"])? };
        all.insert(layer, own);
    }
    Ok(Some(all))
}

/// The rotary embeddings of both types of layers.
fn rotaries(fields: &Fields, head_dims: [Option<usize>; 2], context: usize) -> Result<Vec<Rotary>, String> {
    let given = fields.inner("rope_parameters")?;
    let of = |which: usize| {
        let kind = TYPES[which];
        // A type that no layer has needs no parameters.
        let Some(head_dim) = head_dims[which] else { return Ok(Rotary::new(10_000.0)) };
        let Some(given) = &given else {
            let proportional = Scaling::Proportional { pairs: head_dim / 8, factor: 1.0 };
            let (theta, scaling) = if which == 0 { (1e6, proportional) } else { (10_000.0, Scaling::None) };
            return Ok(Rotary { scaling, ..Rotary::new(theta) });
        };
        let given = given.inner(kind)?.ok_or_else(|| format!("rope_parameters has no {kind}"))?;
        let theta = given.number("rope_theta")?.unwrap_or(10_000.0);
        match given.text("rope_type")?.or(given.text("type")?).unwrap_or("default") {
            "default" => Ok(Rotary::new(theta)),
            "proportional" => {
                let share = given.number("partial_rotary_factor")?.unwrap_or(1.0);
                if !(0.0..=1.0).contains(&share) {
                    return Err(format!("partial_rotary_factor is {share}, but a part of a head is from 0 to 1"));
                }
                let pairs = (share * head_dim as f64 / 2.0) as usize;
                let factor = given.number("factor")?.unwrap_or(1.0);
                Ok(Rotary { scaling: Scaling::Proportional { pairs, factor }, ..Rotary::new(theta) })
            }
            _ => rotary(fields, Some(&given), &Elsewhere { theta, head_dim, share: None, context }),
        }
    };
    Ok(vec![of(0)?, of(1)?])
}

/// The mixture of experts of every layer, if there is one.
fn mixture(fields: &Fields, activation: Activation) -> Result<Option<Mixture>, String> {
    if !fields.flag("enable_moe_block", false)? {
        return Ok(None);
    }
    let width = fields.size(&["moe_intermediate_size"])?;
    Ok(Some(Mixture {
        experts: fields.size(&["num_experts"])?,
        chosen: fields.size(&["top_k_experts"])?,
        expert: Dense { width, activation, gated: true, bias: false },
        router: Router { normalized: Some(0.0), expert_scales: true, ..Router::default() },
        shared: None,
        latent: None,
    }))
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let prefixes = ["model.", "model.language_model.", "language_model.model.", ""];
    let names = Prefixed::new(checkpoint, &prefixes, "norm.weight");
    let layer = |i: usize| layer(&names, config, i);
    let mut parts = names.parts(config, layer, "embed_tokens.weight", "lm_head.weight", "norm", false)?;
    let layers = 0..config.blocks.len();
    let scale = |i: usize| Ok::<_, ModelError>(names.vector(&format!("layers.{i}.layer_scalar"), 1)?[0]);
    parts.layer_scales = Some(layers.map(scale).collect::<Result<_, _>>()?);
    parts.per_layer = config.per_layer.map(|of| per_layer(&names, config, of)).transpose()?;
    Ok(parts)
}

fn layer(names: &Prefixed<'_>, config: &DecoderConfig, i: usize) -> Result<Layer, ModelError> {
    let &DecoderConfig { width, norm, .. } = config;
    let name = |part: &str| format!("layers.{i}.{part}");
    let scales = |part: &str| names.scales(&name(part), width, norm, false);
    let network = |of: &Dense| dense(names, &name("mlp"), GATE_UP_DOWN, width, of);
    let Block { mixer, feed_forward } = &config.blocks[i];
    let attention = mixer.attention().expect("attention in each layer");
    Ok(Layer {
        mixer_norm: Some(scales("input_layernorm")?),
        mixer: MixerParts::Attention(attention_parts(names, &name("self_attn"), config, attention)?),
        after_mixer: Some(scales("post_attention_layernorm")?),
        feed_forward_norm: Some(scales("pre_feedforward_layernorm")?),
        feed_forward: match feed_forward {
            FeedForward::Dense(of) => FeedForwardParts::Dense(network(of)?),
            FeedForward::Both(Both { dense, mixture }) => FeedForwardParts::Both(Box::new(BothParts {
                dense: network(dense)?,
                after_dense: scales("post_feedforward_layernorm_1")?,
                router_norm: router_norm(names, &name("router.scale"), width)?,
                mixture_norm: scales("pre_feedforward_layernorm_2")?,
                mixture: MixtureParts {
                    router: names.projection(&name("router.proj"), mixture.experts, width, false)?,
                    choice_bias: None,
                    experts: experts(names, &name("experts"), GATE_UP_DOWN, width, mixture)?,
                    shared: None,
                    shared_gate: None,
                    expert_scales: Some(names.vector(&name("router.per_expert_scale"), mixture.experts)?),
                    latent: None,
                },
                after_mixture: scales("post_feedforward_layernorm_2")?,
            })),
            _ => unreachable!("these models have a network next to their experts"),
        },
        after_feed_forward: Some(scales("post_feedforward_layernorm")?),
    })
}

/// The norm of the residual stream before the router.
fn router_norm(names: &Prefixed<'_>, name: &str, width: usize) -> Result<Scales, ModelError> {
    let mut weight = names.vector(name, width)?;
    let scale = 1.0 / (width as f32).sqrt();
    weight.iter_mut().for_each(|weight| *weight *= scale);
    Ok(Scales { weight, bias: None })
}

pub(super) fn attention_parts(
    names: &Prefixed<'_>,
    prefix: &str,
    config: &DecoderConfig,
    of: &Attention,
) -> Result<AttentionParts, ModelError> {
    let &Attention { heads, kv_heads, head_dim, bias, output_bias, values_of_keys, .. } = of;
    let (width, of_query, of_key) = (config.width, heads * head_dim, kv_heads * head_dim);
    let projection = |part: &str, out| names.projection(&format!("{prefix}.{part}"), out, width, bias);
    let norm = |part: &str| names.vector(&format!("{prefix}.{part}.weight"), head_dim);
    let has_keys = of.reads.is_none();
    Ok(AttentionParts {
        query: projection("q_proj", of_query)?,
        key: has_keys.then(|| projection("k_proj", of_key)).transpose()?,
        value: (has_keys && !values_of_keys).then(|| projection("v_proj", of_key)).transpose()?,
        query_norm: Some(norm("q_norm")?),
        key_norm: has_keys.then(|| norm("k_norm")).transpose()?,
        sinks: None,
        output: names.projection(&format!("{prefix}.o_proj"), width, of_query, output_bias)?,
        // The norm of values has no factors.
        value_norm: has_keys.then(|| vec![1.0; head_dim]),
    })
}

pub(super) fn per_layer(
    names: &Prefixed<'_>,
    config: &DecoderConfig,
    of: PerLayer,
) -> Result<PerLayerParts, ModelError> {
    let &DecoderConfig { width, norm, .. } = config;
    let layers = config.blocks.len();
    let of_all = layers * of.width;
    let layer = |i: usize| {
        let name = |part: &str| format!("layers.{i}.{part}");
        Ok(PerLayerPart {
            gate: names.projection(&name("per_layer_input_gate"), of.width, width, false)?,
            projection: names.projection(&name("per_layer_projection"), width, of.width, false)?,
            norm: names.scales(&name("post_per_layer_input_norm"), width, norm, false)?,
        })
    };
    Ok(PerLayerParts {
        embedding: names.projection("embed_tokens_per_layer", of.vocabulary, of_all, false)?.matrix,
        projection: names.projection("per_layer_model_projection", of_all, width, false)?,
        norm: names.scales("per_layer_projection_norm", of.width, norm, false)?,
        layers: (0..layers).map(layer).collect::<Result<_, ModelError>>()?,
    })
}
