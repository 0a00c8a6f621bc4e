//! The architectures that people use: how each names its choices in `config.json`, and its weights.
//!
//! | module | model types |
//! |---|---|
//! | `llama` | llama, mistral, qwen2, qwen3, smollm3, phi3, gemma, gemma2, gemma3, olmo2 |
//! | `gpt` | gpt2, opt |
//! | `fused` | gpt_neox, bloom, mpt, falcon: queries, keys and values in one matrix |
//!
//! `fields` reads a configuration, `defaults` has what it need not say, `rotary` the positions that several of them share.

mod defaults;
mod fields;
mod fused;
mod gpt;
mod llama;
mod rotary;

use crate::checkpoint::Checkpoint;
use crate::config::{DecoderConfig, Norm};
use crate::cpu::{Parts, Projection, Scales};
use crate::error::ModelError;
use crate::matrix::Matrix;

pub(crate) use fields::Fields;

/// One architecture, or several that differ in choices alone.
pub(crate) struct Family {
    /// The description of a decoder; why there is none.
    pub(crate) config: fn(&Fields) -> Result<DecoderConfig, String>,
    /// Its weights.
    pub(crate) parts: fn(&Checkpoint, &DecoderConfig, &Fields) -> Result<Parts, ModelError>,
}

/// All model types that are understood.
const TYPES: [&str; 17] = [
    "bloom",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "mpt",
    "olmo2",
    "opt",
    "phi3",
    "qwen2",
    "qwen3",
    "smollm3",
];

/// The family of a model type.
pub(crate) fn family(model_type: &str) -> Result<Family, String> {
    Ok(match model_type {
        "llama" | "mistral" | "qwen2" | "qwen3" | "smollm3" | "phi3" | "gemma" | "gemma2" | "gemma3"
        | "gemma3_text" | "olmo2" => Family { config: llama::config, parts: llama::parts },
        "gpt2" => Family { config: gpt::gpt2_config, parts: gpt::gpt2_parts },
        "opt" => Family { config: gpt::opt_config, parts: gpt::opt_parts },
        "gpt_neox" => Family { config: fused::neox_config, parts: fused::neox_parts },
        "bloom" => Family { config: fused::bloom_config, parts: fused::bloom_parts },
        "mpt" => Family { config: fused::mpt_config, parts: fused::mpt_parts },
        "falcon" => Family { config: fused::falcon_config, parts: fused::falcon_parts },
        other => return Err(format!("model_type {other:?} is not supported; these are: {}", TYPES.join(", "))),
    })
}

/// The output matrix: the embedding, or one of its own.
fn output(
    checkpoint: &Checkpoint,
    config: &DecoderConfig,
    embedding: &Matrix,
    name: &str,
) -> Result<Matrix, ModelError> {
    if config.tied { Ok(embedding.clone()) } else { checkpoint.matrix(name, [config.vocabulary, config.width]) }
}

/// Weights under a prefix that some files have and some have not.
struct Names<'a> {
    checkpoint: &'a Checkpoint,
    prefix: &'static str,
}

impl<'a> Names<'a> {
    /// Those of a checkpoint in which one of the prefixes leads to `probe`.
    fn new(checkpoint: &'a Checkpoint, prefixes: &[&'static str], probe: &str) -> Self {
        let found = prefixes.iter().find(|prefix| checkpoint.has(&format!("{prefix}{probe}")));
        Self { checkpoint, prefix: found.unwrap_or(&prefixes[0]) }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn projection(&self, name: &str, out: usize, input: usize, bias: bool) -> Result<Projection, ModelError> {
        let name = self.name(name);
        let matrix = self.checkpoint.matrix(&format!("{name}.weight"), [out, input])?;
        let bias = bias.then(|| self.checkpoint.vector(&format!("{name}.bias"), out)).transpose()?;
        Ok(Projection { matrix, bias })
    }

    /// What a norm has; `has_bias` for layer norms that have one.
    fn scales(&self, name: &str, length: usize, norm: Norm, has_bias: bool) -> Result<Scales, ModelError> {
        let name = self.name(name);
        let weight = self.checkpoint.vector(&format!("{name}.weight"), length)?;
        let bias = match norm {
            Norm::Rms { .. } => Vec::new(),
            Norm::Layer { .. } if has_bias => self.checkpoint.vector(&format!("{name}.bias"), length)?,
            Norm::Layer { .. } => vec![0.0; length],
        };
        Ok(Scales { weight, bias })
    }
}

impl Projection {
    /// Some of its rows.
    fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let bias = self.bias.as_ref().map(|bias| bias[rows.clone()].to_vec());
        Self { matrix: self.matrix.part(rows), bias }
    }

    /// Some of its rows, which do not follow each other.
    fn gather(&self, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let bias = self.bias.as_ref().map(|bias| rows.clone().map(|row| bias[row]).collect());
        Self { matrix: self.matrix.gather(rows), bias }
    }
}
