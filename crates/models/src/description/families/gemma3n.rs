//! Gemma 3n: like Gemma 4, with several residual streams, a projection past attention, and sparse activations.

use super::fields::Fields;
use super::gemma4::{attention_parts, first_shared, per_layer, reads, slides};
use super::mixture::{GATE_UP_DOWN, dense};
use super::prefixed::Prefixed;
use super::rotary::{Elsewhere, longest, rotary};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Alternating, Attention, Block, DecoderConfig, Dense, FeedForward, Mixer, Norm, NormPlacement, PerLayer, Positions,
    QueryKeyNorm, Rotary, Sparse,
};
use crate::description::parts::{
    AlternatingPart, AlternatingParts, FeedForwardParts, Layer, MixerParts, Parts, Scales,
};
use crate::error::ModelError;

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let width = fields.size(&["hidden_size"])?;
    let layers = fields.layers(&["num_hidden_layers"])?;
    let trained = fields.size(&["max_position_embeddings"])?;
    let activation = fields.activation(&["hidden_activation"], "gelu_pytorch_tanh")?;
    let head_dim = fields.size(&["head_dim"])?;
    let window = fields.size_or(&["sliding_window"])?;
    let slides = slides(fields, layers, 5)?;
    if window.is_none() && slides.contains(&true) {
        return Err("layer_types has layers with a window, but sliding_window is missing".into());
    }
    let bias = fields.flag("attention_bias", false)?;
    let first = first_shared(fields, layers)?;
    let (heads, kv_heads) = (fields.size(&["num_attention_heads"])?, fields.size(&["num_key_value_heads"])?);
    let (widths, deviations) = (widths(fields, layers)?, deviations(fields, layers)?);
    let block = |layer: usize| {
        let network = Dense { width: widths[layer], activation, gated: true, bias: false };
        let attention = Attention {
            heads,
            kv_heads,
            head_dim,
            window: window.filter(|_| slides[layer]),
            rotary: Some(usize::from(slides[layer])),
            bias,
            output_bias: bias,
            query_key_norm: Some(QueryKeyNorm::Heads),
            scale: Some(1.0),
            reads: reads(&slides, first, layer)?,
            value_norm: true,
            ..Attention::default()
        };
        let sparse = deviations[layer].map(|deviations| FeedForward::Sparse(Sparse { network, deviations }));
        let feed_forward = sparse.unwrap_or(FeedForward::Dense(network));
        Ok(Block { mixer: Mixer::Attention(attention), feed_forward })
    };
    let rotary = rotaries(fields, head_dim, trained)?;
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: longest(trained, &rotary),
        norm: Norm::Rms { epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6) },
        norm_placement: NormPlacement::Around,
        positions: Positions::Rotary(rotary),
        blocks: (0..layers).map(block).collect::<Result<_, String>>()?,
        embedding_scale: Some((width as f64).sqrt()),
        logit_cap: fields.number("final_logit_softcapping")?,
        tied: fields.flag("tie_word_embeddings", true)?,
        per_layer: Some(PerLayer {
            vocabulary: fields.size(&["vocab_size_per_layer_input"])?,
            width: fields.size(&["hidden_size_per_layer_input"])?,
            activation,
        }),
        alternating: Some(Alternating {
            streams: fields.size(&["altup_num_inputs"])?,
            active: fields.size(&["altup_active_idx"])?,
            is_scaled: fields.flag("altup_correct_scale", true)?,
            rank: fields.size(&["laurel_rank"])?,
        }),
        ..DecoderConfig::default()
    })
}

/// The width of each layer's network: one number, or a list.
fn widths(fields: &Fields, layers: usize) -> Result<Vec<usize>, String> {
    const NAME: &str = "intermediate_size";
    if !fields.get(NAME).is_some_and(serde_json::Value::is_array) {
        return Ok(vec![fields.size(&[NAME])?; layers]);
    }
    let listed = fields.list(NAME)?.unwrap_or_default();
    let numbers: Option<Vec<usize>> = listed.iter().map(|one| one.as_u64()?.try_into().ok()).collect();
    let numbers = numbers.filter(|numbers| numbers.len() == layers);
    numbers.ok_or_else(|| format!("{NAME} is not a list of {layers} numbers"))
}

/// The threshold of each layer with sparse activations: the number of standard deviations above the mean.
fn deviations(fields: &Fields, layers: usize) -> Result<Vec<Option<f64>>, String> {
    const NAME: &str = "activation_sparsity_pattern";
    let Some(listed) = fields.list(NAME)? else {
        return Ok((0..layers).map(|layer| (layers > 10 && layer < 10).then(|| quantile(0.95))).collect());
    };
    let shares: Option<Vec<f64>> = listed.iter().map(serde_json::Value::as_f64).collect();
    let shares = shares.filter(|shares| shares.len() == layers && shares.iter().all(|share| *share < 1.0));
    let shares = shares.ok_or_else(|| format!("{NAME} is not a list of {layers} numbers below 1"))?;
    Ok(shares.into_iter().map(|share| (share > 0.0).then(|| quantile(share))).collect())
}

