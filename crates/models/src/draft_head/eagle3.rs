//! Published heads of EAGLE-3 (Li et al., *EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
//! Training-Time Test*, arXiv:2503.01840), in the layout of SpecForge, SGLang and vLLM (`LlamaForCausalLMEagle3`:
//! `midlayer.*`) and in that of speculators (`layers.0.*`, `transformer_layer_config`).
//!
//! A head reads the states after some of the target's layers, one low, one in the middle and one high. For the token
//! `t` that was written after them it computes
//!
//! ```text
//! g = fc [low; middle; high]
//! h = g + attention([norm(embedding(t)); norm(g)])
//! logits = lm_head norm(h + mlp(norm(h)))
//! ```
//!
//! and the next `g` is the residual stream after the layer. It may have its own embedding and its own hidden size.

use verdigris_text::shown;

use super::draft_vocabulary;
use super::feature::FeatureModel;
use super::files::DraftFiles;
use super::fusion::{Fusion, Taps, UseOfRow};
use crate::description::config::{Attention, DecoderConfig, Dense, Mixer, Norm};
use crate::description::families::LLAMA;
use crate::description::parts::{
    AttentionParts, DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Projection, Scales,
};
use crate::error::ModelError;

/// The field with the layers whose states are read.
const IDS: &str = "eagle_aux_hidden_state_layer_ids";

/// Reads a head.
pub(super) fn model(files: DraftFiles) -> Result<FeatureModel, ModelError> {
    let Shape { config, layers, target_width, vocabulary, flags } =
        shape(&files).map_err(|fault| files.wrong(fault))?;
    let (checkpoint, width) = (&files.checkpoint, config.width);
    let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
    let epsilon = epsilon as f32;
    // The number of states is compared first: the matrix has the wrong shape for any other.
    if let Some(&[_, columns]) = checkpoint.shape("fc.weight")
        && columns != layers.len() * target_width
    {
        return Err(files.wrong(format!(
            "fc.weight reads {columns} numbers, but the states after {} layers ({IDS}) of {target_width} numbers each \
             are {}: the list of layers is not that of the head",
            layers.len(),
            layers.len() * target_width
        )));
    }
    let taps = Taps {
        matrix: checkpoint.matrix("fc.weight", [width, layers.len() * target_width])?,
        norm: flags
            .norm_before_fc
            .then(|| checkpoint.vector("input_norm.weight", layers.len() * target_width))
            .transpose()?,
        width: target_width,
        layers: layers.into(),
        epsilon,
    };
    let tokens = draft_vocabulary::of(&files, vocabulary)?;
    let prefix = if checkpoint.has("layers.0.self_attn.q_proj.weight") { "layers.0." } else { "midlayer." };
    let vector = |name: &str| checkpoint.vector(&format!("{prefix}{name}"), width);
    let fusion = Fusion {
        embedding_norm: vector("input_layernorm.weight")?,
        hidden_norm: vector("hidden_norm.weight")?,
        epsilon,
        use_of_row: UseOfRow::Attention { stream_is_normalised: flags.norm_before_residual },
    };
    let layer = layer(&files, prefix, &config)?;
    let norm = Scales { weight: checkpoint.vector("norm.weight", width)?, bias: None };
    let [embedding, output] = files.own_or_of_target([config.vocabulary, width], &tokens)?;
    let parts = Parts::new(embedding, vec![layer], norm, output);
    FeatureModel::assemble(config, parts, fusion, Some(taps), flags.norm_output, tokens)
}

/// The shape of a head.
struct Shape {
    config: DecoderConfig,
    layers: Vec<usize>,
    target_width: usize,
    /// The number of tokens that it can guess.
    vocabulary: usize,
    flags: Flags,
}

/// The choices of a head.
struct Flags {
    norm_before_residual: bool,
    norm_before_fc: bool,
    norm_output: bool,
}

fn shape(files: &DraftFiles) -> Result<Shape, String> {
    let (fields, of_target) = (&files.fields, &files.config);
    let inner = files.fields_of_layers()?;
    let of_layer = inner.as_ref().unwrap_or(fields);
    let eagle = fields.inner("eagle_config")?;
    let is_absent_or_false = |value: &serde_json::Value| value == false;
    fields.refuse("fc_norm", is_absent_or_false)?;
    fields.refuse("parallel_drafting", is_absent_or_false)?;
    fields.refuse("logit_scale", |value| value.as_f64() == Some(1.0))?;
    if let Some(eagle) = &eagle {
        eagle.refuse("use_aux_hidden_state", |value| value == true)?;
    }
    if let Some(other) = of_layer.text("model_type")?.filter(|&name| name != "llama") {
        return Err(format!("its layer is one of {:?}, which is not supported; llama's is", shown(other)));
    }
    let layers = of_layer.size(&["num_hidden_layers"])?;
    if layers != 1 {
        return Err(format!("it has {layers} layers (num_hidden_layers); heads of one layer are supported"));
    }
    let config = files.config_of(LLAMA, of_layer)?;
    let target_width = fields.size_or(&["target_hidden_size"])?.unwrap_or(config.width);
    files.check_target(target_width, config.vocabulary)?;
    let ids = match fields.list(IDS)? {
        Some(ids) => Some(ids),
        None => eagle.as_ref().map_or(Ok(None), |eagle| eagle.list(IDS))?,
    };
    let ids = ids.map(|ids| ids.iter().map(serde_json::Value::as_u64).collect::<Option<Vec<u64>>>());
    let ids = match ids {
        None => None,
        Some(ids) => Some(ids.ok_or_else(|| format!("{IDS} is not a list of layers"))?),
    };
    let layers = layers_read(ids.as_deref(), of_target.blocks.len())?;
    let config = DecoderConfig { context: config.context.min(of_target.context), tied: false, ..config };
    config.check().map_err(|fault| fault.to_string())?;
    let flags = Flags {
        norm_before_residual: fields.flag("norm_before_residual", false)?,
        norm_before_fc: fields.flag("norm_before_fc", false)?,
        norm_output: fields.flag("norm_output", false)?,
    };
    let vocabulary = fields.size_or(&["draft_vocab_size"])?.unwrap_or(config.vocabulary);
    Ok(Shape { config, layers, target_width, vocabulary, flags })
}

