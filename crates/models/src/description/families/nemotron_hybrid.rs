//! Nemotron-H and Nemotron 3: a state-space model, attention, a network or experts in each layer, with one norm before
//! it.
//!
//! A block here is a layer that mixes tokens together with the feed-forward layer after it, if there is one.

use super::fields::Fields;
use super::mamba;
use super::mixture::{GATE_UP_DOWN, dense, experts, grouped};
use super::prefixed::Prefixed;
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{
    Attention, Block, DecoderConfig, Dense, FeedForward, Mamba, Mixer, Mixture, Norm, Positions, RecurrentHeads,
    Rotary, Shared,
};
use crate::description::parts::{FeedForwardParts, Layer, MixerParts, MixtureParts, Parts};
use crate::error::ModelError;

/// The part that a layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mamba,
    Attention,
    Network,
    Experts,
}

impl Kind {
    fn mixes(self) -> bool {
        matches!(self, Self::Mamba | Self::Attention)
    }
}

/// The names of the kinds in `layers_block_type`.
const NAMES: [(&str, Kind); 6] = [
    ("linear_attention", Kind::Mamba),
    ("mamba", Kind::Mamba),
    ("full_attention", Kind::Attention),
    ("attention", Kind::Attention),
    ("mlp", Kind::Network),
    ("moe", Kind::Experts),
];

/// The kinds of all layers: from a list of their names, or from a letter for each.
fn kinds(fields: &Fields) -> Result<Vec<Kind>, String> {
    const LISTS: [&str; 2] = ["layers_block_type", "layer_types"];
    const LETTERS: &str = "hybrid_override_pattern";
    let list = LISTS.iter().find(|name| fields.get(name).is_some());
    let kinds = match list.map_or(Ok(None), |name| fields.list(name))? {
        Some(list) => {
            let supported = "linear_attention, full_attention, mlp and moe";
            fields.layer_types(&LISTS, list.len(), &NAMES, supported)?.unwrap_or_default()
        }
        None => {
            let letters = fields.text(LETTERS)?.ok_or_else(|| format!("{LETTERS} is missing"))?;
            let kind = |letter| match letter {
                'M' => Ok(Kind::Mamba),
                '*' => Ok(Kind::Attention),
                '-' => Ok(Kind::Network),
                'E' => Ok(Kind::Experts),
                other => Err(format!("{LETTERS} has {other:?}, which is not supported; M, *, - and E are")),
            };
            letters.chars().map(kind).collect::<Result<_, _>>()?
        }
    };
    let (layers, most) = (kinds.len(), DecoderConfig::MAX_LAYERS);
    if layers > most { Err(format!("the number of layers is {layers}, but at most {most}")) } else { Ok(kinds) }
}

/// The layers of each block: one that mixes tokens, and the feed-forward layer after it.
fn blocks(kinds: &[Kind]) -> Result<Vec<(usize, Option<usize>)>, String> {
    let mut blocks: Vec<(usize, Option<usize>)> = Vec::new();
    for (layer, kind) in kinds.iter().enumerate() {
        match blocks.last_mut() {
            _ if kind.mixes() => blocks.push((layer, None)),
            Some((_, after @ None)) => *after = Some(layer),
            _ => {
                return Err(format!(
                    "layer {layer} is a feed-forward part and does not follow one that mixes tokens, which is not \
                     supported"
                ));
            }
        }
    }
    Ok(blocks)
}

