//! The layer with which some models predict the token after next: multi-token prediction (Gloeckle et al., *Better &
//! Faster Large Language Models via Multi-token Prediction*, ICML 2024; DeepSeek-AI, *DeepSeek-V3 Technical Report*,
//! 2024, section 2.2). It is in the files of the model.
//!
//! For a token `t` that was written after the last hidden state `f` it computes
//!
//! ```text
//! h = norm(block(W [norm(embedding(t)); norm(f)]))
//! logits = output h
//! ```
//!
//! with a block, an embedding and an output matrix of the model's own kind, and the next `f` is `h`.
//!
//! Folders of Qwen have it under `mtp.`; their norms multiply by one more than the weight. Folders of DeepSeek and GLM,
//! and GGUF files of all, have it as a layer after the last one. If there are several such layers, the first one
//! guesses all tokens.

use verdigris_logits::TokenId;

use super::feature::FeatureModel;
use super::fusion::{Fusion, UseOfRow};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{DecoderConfig, Norm};
use crate::error::ModelError;
use crate::source::file_names::CONFIG;
use crate::source::folder::{ModelFolder, Opened};

/// Reads the layer of a model.
pub(super) fn model(target: &ModelFolder) -> Result<FeatureModel, ModelError> {
    let Opened { config, fields, family, checkpoint } = target.opened()?;
    let wrong = |fault: String| ModelError::DraftHead { path: target.path(CONFIG), fault };
    let names = Names::of(&checkpoint, config.blocks.len()).ok_or_else(|| {
        let layer = config.blocks.len();
        wrong(format!(
            "this model has no layer that predicts later tokens (mtp.fc, or eh_proj of layer {layer}): some models are \
             published without it; draft with a smaller model, a draft head, or --lookup"
        ))
    })?;
    // It is of the kind of the last layer with attention.
    let block = config.blocks.iter().rfind(|block| !block.mixer.is_recurrent());
    let block = block.ok_or_else(|| wrong("no layer of this model has attention".into()))?.clone();
    let (width, vocabulary) = (config.width, config.vocabulary);
    let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
    let norm = |name: &str| {
        let mut weight = checkpoint.vector(name, width)?;
        if names.norms_add_one {
            weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok::<_, ModelError>(weight)
    };
    let fusion = Fusion {
        embedding_norm: norm(&names.embedding_norm)?,
        hidden_norm: norm(&names.hidden_norm)?,
        epsilon: epsilon as f32,
        use_of_row: UseOfRow::Stream(checkpoint.matrix(&names.fusion, [width, 2 * width])?),
    };
    let config = DecoderConfig { blocks: vec![block], ..config };
    if config.alternating.is_some() || config.per_layer.is_some() {
        return Err(wrong("a layer for later tokens is not supported in this architecture".into()));
    }
    config.check().map_err(|fault| wrong(fault.to_string()))?;
    let parts = (family.parts)(&checkpoint.renamed(|name| names.alone(name)), &config, &fields)?;
    let tokens = (0..vocabulary as TokenId).collect();
    FeatureModel::assemble(DecoderConfig { tied: false, ..config }, parts, fusion, None, true, tokens)
}

/// The names of the layer's weights.
struct Names {
    /// The prefix of the names of the model's layers and last norm.
    model: String,
    /// The prefix of the layer's own.
    layer: String,
    fusion: String,
    embedding_norm: String,
    hidden_norm: String,
    /// The norm after the layer.
    norm: String,
    norms_add_one: bool,
}

impl Names {
    /// The names in a checkpoint of a model with `layers` layers, if it has such a layer.
    fn of(checkpoint: &Checkpoint, layers: usize) -> Option<Self> {
        let own = ["mtp.", "model.mtp."].into_iter().find(|own| checkpoint.has(&format!("{own}fc.weight")));
        if let Some(own) = own {
            let first = "layers.0.input_layernorm.weight";
            let of_model = |name: &str| name.strip_suffix(first).filter(|prefix| *prefix != own).map(str::to_owned);
            return Some(Self {
                model: checkpoint.names().find_map(of_model)?,
                layer: format!("{own}layers.0."),
                fusion: format!("{own}fc.weight"),
                embedding_norm: format!("{own}pre_fc_norm_embedding.weight"),
                hidden_norm: format!("{own}pre_fc_norm_hidden.weight"),
                norm: format!("{own}norm.weight"),
                norms_add_one: true,
            });
        }
        let fusion = format!("layers.{layers}.eh_proj.weight");
        let model = checkpoint.names().find_map(|name| name.strip_suffix(&fusion))?.to_owned();
        let layer = format!("{model}layers.{layers}.");
        Some(Self {
            fusion: format!("{layer}eh_proj.weight"),
            embedding_norm: format!("{layer}enorm.weight"),
            hidden_norm: format!("{layer}hnorm.weight"),
            norm: format!("{layer}shared_head.norm.weight"),
            norms_add_one: false,
            model,
            layer,
        })
    }

    /// The name of a weight in a model whose only layer is this one, if it has it.
    fn alone(&self, name: &str) -> Option<String> {
        let Self { model, layer, norm, .. } = self;
        if name == norm {
            return Some(format!("{model}norm.weight"));
        }
        if let Some(part) = name.strip_prefix(&layer[..]) {
            return Some(format!("{model}layers.0.{part}"));
        }
        let of_model = name.strip_prefix(&model[..]).unwrap_or(name);
        let is_shared = !of_model.starts_with("layers.") && of_model != "norm.weight";
        is_shared.then(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_takes_the_place_of_the_first() {
        let names = Names {
            model: "model.".into(),
            layer: "model.layers.61.".into(),
            fusion: String::new(),
            embedding_norm: String::new(),
            hidden_norm: String::new(),
            norm: "model.layers.61.shared_head.norm.weight".into(),
            norms_add_one: false,
        };
        for (name, alone) in [
            ("model.embed_tokens.weight", Some("model.embed_tokens.weight")),
            ("lm_head.weight", Some("lm_head.weight")),
            ("model.layers.0.mlp.up_proj.weight", None),
            ("model.layers.6.mlp.up_proj.weight", None),
            ("model.layers.61.mlp.up_proj.weight", Some("model.layers.0.mlp.up_proj.weight")),
            ("model.norm.weight", None),
            ("model.layers.61.shared_head.norm.weight", Some("model.norm.weight")),
        ] {
            assert_eq!(names.alone(name).as_deref(), alone, "{name}");
        }
    }
}
