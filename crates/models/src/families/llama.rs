//! Llama and its kin: separate matrices, a gated feed-forward part, root-mean-square norms, rotary positions.

use serde_json::Value;

use super::{Fields, Names, output};
use crate::checkpoint::Checkpoint;
use crate::config::{
    Activation, DecoderConfig, FeedForward, LayerKind, Norm, NormPlaces, Pairs, Positions, QueryKeyNorm, Rotary,
    Scaling,
};
use crate::cpu::{Layer, Parts, Scales, norms};
use crate::error::ModelError;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let model = fields.text("model_type").unwrap_or_default();
    let (width, heads, layers) =
        (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?, fields.size(&["num_hidden_layers"])?);
    let head_dim = fields.size_or(&["head_dim"])?.or(width.checked_div(heads)).unwrap_or(0);
    let is_gemma = model.starts_with("gemma");
    let activation = if is_gemma {
        fields.activation(&["hidden_activation", "hidden_act"], "gelu_pytorch_tanh")?
    } else {
        fields.activation(&["hidden_act"], "silu")?
    };
    let attention_bias = fields.flag("attention_bias", false);
    let (rotary, kinds) = positions(model, fields, head_dim, layers)?;
    let scalar = fields.number("query_pre_attn_scalar")?.filter(|_| is_gemma && model != "gemma");
    // Gemma says `gelu` where it means the other.
    let activation = if model == "gemma" && activation == Activation::Gelu { Activation::GeluTanh } else { activation };
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        layers,
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim,
        context: context(fields, &rotary)?,
        norm: Norm::Rms { epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) },
        norm_places: match model {
            "olmo2" => NormPlaces::After,
            "gemma2" | "gemma3" | "gemma3_text" => NormPlaces::Around,
            _ => NormPlaces::Before,
        },
        positions: Positions::Rotary(rotary),
        kinds,
        feed_forward: FeedForward::Gated {
            width: fields.size(&["intermediate_size"])?,
            activation,
            bias: fields.flag("mlp_bias", false),
        },
        attention_bias: attention_bias || model == "qwen2",
        output_bias: attention_bias,
        query_key_norm: match model {
            "qwen3" | "gemma3" | "gemma3_text" => Some(QueryKeyNorm::Heads),
            "olmo2" => Some(QueryKeyNorm::Tokens),
            _ => None,
        },
        attention_scale: scalar.map(|scalar| scalar.powf(-0.5)),
        attention_cap: fields.number("attn_logit_softcapping")?,
        embedding_scale: is_gemma.then(|| (width as f64).sqrt()),
        logit_cap: fields.number("final_logit_softcapping")?,
        tied: fields.flag("tie_word_embeddings", is_gemma),
        ..DecoderConfig::default()
    })
}

/// The longest texts: with a base that grows, longer ones than the model was trained on.
fn context(fields: &Fields, rotary: &[Rotary]) -> Result<usize, String> {
    let trained = fields.size(&["max_position_embeddings"])?;
    Ok(match rotary {
        [Rotary { scaling: Scaling::Dynamic { factor, .. }, .. }, ..] => (trained as f64 * factor) as usize,
        _ => trained,
    })
}

/// The rotary embeddings of a model, and what is particular to each of its layers.
fn positions(
    model: &str,
    fields: &Fields,
    head_dim: usize,
    layers: usize,
) -> Result<(Vec<Rotary>, Vec<LayerKind>), String> {
    let window = fields.size_or(&["sliding_window"])?.filter(|_| match model {
        "qwen2" | "qwen3" | "smollm3" => fields.flag("use_sliding_window", false),
        _ => true,
    });
    let is_gemma3 = model.starts_with("gemma3");
    let kind = |i: usize, kind: Option<&str>| {
        let slides = match (kind, model) {
            (Some(kind), _) => kind == "sliding_attention",
            (None, "mistral" | "phi3") => true,
            (None, "gemma2") => i.is_multiple_of(2),
            (None, "gemma3" | "gemma3_text") => !(i + 1).is_multiple_of(6),
            (None, "qwen2" | "qwen3") => {
                fields.size_or(&["max_window_layers"]).ok().flatten().is_some_and(|first| i >= first)
            }
            _ => false,
        };
        let turns = fields.get("no_rope_layers").and_then(|layers| layers.get(i)?.as_u64()) != Some(0);
        let rotary = if is_gemma3 && slides { 1 } else { 0 };
        LayerKind { window: window.filter(|_| slides), rotary: turns.then_some(rotary) }
    };
    let types = fields.get("layer_types").and_then(Value::as_array);
    let kind_of = |i: usize| kind(i, types.and_then(|types| types.get(i)?.as_str()));
    let mut kinds: Vec<LayerKind> = (0..layers.min(1 << 16)).map(kind_of).collect();
    if kinds.iter().all(|kind| *kind == LayerKind::default()) {
        kinds.clear();
    }
    let theta = fields.number("rope_theta")?;
    // transformers 5 keeps everything about them in one place.
    let rotary = if let Some(parameters) = fields.inner("rope_parameters") {
        let (global, local) = (parameters.inner("full_attention"), parameters.inner("sliding_attention"));
        match (global, local) {
            (Some(global), Some(local)) => {
                vec![rotary(fields, Some(&global), theta, head_dim)?, rotary(fields, Some(&local), None, head_dim)?]
            }
            _ => vec![rotary(fields, Some(&parameters), theta, head_dim)?],
        }
    } else {
        let scaling = fields.inner("rope_scaling");
        let theta = theta.or(is_gemma3.then_some(1_000_000.0));
        let mut all = vec![rotary(fields, scaling.as_ref(), theta, head_dim)?];
        if is_gemma3 {
            all.push(Rotary::new(fields.number("rope_local_base_freq")?.unwrap_or(10_000.0)));
        }
        all
    };
    Ok((rotary, kinds))
}