pub(super) fn config(fields: &Fields) -> Result<DecoderConfig, String> {
    let width = fields.size(&["hidden_size"])?;
    let kinds = kinds(fields)?;
    let heads = fields.size(&["num_attention_heads"])?;
    let has_bias = fields.flag("use_bias", false)?;
    let attention = Attention {
        heads,
        kv_heads: fields.size_or(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim: fields.size_or(&["head_dim", "attention_head_dim"])?.unwrap_or(128),
        rotary: None,
        ..Attention::default()
    };
    fields.refuse("sliding_window", |value| value.is_null())?;
    mamba::no_limit(fields)?;
    fields.refuse("mamba_hidden_act", |value| value == "silu")?;
    let state = Mamba {
        heads: RecurrentHeads {
            heads: fields.size_or(&["mamba_num_heads"])?.unwrap_or(128),
            key_heads: fields.size_or(&["n_groups", "mamba_n_groups"])?.unwrap_or(8),
            key_dim: fields.size_or(&["ssm_state_size"])?.unwrap_or(128),
            value_dim: fields.size_or(&["mamba_head_dim"])?.unwrap_or(64),
            strided: false,
        },
        taps: fields.size_or(&["conv_kernel", "mamba_d_conv"])?.unwrap_or(4),
        taps_bias: fields.flag("use_conv_bias", true)?,
        bias: has_bias,
    };
    let activation = fields.activation(&["mlp_hidden_act"], "relu2")?;
    let bias = fields.flag("mlp_bias", false)?;
    let network = |width| Dense { width, activation, gated: false, bias };
    let feed_forward = |kind: Kind| match kind {
        Kind::Experts => mixture(fields, &network).map(FeedForward::Mixture),
        _ => Ok(FeedForward::Dense(network(fields.size(&["intermediate_size"])?))),
    };
    let block = |(mixes, after): (usize, Option<usize>)| {
        let mixer = match kinds[mixes] {
            Kind::Attention => Mixer::Attention(attention.clone()),
            _ => Mixer::Mamba(state),
        };
        let feed_forward = after.map_or(Ok(FeedForward::None), |after| feed_forward(kinds[after]))?;
        Ok::<_, String>(Block { mixer, feed_forward })
    };
    Ok(DecoderConfig {
        vocabulary: fields.size(&["vocab_size"])?,
        width,
        context: fields.size_or(&["max_position_embeddings"])?.unwrap_or(4096),
        norm: Norm::Rms { epsilon: fields.number("layer_norm_epsilon")?.unwrap_or(1e-5) },
        // No layer rotates anything.
        positions: Positions::Rotary(vec![Rotary::new(10_000.0)]),
        blocks: blocks(&kinds)?.into_iter().map(block).collect::<Result<_, _>>()?,
        tied: fields.flag("tie_word_embeddings", false)?,
        ..DecoderConfig::default()
    })
}

fn mixture(fields: &Fields, network: &impl Fn(usize) -> Dense) -> Result<Mixture, String> {
    let shared = network(fields.size(&["moe_shared_expert_intermediate_size"])?);
    Ok(Mixture {
        experts: fields.size(&["n_routed_experts", "num_experts"])?,
        chosen: fields.size(&["num_experts_per_tok"])?,
        // Its experts have no biases even if other networks have.
        expert: Dense { bias: false, ..network(fields.size(&["moe_intermediate_size"])?) },
        router: grouped(fields)?,
        shared: Some(Shared { network: shared, gated: false }),
        latent: fields.size_or(&["moe_latent_size"])?,
    })
}

pub(super) fn parts(checkpoint: &Checkpoint, config: &DecoderConfig, fields: &Fields) -> Result<Parts, ModelError> {
    let names = Prefixed::new(checkpoint, &["backbone.", "model.", ""], "norm_f.weight");
    let decays_are_whole = fields.flag("decays_are_whole", false).unwrap_or_default();
    let &DecoderConfig { width, norm, .. } = config;
    let layers = kinds(fields).and_then(|kinds| blocks(&kinds)).expect("the configuration has been read");
    let before = |layer: usize| names.scales(&format!("layers.{layer}.norm"), width, norm, false);
    let layer = |i: usize| {
        let (mixes, after) = layers[i];
        let block = &config.blocks[i];
        let name = format!("layers.{mixes}.mixer");
        let mixer = match &block.mixer {
            Mixer::Attention(of) => MixerParts::Attention(names.attention(&name, "o_proj", width, of)?),
            Mixer::Mamba(of) => MixerParts::Mamba(Box::new(mamba::mixer(&names, &name, width, of, decays_are_whole)?)),
            _ => unreachable!("Nemotron has no other layers"),
        };
        let name = after.map(|after| format!("layers.{after}.mixer")).unwrap_or_default();
        let feed_forward = match &block.feed_forward {
            FeedForward::Dense(of) => FeedForwardParts::Dense(dense(&names, &name, GATE_UP_DOWN, width, of)?),
            FeedForward::Mixture(of) => FeedForwardParts::Mixture(Box::new(mixture_parts(&names, &name, width, of)?)),
            _ => FeedForwardParts::None,
        };
        Ok(Layer {
            mixer_norm: Some(before(mixes)?),
            mixer,
            after_mixer: None,
            feed_forward_norm: after.map(before).transpose()?,
            feed_forward,
            after_feed_forward: None,
        })
    };
    names.parts(config, layer, "embeddings.weight", "lm_head.weight", "norm_f", false)
}

fn mixture_parts(names: &Prefixed<'_>, name: &str, width: usize, of: &Mixture) -> Result<MixtureParts, ModelError> {
    let at = |part: &str| format!("{name}.{part}");
    let shared = of.shared.map(|of| of.network).expect("a network next to the experts");
    let latent = |latent| {
        let into = names.projection(&at("fc1_latent_proj"), latent, width, shared.bias)?;
        Ok::<_, ModelError>([into, names.projection(&at("fc2_latent_proj"), width, latent, shared.bias)?])
    };
    Ok(MixtureParts {
        router: names.projection(&at("gate"), of.experts, width, false)?,
        choice_bias: Some(names.vector(&at("gate.e_score_correction_bias"), of.experts)?),
        experts: experts(names, &at("experts"), GATE_UP_DOWN, of.latent.unwrap_or(width), of)?,
        shared: Some(dense(names, &at("shared_experts"), GATE_UP_DOWN, width, &shared)?),
        shared_gate: None,
        expert_scales: None,
        latent: of.latent.map(latent).transpose()?,
    })
}
