//! Llama and related models: separate matrices, a gated feed-forward part, root-mean-square norms, rotary positions.

use serde_json::Value;
use verdigris_text::shown;

use super::fields::Fields;
use super::mixture::{self, mixture};
use super::prefixed::Prefixed;
use super::rotary::{Elsewhere, longest, parameters, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Activation, Attention, Block, DecoderConfig, Dense, FeedForward, Mixer, Norm, NormPlacement, Positions,
    QueryKeyNorm, Rotary, Scaling,
};
use crate::description::parts::{
    AttentionParts, DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Scales, norms,
};
use crate::error::ModelError;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let model = fields.model_type()?;
    let (width, heads) = (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?);
    let layers = fields.layers(&["num_hidden_layers"])?;
    let head_dim = fields.size_or(&["head_dim"])?.map_or_else(|| Fields::head_dim(width, heads), Ok)?;
    let (is_gemma, is_gemma3) = (model.starts_with("gemma"), model.starts_with("gemma3"));
    let activation = if is_gemma {
        fields.activation(&["hidden_activation", "hidden_act"], "gelu_pytorch_tanh")?
    } else {
        fields.activation(&["hidden_act"], "silu")?
    };
    fields.refuse("use_bidirectional_attention", |value| value == false)?;
    // transformers ignores `attn_logit_softcapping` for Gemma 3; of the others only Gemma 2 has it.
    let none = |_: &Value| false;
    if model != "gemma2" {
        fields.refuse("attn_logit_softcapping", none)?;
    }
    if model != "gemma2" && !is_gemma3 {
        fields.refuse("final_logit_softcapping", none)?;
    }
    fields.refuse("clip_qkv", none)?;
    let bias = match model {
        "qwen2" => true,
        "qwen2_moe" => fields.flag("qkv_bias", true)?,
        _ => fields.flag("attention_bias", false)?,
    };
    let trained = fields.size(&["max_position_embeddings"])?;
    let rotary = rotary_of(model, fields, head_dim, trained)?;
    let scalar = fields.number("query_pre_attn_scalar")?.filter(|_| model == "gemma2" || is_gemma3);
    let attention = Attention {
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim,
        bias,
        output_bias: bias && !model.starts_with("qwen2"),
        query_key_norm: match model {
            "qwen3" | "qwen3_moe" | "gemma3" | "gemma3_text" => Some(QueryKeyNorm::Heads),
            "olmo2" | "olmoe" => Some(QueryKeyNorm::Tokens),
            _ => None,
        },
        scale: scalar.map(|scalar| scalar.powf(-0.5)),
        cap: fields.number("attn_logit_softcapping")?,
        sinks: model == "gpt_oss",
        ..Attention::default()
    };
    // Gemma says `gelu` but means the tanh approximation.
    let activation = if model == "gemma" && activation == Activation::Gelu { Activation::GeluTanh } else { activation };
    let network = || {
        let (width, bias) = (fields.size(&["intermediate_size"])?, fields.flag("mlp_bias", false)?);
        Ok::<_, String>(FeedForward::Dense(Dense { width, activation, gated: true, bias }))
    };
    let kinds = kinds(model, fields, layers)?.into_iter().enumerate();
    let block = |(layer, Kind { window, rotary })| {
        let mixture = mixture(model, fields, layer)?.map(FeedForward::Mixture);
        let mixer = Mixer::Attention(Attention { window, rotary, ..attention.clone() });
        Ok(Block { mixer, feed_forward: mixture.map_or_else(network, Ok)? })
    };
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: longest(trained, &rotary),
        norm: Norm::Rms { epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) },
        norm_placement: match model {
            "olmo2" => NormPlacement::After,
            "gemma2" | "gemma3" | "gemma3_text" => NormPlacement::Around,
            _ => NormPlacement::Before,
        },
        positions: Positions::Rotary(rotary),
        blocks: kinds.map(block).collect::<Result<_, String>>()?,
        embedding_scale: is_gemma.then(|| (width as f64).sqrt()),
        logit_cap: fields.number("final_logit_softcapping")?,
        tied: fields.flag("tie_word_embeddings", is_gemma)?,
        ..DecoderConfig::default()
    })
}