fn rotary(fields: &Fields, parameters: Option<&Fields>, theta: Option<f64>, head_dim: usize) -> Result<Rotary, String> {
    let of = |name: &str| parameters.map_or(Ok(None), |parameters| parameters.number(name));
    let theta = of("rope_theta")?.or(theta).unwrap_or(10_000.0);
    let share = of("partial_rotary_factor")?.or(fields.number("partial_rotary_factor")?).unwrap_or(1.0);
    let elements = (share < 1.0).then_some((head_dim as f64 * share) as usize);
    let kind = parameters.and_then(|parameters| parameters.text("rope_type").or(parameters.text("type")));
    let missing = |name: &str| format!("rotary positions of type {:?} have no {name}", kind.unwrap_or_default());
    let needed = |name: &str| of(name)?.ok_or_else(|| missing(name));
    let scaling = match kind.unwrap_or("default") {
        "default" => Scaling::None,
        "linear" => Scaling::Linear(needed("factor")?),
        "llama3" => Scaling::Llama3 {
            factor: needed("factor")?,
            low: needed("low_freq_factor")?,
            high: needed("high_freq_factor")?,
            context: needed("original_max_position_embeddings")?,
        },
        "yarn" => yarn(fields, parameters, needed("factor")?)?,
        "longrope" | "su" => long_rope(fields, parameters)?,
        "dynamic" => {
            Scaling::Dynamic { factor: needed("factor")?, context: fields.size(&["max_position_embeddings"])? }
        }
        other => {
            return Err(format!(
                "rotary positions of type {other:?} are not supported; default, linear, llama3, yarn, longrope and dynamic are"
            ));
        }
    };
    let pairs = if fields.flag("rope_neighbours", false) { Pairs::Neighbours } else { Pairs::Halves };
    Ok(Rotary { theta, elements, pairs, scaling })
}

/// The context of the first training, and how much longer texts may be now.
fn first_context(fields: &Fields, parameters: Option<&Fields>) -> Result<(usize, f64), String> {
    let name = ["original_max_position_embeddings"];
    let of = parameters.map_or(Ok(None), |parameters| parameters.size_or(&name))?;
    let now = fields.size(&["max_position_embeddings"])?;
    let first = of.or(fields.size_or(&name)?).unwrap_or(now);
    Ok((first, now as f64 / first as f64))
}

fn yarn(fields: &Fields, parameters: Option<&Fields>, factor: f64) -> Result<Scaling, String> {
    let of = |name: &str| parameters.map_or(Ok(None), |parameters| parameters.number(name));
    // Softmax is sharper the longer the text (section 3.4 of the paper).
    let sharper = |by: f64| if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 };
    let magnitude = match (of("attention_factor")?, of("mscale")?, of("mscale_all_dim")?) {
        (Some(magnitude), ..) => magnitude,
        (None, Some(some), Some(all)) if some != 0.0 && all != 0.0 => sharper(some) / sharper(all),
        _ => sharper(1.0),
    };
    Ok(Scaling::Yarn {
        factor,
        fast: of("beta_fast")?.unwrap_or(32.0),
        slow: of("beta_slow")?.unwrap_or(1.0),
        context: first_context(fields, parameters)?.0 as f64,
        magnitude,
        truncate: parameters.is_none_or(|parameters| parameters.flag("truncate", true)),
    })
}

