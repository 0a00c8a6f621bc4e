//! Llama and related models, described: separate matrices, a gated feed-forward part, root-mean-square norms, rotary
//! positions, and the choices of a [`Row`].

use serde_json::Value;

use super::fields::Fields;
use super::latent::latent;
use super::llama_table::{
    Bias, EmbeddingScale, Layers, LocalTheta, LogitScale, Network, NormField, Row, Scale, Windows, row,
};
use super::mixture::mixture;
use super::rotary::{Elsewhere, first_context, longest, parameters, rotary};
use crate::description::config::{
    Activation, Attention, Block, DecoderConfig, Dense, FeedForward, Mixer, Norm, Pairs, Parallel, Positions,
    QueryGrowth, Rotary, Scaling,
};

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let model = fields.model_type()?;
    let row = row(model);
    let (width, heads) = (fields.size(&["hidden_size"])?, fields.size(&["num_attention_heads"])?);
    let layers = fields.layers(&["num_hidden_layers"])?;
    let latent = row.latent.then(|| latent(fields)).transpose()?;
    let head_dim = if row.own_head_dim { fields.size_or(&["head_dim"])? } else { None };
    let head_dim = match &latent {
        Some(latent) => latent.rotated,
        None => head_dim.map_or_else(|| Fields::head_dim(width, heads), Ok)?,
    };
    let activation = fields.activation(row.activation.0, row.activation.1)?;
    fields.refuse("use_bidirectional_attention", |value| value == false)?;
    let none = |_: &Value| false;
    if !row.caps_attention {
        fields.refuse("attn_logit_softcapping", none)?;
    }
    if !row.caps_logits {
        fields.refuse("final_logit_softcapping", none)?;
    }
    fields.refuse("clip_qkv", none)?;
    let bias = |of: Bias| match of {
        Bias::Always => Ok(true),
        Bias::Never => Ok(false),
        Bias::Field(name, usual) => fields.flag(name, usual),
    };
    let trained = fields.size(&["max_position_embeddings"])?;
    let rotary = rotary_of(row, fields, head_dim, trained)?;
    let attention = Attention {
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim,
        bias: bias(row.query_bias)?,
        output_bias: bias(row.output_bias)?,
        query_key_norm: match row.query_key_norm_if {
            Some(name) if !fields.flag(name, false)? => None,
            _ => row.query_key_norm,
        },
        scale: match row.scale {
            None => None,
            Some(Scale::InverseRoot(name)) => fields.number(name)?.map(|scalar| scalar.powf(-0.5)),
            Some(Scale::Field(name)) => Some(fields.number(name)?.unwrap_or(1.0)),
        },
        cap: fields.number("attn_logit_softcapping")?,
        sinks: row.sinks,
        query_growth: if row.queries_grow { query_growth(fields, trained)? } else { None },
        ..Attention::default()
    };
    let activation = if row.gelu_is_tanh && activation == Activation::Gelu { Activation::GeluTanh } else { activation };
    let network = || {
        let (width, bias) = (fields.size(&["intermediate_size"])?, bias(row.network_bias)?);
        Ok::<_, String>(FeedForward::Dense(Dense {
            width,
            activation,
            gated: !matches!(row.network, Network::Ungated),
            bias,
        }))
    };
    let kinds = kinds(row, fields, layers)?.into_iter().enumerate();
    let block = |(layer, Kind { window, rotary })| {
        let mixture = mixture(model, fields, layer)?.map(FeedForward::Mixture);
        let mixer = match &latent {
            Some(latent) => Mixer::Latent(latent.clone()),
            None => Mixer::Attention(Attention { window, rotary, ..attention.clone() }),
        };
        Ok(Block { mixer, feed_forward: mixture.map_or_else(network, Ok)? })
    };
    let changes = |scale: &f64| *scale != 1.0;
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: longest(trained, &rotary),
        norm: match row.norm {
            NormField::Rms(name) => Norm::Rms { epsilon: fields.number(name)?.unwrap_or(1e-6) },
            NormField::Layer(name, _) => Norm::Layer { epsilon: fields.number(name)?.unwrap_or(1e-5) },
        },
        norm_placement: row.placement,
        parallel: row.parallel.then_some(Parallel::OneNorm),
        positions: Positions::Rotary(rotary),
        blocks: kinds.map(block).collect::<Result<_, String>>()?,
        embedding_scale: match row.embedding_scale {
            None => None,
            Some(EmbeddingScale::RootOfWidth) => Some((width as f64).sqrt()),
            Some(EmbeddingScale::Field(name)) => fields.number(name)?,
        },
        logit_cap: fields.number("final_logit_softcapping")?,
        tied: fields.flag("tie_word_embeddings", row.tied)?,
        residual_scale: row.residual_scale.map_or(Ok(None), |name| fields.number(name))?.filter(changes),
        logit_scale: match row.logit_scale {
            None => None,
            Some(LogitScale::Field(name)) => fields.number(name)?,
            Some(LogitScale::Inverse(name)) => fields.number(name)?.map(|divisor| 1.0 / divisor),
        }
        .filter(changes),
        ..DecoderConfig::default()
    })
}

/// The growth of queries, which is among the rotary parameters.
fn query_growth(fields: &Fields, context: usize) -> Result<Option<QueryGrowth>, String> {
    const RATE: &str = "llama_4_scaling_beta";
    let parameters = parameters(fields)?;
    let rate = parameters.as_ref().map_or(Ok(None), |parameters| parameters.number(RATE))?;
    let rate = rate.ok_or_else(|| format!("the rotary parameters have no {RATE}"))?;
    let (context, _) = first_context(fields, parameters.as_ref(), context)?;
    Ok((rate != 0.0).then_some(QueryGrowth { rate, context }))
}