/// The rotary embeddings of a model. Gemma 3 has one for full attention and one for windows.
fn rotary_of(model: &str, fields: &Fields, head_dim: usize, context: usize) -> Result<Vec<Rotary>, String> {
    let is_gemma3 = model.starts_with("gemma3");
    let theta = fields.number("rope_theta")?.unwrap_or(if is_gemma3 { 1_000_000.0 } else { 10_000.0 });
    let of = |theta| Elsewhere { theta, head_dim, share: (model == "phi3").then_some(1.0), context };
    let parameters = parameters(fields)?;
    if !is_gemma3 {
        let rotary = rotary(fields, parameters.as_ref(), &of(theta))?;
        if model == "phi3" && !matches!(rotary.scaling, Scaling::None | Scaling::LongRope { .. }) {
            return Err(
                "rotary positions of other types than longrope are not supported for model_type \"phi3\"".into()
            );
        }
        return Ok(vec![rotary]);
    }
    let local_theta = fields.number("rope_local_base_freq")?.unwrap_or(10_000.0);
    let (mut global, mut local) = (parameters, None);
    // transformers 5 keeps the parameters of both in one object.
    if let Some(both) = &global
        && (both.get("full_attention").is_some() || both.get("sliding_attention").is_some())
    {
        local = both.inner("sliding_attention")?;
        global = both.inner("full_attention")?;
    }
    Ok(vec![rotary(fields, global.as_ref(), &of(theta))?, rotary(fields, local.as_ref(), &of(local_theta))?])
}

/// The particulars of a layer's attention: see [`Attention`].
struct Kind {
    window: Option<usize>,
    rotary: Option<usize>,
}

/// The particulars of each layer's attention.
fn kinds(model: &str, fields: &Fields, layers: usize) -> Result<Vec<Kind>, String> {
    let (is_gemma3, is_qwen) = (model.starts_with("gemma3"), model.starts_with("qwen"));
    let is_optional = is_qwen || model == "smollm3";
    let slides = !is_optional || fields.flag("use_sliding_window", false)?;
    let window = fields.size_or(&["sliding_window"])?.filter(|_| slides);
    let rotating = rotating(model, fields, layers)?;
    let rotates = |i: usize| rotating.get(i).copied().unwrap_or(true);
    let first_to_slide = fields.size_or(&["max_window_layers"])?.unwrap_or(usize::MAX);
    let period = fields.size_or(&["sliding_window_pattern"])?.unwrap_or(6).max(1);
    let usual = |i: usize| match model {
        "mistral" | "mixtral" | "phi3" => true,
        "gemma2" | "gpt_oss" => i.is_multiple_of(2),
        "gemma3" | "gemma3_text" => !(i + 1).is_multiple_of(period),
        _ if is_qwen => i >= first_to_slide,
        "smollm3" => !rotates(i),
        _ => false,
    };
    let types = fields.list("layer_types")?;
    if let Some(types) = types
        && types.len() < layers
    {
        return Err(format!("layer_types has {} of {layers} layers", types.len()));
    }
    let kind = |i: usize| {
        let usual = window.is_some() && usual(i);
        let slides = match types.map(|types| (&types[i], types[i].as_str())) {
            None => usual,
            Some((_, Some("full_attention"))) => false,
            Some((_, Some("sliding_attention"))) => true,
            Some((other, _)) => {
                return Err(format!(
                    "layer_types has {}, which is not supported; full_attention and sliding_attention are",
                    shown(&other.to_string())
                ));
            }
        };
        // The other models have no layers of different types, whatever the file says.
        let has_types = is_optional || is_gemma3 || model == "gemma2" || model == "gpt_oss";
        if slides && window.is_none() {
            return Err("layer_types has layers with a window, but there is no sliding_window".into());
        }
        if !has_types && slides != usual {
            return Err(format!("layer_types is not supported for model_type {model:?}"));
        }
        let rotary = if is_gemma3 && slides { 1 } else { 0 };
        Ok(Kind { window: window.filter(|_| slides), rotary: rotates(i).then_some(rotary) })
    };
    (0..layers).map(kind).collect()
}