fn long_rope(fields: &Fields, parameters: Option<&Fields>) -> Result<Scaling, String> {
    let list = |name: &str| {
        let list = parameters.and_then(|parameters| parameters.get(name)?.as_array());
        let numbers = list.and_then(|list| list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>());
        numbers.ok_or_else(|| format!("rotary positions of type \"longrope\" have no {name} of numbers"))
    };
    let of = |name: &str| parameters.map_or(Ok(None), |parameters| parameters.number(name));
    let (context, longer) = first_context(fields, parameters)?;
    let longer = of("factor")?.unwrap_or(longer);
    let by_length = if longer <= 1.0 { 1.0 } else { (1.0 + longer.ln() / (context as f64).ln()).sqrt() };
    let magnitude = of("attention_factor")?.unwrap_or(by_length);
    Ok(Scaling::LongRope { short: list("short_factor")?, long: list("long_factor")?, context, magnitude })
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let model = fields.text("model_type").unwrap_or_default();
    let prefixes = ["model.", "model.language_model.", "language_model.model.", ""];
    let names = Names::new(checkpoint, &prefixes, "embed_tokens.weight");
    let &DecoderConfig { vocabulary, width, heads, kv_heads, head_dim, norm, .. } = config;
    let scales = |name: &str, length: usize| -> Result<Scales, ModelError> {
        let mut scales = names.scales(name, length, norm, false)?;
        if model.starts_with("gemma") && !fields.flag("norms_are_whole", false) {
            // Gemma stores what differs from one.
            scales.weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(scales)
    };
    let embedding = checkpoint.matrix(&names.name("embed_tokens.weight"), [vocabulary, width])?;
    let FeedForward::Gated { width: inner, bias, .. } = config.feed_forward else { unreachable!("it is gated") };
    let (before, after) = norms(config.norm_places);
    let names_of_norms = match config.norm_places {
        NormPlaces::Before => ["input_layernorm", "", "post_attention_layernorm", ""],
        NormPlaces::After => ["", "post_attention_layernorm", "", "post_feedforward_layernorm"],
        NormPlaces::Around => {
            ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
        }
    };
    let layer = |i: usize| {
        let name = |part: &str| format!("layers.{i}.{part}");
        let norm_of =
            |which: usize, is_there: bool| is_there.then(|| scales(&name(names_of_norms[which]), width)).transpose();
        let (of_query, of_key) = (heads * head_dim, kv_heads * head_dim);
        let attention = |part: &str, out| {
            names.projection(&name(&format!("self_attn.{part}_proj")), out, width, config.attention_bias)
        };
        let (query, key, value) = if model == "phi3" {
            let all = attention("qkv", of_query + 2 * of_key)?;
            let (to_key, to_value) = (of_query + of_key, of_query + 2 * of_key);
            (all.part(0..of_query), all.part(of_query..to_key), all.part(to_key..to_value))
        } else {
            (attention("q", of_query)?, attention("k", of_key)?, attention("v", of_key)?)
        };
        let (gate, up) = if model == "phi3" {
            let both = names.projection(&name("mlp.gate_up_proj"), 2 * inner, width, bias)?;
            (both.part(0..inner), both.part(inner..2 * inner))
        } else {
            let mlp = |part: &str| names.projection(&name(&format!("mlp.{part}_proj")), inner, width, bias);
            (mlp("gate")?, mlp("up")?)
        };
        let turned = |part: &str, all: usize| {
            let length = match config.query_key_norm {
                None => return Ok(None),
                Some(QueryKeyNorm::Heads) => head_dim,
                Some(QueryKeyNorm::Tokens) => all,
            };
            scales(&name(&format!("self_attn.{part}_norm")), length).map(|scales| Some(scales.weight))
        };
        Ok(Layer {
            attention_norm: norm_of(0, before)?,
            query,
            key,
            value,
            query_norm: turned("q", of_query)?,
            key_norm: turned("k", of_key)?,
            output: names.projection(&name("self_attn.o_proj"), width, of_query, config.output_bias)?,
            after_attention: norm_of(1, after)?,
            feed_forward_norm: norm_of(2, before)?,
            gate: Some(gate),
            up,
            down: names.projection(&name("mlp.down_proj"), width, inner, bias)?,
            after_feed_forward: norm_of(3, after)?,
        })
    };
    let layers = (0..config.layers).map(layer).collect::<Result<_, ModelError>>()?;
    let output = output(checkpoint, config, &embedding, "lm_head.weight")?;
    Ok(Parts { embedding, positions: None, embedding_norm: None, layers, norm: scales("norm", width)?, output })
}