/// The number below which a standard normal number is with probability `share`.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    // Halved until the two are neighbours.
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        let below = libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
        if below < share { low = middle } else { high = middle }
    }
    high
}

/// The rotary embeddings of full layers and of those with a window.
fn rotaries(fields: &Fields, head_dim: usize, context: usize) -> Result<Vec<Rotary>, String> {
    let given = fields.inner("rope_parameters")?;
    let scaling = fields.inner("rope_scaling")?;
    let of = |kind: &str, theta: Option<f64>, usual: f64, scaling: Option<&Fields>| {
        let own = given.as_ref().map_or(Ok(None), |given| given.inner(kind))?;
        let own_theta = own.as_ref().map_or(Ok(None), |own| own.number("rope_theta"))?;
        let theta = own_theta.or(theta).unwrap_or(usual);
        rotary(fields, scaling.or(own.as_ref()), &Elsewhere { theta, head_dim, share: None, context })
    };
    Ok(vec![
        of("full_attention", fields.number("rope_theta")?, 1e6, scaling.as_ref())?,
        of("sliding_attention", fields.number("rope_local_base_freq")?, 10_000.0, None)?,
    ])
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, _: &Fields) -> Result<Parts, ModelError> {
    let prefixes = ["model.", "model.language_model.", "language_model.model.", ""];
    let names = Prefixed::new(checkpoint, &prefixes, "norm.weight");
    let layer = |i: usize| layer(&names, config, i);
    let mut parts = names.parts(config, layer, "embed_tokens.weight", "lm_head.weight", "norm", false)?;
    parts.per_layer = config.per_layer.map(|of| per_layer(&names, config, of)).transpose()?;
    parts.alternating = config.alternating.map(|of| alternating(&names, config, of)).transpose()?;
    Ok(parts)
}

fn layer(names: &Prefixed<'_>, config: &DecoderConfig, i: usize) -> Result<Layer, ModelError> {
    let &DecoderConfig { width, norm, .. } = config;
    let name = |part: &str| format!("layers.{i}.{part}");
    let scales = |part: &str| names.scales(&name(part), width, norm, false);
    let Block { mixer, feed_forward } = &config.blocks[i];
    let attention = mixer.attention().expect("attention in each layer");
    let network = match feed_forward {
        FeedForward::Dense(network) | FeedForward::Sparse(Sparse { network, .. }) => network,
        _ => unreachable!("these models have a network in each layer"),
    };
    Ok(Layer {
        mixer_norm: Some(scales("input_layernorm")?),
        mixer: MixerParts::Attention(attention_parts(names, &name("self_attn"), config, attention)?),
        after_mixer: Some(scales("post_attention_layernorm")?),
        feed_forward_norm: Some(scales("pre_feedforward_layernorm")?),
        feed_forward: FeedForwardParts::Dense(dense(names, &name("mlp"), GATE_UP_DOWN, width, network)?),
        after_feed_forward: Some(scales("post_feedforward_layernorm")?),
    })
}

/// The weights of several residual streams.
fn alternating(names: &Prefixed<'_>, config: &DecoderConfig, of: Alternating) -> Result<AlternatingParts, ModelError> {
    let &DecoderConfig { width, norm, .. } = config;
    let Alternating { streams: n, rank, is_scaled, .. } = of;
    let between = |name: &str| {
        let of = |i: usize| names.projection(&format!("{name}.{i}"), width, width, false);
        (0..n - 1).map(of).collect::<Result<_, ModelError>>()
    };
    let layer = |i: usize| {
        let name = |part: &str| format!("layers.{i}.{part}");
        let projection = |part: &str, out, input| names.projection(&name(part), out, input, false);
        let mut router_norm: Scales = names.scales(&name("altup.router_norm"), width, norm, false)?;
        router_norm.weight.iter_mut().for_each(|weight| *weight /= width as f32);
        Ok(AlternatingPart {
            router_norm,
            router: projection("altup.modality_router", n, width)?,
            prediction: projection("altup.prediction_coefs", n * n, n)?,
            correction: projection("altup.correction_coefs", n, n)?,
            scale: is_scaled.then(|| names.vector(&name("altup.correct_output_scale"), width)).transpose()?,
            left: projection("laurel.linear_left", rank, width)?,
            right: projection("laurel.linear_right", width, rank)?,
            past_norm: names.scales(&name("laurel.post_laurel_norm"), width, norm, false)?,
        })
    };
    Ok(AlternatingParts {
        into: between("altup_projections")?,
        out: between("altup_unembed_projections")?,
        layers: (0..config.blocks.len()).map(layer).collect::<Result<_, ModelError>>()?,
    })
}