/// The numbers of layers after which a head reads the states of a target with `count` layers.
///
/// Lists count in two ways. Those of SpecForge and SGLang have the layers whose outputs are read, counted from 0, and
/// begin with 0 or 1; those of vLLM and speculators have the layers whose inputs are read, and begin with 2 or more.
fn layers_read(ids: Option<&[u64]>, count: usize) -> Result<Vec<usize>, String> {
    let layers: Vec<usize> = match ids {
        None => vec![2, count / 2, count.saturating_sub(3)],
        Some(ids) => {
            let are_outputs = ids.first().is_some_and(|&first| first < 2);
            let number = |id: &u64| usize::try_from(*id).unwrap_or(usize::MAX).saturating_add(are_outputs.into());
            ids.iter().map(number).collect()
        }
    };
    let ascend = layers.is_sorted_by(|a, b| a < b);
    match (ids, layers.last()) {
        (_, Some(&last)) if ascend && last <= count => Ok(layers),
        (None, _) => Err(format!(
            "it has no {IDS}, and the usual layers (2, half of all, all but 3) need a model of 7 layers or more; this \
             one has {count}"
        )),
        (Some(ids), _) => Err(format!(
            "{IDS} is {}, but must be ascending layers of the model, which has {count}",
            shown(&format!("{ids:?}"))
        )),
    }
}

/// The weights of the layer, whose names begin with `prefix`.
fn layer(files: &DraftFiles, prefix: &str, config: &DecoderConfig) -> Result<Layer, ModelError> {
    let (checkpoint, width) = (&files.checkpoint, config.width);
    let block = &config.blocks[0];
    let (Mixer::Attention(attention), Some(network)) = (&block.mixer, block.feed_forward.dense()) else {
        return Err(files.wrong("its layer is not Llama's".into()));
    };
    let &Attention { heads, kv_heads, head_dim, bias, output_bias, .. } = attention;
    let &Dense { width: inner, bias: network_bias, .. } = network;
    let projection = |name: &str, out: usize, input: usize, bias: bool| {
        let name = |part: &str| format!("{prefix}{name}.{part}");
        let matrix = checkpoint.matrix(&name("weight"), [out, input])?;
        let bias = bias.then(|| checkpoint.vector(&name("bias"), out)).transpose()?;
        Ok::<_, ModelError>(Projection { matrix, bias })
    };
    let (of_query, of_key) = (heads * head_dim, kv_heads * head_dim);
    let mixer = AttentionParts::new([
        projection("self_attn.q_proj", of_query, 2 * width, bias)?,
        projection("self_attn.k_proj", of_key, 2 * width, bias)?,
        projection("self_attn.v_proj", of_key, 2 * width, bias)?,
        projection("self_attn.o_proj", width, of_query, output_bias)?,
    ]);
    let dense = DenseParts {
        gate: Some(projection("mlp.gate_proj", inner, width, network_bias)?),
        up: projection("mlp.up_proj", inner, width, network_bias)?,
        down: projection("mlp.down_proj", width, inner, network_bias)?,
    };
    let norm = checkpoint.vector(&format!("{prefix}post_attention_layernorm.weight"), width)?;
    Ok(Layer {
        mixer_norm: None,
        mixer: MixerParts::Attention(mixer),
        after_mixer: None,
        feed_forward_norm: Some(Scales { weight: norm, bias: None }),
        feed_forward: FeedForwardParts::Dense(dense),
        after_feed_forward: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_in_two_ways() {
        let read = |ids: &[u64], count| layers_read(Some(ids), count);
        assert_eq!(layers_read(None, 32).unwrap(), [2, 16, 29]);
        assert_eq!(read(&[1, 15, 28], 32).unwrap(), [2, 16, 29]);
        assert_eq!(read(&[2, 16, 29], 32).unwrap(), [2, 16, 29]);
        assert_eq!(read(&[0, 31], 32).unwrap(), [1, 32]);
        assert_eq!(layers_read(None, 7).unwrap(), [2, 3, 4]);
        assert!(layers_read(None, 6).unwrap_err().contains("7 layers or more; this one has 6"));
        for bad in [&[][..], &[1, 32], &[2, 33], &[2, 2, 3], &[3, 2], &[1, u64::MAX]] {
            assert!(read(bad, 32).unwrap_err().contains("which has 32"), "{bad:?}");
        }
    }
}