/// The layers that have rotary positions, if not all have them (SmolLM3).
fn rotating(model: &str, fields: &Fields, layers: usize) -> Result<Vec<bool>, String> {
    if model != "smollm3" {
        fields.refuse("no_rope_layers", |value| value.as_array().is_some_and(|all| all.iter().all(|one| *one != 0)))?;
        return Ok(Vec::new());
    }
    if let Some(listed) = fields.list("no_rope_layers")? {
        let numbers: Option<Vec<u64>> = listed.iter().map(Value::as_u64).collect();
        let numbers = numbers.filter(|numbers| numbers.len() >= layers);
        let numbers = numbers.ok_or_else(|| format!("no_rope_layers is not a list of {layers} numbers"))?;
        return Ok(numbers.iter().map(|&number| number != 0).collect());
    }
    let period = fields.size_or(&["no_rope_layer_interval"])?.unwrap_or(4).max(1);
    Ok((1..=layers).map(|layer| !layer.is_multiple_of(period)).collect())
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let names = names(checkpoint);
    let embedding_name = names.name("embed_tokens.weight");
    let embedding = checkpoint.matrix(&embedding_name, [config.vocabulary, config.width])?;
    // Some wrappers have it inside their text part.
    let outputs = ["lm_head.weight", "language_model.lm_head.weight"];
    let output_name = outputs.into_iter().find(|name| checkpoint.has(name)).unwrap_or(outputs[0]);
    let output = names.output(config, &embedding_name, output_name)?;
    let (layers, norm) = layers(checkpoint, config, fields)?;
    Ok(Parts { embedding, positions: None, embedding_norm: None, layers, norm, output })
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
    let norms_are_whole = fields.flag("norms_are_whole", false).unwrap_or_default();
    let names = names(checkpoint);
    let &DecoderConfig { width, norm, .. } = config;
    let scales = |name: &str, length: usize| -> Result<Scales, ModelError> {
        let mut scales = names.scales(name, length, norm, false)?;
        if model.starts_with("gemma") && !norms_are_whole {
            // Gemma stores the difference from one.
            scales.weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(scales)
    };
    let (before, after) = norms(config.norm_placement);
    let names_of_norms = match config.norm_placement {
        NormPlacement::Before => ["input_layernorm", "", "post_attention_layernorm", ""],
        NormPlacement::After => ["", "post_attention_layernorm", "", "post_feedforward_layernorm"],
        NormPlacement::Around => {
            ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
        }
    };
    let layer = |(i, block): (usize, &Block)| {
        let name = |part: &str| format!("layers.{i}.{part}");
        let norm_of =
            |which: usize, is_there: bool| is_there.then(|| scales(&name(names_of_norms[which]), width)).transpose();
        let mixer = MixerParts::Attention(match &block.mixer {
            Mixer::Attention(of) => attention(&names, model, &name("self_attn"), width, of, &scales)?,
            _ => unreachable!("models like Llama have attention in every layer"),
        });
        Ok(Layer {
            mixer_norm: norm_of(0, before)?,
            mixer,
            after_mixer: norm_of(1, after)?,
            feed_forward_norm: norm_of(2, before)?,
            feed_forward: match &block.feed_forward {
                FeedForward::Dense(of) => FeedForwardParts::Dense(network(&names, model, &name("mlp"), width, of)?),
                FeedForward::Mixture(of) => FeedForwardParts::Mixture(Box::new(mixture::parts(
                    &names,
                    model,
                    &format!("layers.{i}"),
                    width,
                    of,
                )?)),
                FeedForward::None => FeedForwardParts::None,
            },
            after_feed_forward: norm_of(3, after)?,
        })
    };
    let layers = config.blocks.iter().enumerate().map(layer).collect::<Result<_, ModelError>>()?;
    Ok((layers, scales("norm", width)?))
}

/// The weights of attention, whose names begin with `prefix`.
fn attention(
    names: &Prefixed<'_>,
    model: &str,
    prefix: &str,
    width: usize,
    of: &Attention,
    scales: &dyn Fn(&str, usize) -> Result<Scales, ModelError>,
) -> Result<AttentionParts, ModelError> {
    let &Attention { heads, kv_heads, head_dim, bias, output_bias, query_key_norm, sinks, .. } = of;
    let (of_query, of_key) = (heads * head_dim, kv_heads * head_dim);
    let name = |part: &str| format!("{prefix}.{part}");
    let projection = |part: &str, out| names.projection(&name(&format!("{part}_proj")), out, width, bias);
    let (query, key, value) = if model == "phi3" {
        let all = projection("qkv", of_query + 2 * of_key)?;
        let (to_key, to_value) = (of_query + of_key, of_query + 2 * of_key);
        (all.part(0..of_query), all.part(of_query..to_key), all.part(to_key..to_value))
    } else {
        (projection("q", of_query)?, projection("k", of_key)?, projection("v", of_key)?)
    };
    let head_norm = |part: &str, all: usize| {
        let length = match query_key_norm {
            None => return Ok(None),
            Some(QueryKeyNorm::Heads) => head_dim,
            Some(QueryKeyNorm::Tokens) => all,
        };
        scales(&name(&format!("{part}_norm")), length).map(|scales| Some(scales.weight))
    };
    Ok(AttentionParts {
        query,
        key,
        value,
        query_norm: head_norm("q", of_query)?,
        key_norm: head_norm("k", of_key)?,
        sinks: sinks.then(|| names.vector(&name("sinks"), heads)).transpose()?,
        output: names.projection(&name("o_proj"), width, of_query, output_bias)?,
    })
}

/// The weights of a feed-forward network, whose names begin with `prefix`.
fn network(
    names: &Prefixed<'_>,
    model: &str,
    prefix: &str,
    width: usize,
    &Dense { width: inner, bias, .. }: &Dense,
) -> Result<DenseParts, ModelError> {
    let (gate, up) = if model == "phi3" {
        let both = names.projection(&format!("{prefix}.gate_up_proj"), 2 * inner, width, bias)?;
        (both.part(0..inner), both.part(inner..2 * inner))
    } else {
        let of = |part: &str| names.projection(&format!("{prefix}.{part}_proj"), inner, width, bias);
        (of("gate")?, of("up")?)
    };
    let down = names.projection(&format!("{prefix}.down_proj"), width, inner, bias)?;
    Ok(DenseParts { gate: Some(gate), up, down })
}