/// The rotary embeddings of a model: one for all layers, or one for full attention and one for windows.
fn rotary_of(row: &Row, fields: &Fields, head_dim: usize, context: usize) -> Result<Vec<Rotary>, String> {
    let theta = fields.number("rope_theta")?.unwrap_or(row.rotary.theta);
    let read = |parameters: Option<&Fields>, theta| {
        let of = Elsewhere { theta, head_dim, share: row.rotary.share, context };
        let mut rotary = rotary(fields, parameters, &of)?;
        if let (true, Some(parameters), Scaling::Dynamic { .. }) = (row.rotary.has_alpha, parameters, &rotary.scaling)
            && let Some(alpha) = parameters.number("alpha")?.filter(|&alpha| alpha != 0.0)
        {
            let theta = theta_with(rotary.theta, alpha, head_dim);
            rotary = Rotary { theta, scaling: Scaling::None, ..rotary };
        }
        if row.latent && fields.flag("rope_interleave", true)? {
            rotary.pairs = Pairs::Neighbours;
        }
        // A file of llama.cpp may have another order.
        Ok::<_, String>(if row.rotary.pairs == Pairs::Halves {
            rotary
        } else {
            Rotary { pairs: row.rotary.pairs, ..rotary }
        })
    };
    let parameters = parameters(fields)?;
    let Some(local_theta) = row.rotary.local else {
        let rotary = read(parameters.as_ref(), theta)?;
        if row.rotary.only_long_rope && !matches!(rotary.scaling, Scaling::None | Scaling::LongRope { .. }) {
            return Err(format!(
                "rotary positions of other types than longrope are not supported for model_type {:?}",
                row.model_type
            ));
        }
        return Ok(vec![rotary]);
    };
    let local_theta = match local_theta {
        LocalTheta::Field(name, usual) => fields.number(name)?.unwrap_or(usual),
        LocalTheta::Same => theta,
    };
    let (mut global, mut local) = (parameters, None);
    // transformers 5 keeps the parameters of both in one object.
    if let Some(both) = &global
        && (both.get("full_attention").is_some() || both.get("sliding_attention").is_some())
    {
        local = both.inner("sliding_attention")?;
        global = both.inner("full_attention")?;
    }
    Ok(vec![read(global.as_ref(), theta)?, read(local.as_ref(), local_theta)?])
}

/// The base of wavelengths that a constant factor makes longer (Hunyuan's `alpha`).
fn theta_with(theta: f64, alpha: f64, head_dim: usize) -> f64 {
    theta * alpha.powf(head_dim as f64 / (head_dim as f64 - 2.0))
}

/// The particulars of a layer's attention: see [`Attention`].
struct Kind {
    window: Option<usize>,
    rotary: Option<usize>,
}

/// The particulars of each layer's attention.
fn kinds(row: &Row, fields: &Fields, layers: usize) -> Result<Vec<Kind>, String> {
    let slides = !row.windows_are_optional || fields.flag("use_sliding_window", false)?;
    let window = fields.size_or(&["sliding_window"])?.filter(|_| slides);
    let rotating = rotating(row, fields, layers)?;
    let rotates = |i: usize, slides: bool| match row.positions {
        Layers::Windows => slides,
        Layers::WindowsOrAll => slides || window.is_none(),
        Layers::All | Layers::Listed => rotating.get(i).copied().unwrap_or(true),
    };
    let first_to_slide = fields.size_or(&["max_window_layers"])?.unwrap_or(usize::MAX);
    let types = fields.windows(layers)?;
    if row.windows_are_needed && window.is_none() && types.is_none() {
        return Err("sliding_window is missing".into());
    }
    let period = match (row.windows, &types) {
        (Windows::AllButEvery(usual), None) if window.is_some() => {
            fields.size_or(&["sliding_window_pattern"])?.unwrap_or(usual).max(1)
        }
        _ => 1,
    };
    let usual = |i: usize| match row.windows {
        Windows::Never => false,
        Windows::All => true,
        Windows::EveryOther => i.is_multiple_of(2),
        Windows::AllButEvery(_) => !(i + 1).is_multiple_of(period),
        Windows::AllButFourth => !(i + 1).is_multiple_of(4),
        Windows::AfterFirst => i >= first_to_slide,
        Windows::WithoutPositions => !rotates(i, false),
    };
    let kind = |i: usize| {
        let usual = window.is_some() && usual(i);
        let slides = types.as_ref().map_or(usual, |types| types[i]);
        if slides && window.is_none() {
            return Err("layer_types has layers with a window, but there is no sliding_window".into());
        }
        // Some models have no layers of different types, whatever the file says.
        if !row.has_layer_types && slides != usual {
            return Err(format!("layer_types is not supported for model_type {:?}", row.model_type));
        }
        let rotary = if row.rotary.local.is_some() && slides { 1 } else { 0 };
        Ok(Kind { window: window.filter(|_| slides), rotary: rotates(i, slides).then_some(rotary) })
    };
    (0..layers).map(kind).collect()
}

/// The layers that have rotary positions, if not all have them.
fn rotating(row: &Row, fields: &Fields, layers: usize) -> Result<Vec<bool>, String> {
    if !matches!(row.positions, Layers::Listed) {
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
