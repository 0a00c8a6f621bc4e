//! The architectures that people use: how each names its choices in `config.json`, and its weights.
//!
//! | module | model types |
//! |---|---|
//! | `llama` | llama, mistral, qwen2, qwen3, smollm3, phi3, gemma, gemma2, gemma3, olmo2 |
//! | `gpt` | gpt2, opt |
//! | `fused` | gpt_neox, bloom, mpt, falcon: queries, keys and values in one matrix |
//!
//! `fields` reads a configuration, `defaults` has what it need not say, `rotary` the positions that several of them
//! share.

mod defaults;
mod fields;
mod fused;
mod gpt;
mod llama;
mod rotary;

use crate::description::checkpoint::Checkpoint;
use crate::description::config::{DecoderConfig, Norm};
use crate::description::matrix::Matrix;
use crate::description::parts::{Parts, Projection, Scales};
use crate::error::ModelError;

pub(crate) use fields::Fields;

/// One architecture, or several that differ in choices alone.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    /// The description of a decoder; why there is none.
    pub(crate) config: fn(&Fields) -> Result<DecoderConfig, String>,
    /// Its weights.
    pub(crate) parts: fn(&Checkpoint, &DecoderConfig, &Fields) -> Result<Parts, ModelError>,
}

/// All model types that are understood, and the family of each.
const FAMILIES: [(&str, Family); 17] = {
    const BLOOM: Family = Family { config: fused::bloom_config, parts: fused::bloom_parts };
    const FALCON: Family = Family { config: fused::falcon_config, parts: fused::falcon_parts };
    const GPT2: Family = Family { config: gpt::gpt2_config, parts: gpt::gpt2_parts };
    const LLAMA: Family = Family { config: llama::config, parts: llama::parts };
    const MPT: Family = Family { config: fused::mpt_config, parts: fused::mpt_parts };
    const NEOX: Family = Family { config: fused::neox_config, parts: fused::neox_parts };
    const OPT: Family = Family { config: gpt::opt_config, parts: gpt::opt_parts };
    [
        ("bloom", BLOOM),
        ("falcon", FALCON),
        ("gemma", LLAMA),
        ("gemma2", LLAMA),
        ("gemma3", LLAMA),
        ("gemma3_text", LLAMA),
        ("gpt2", GPT2),
        ("gpt_neox", NEOX),
        ("llama", LLAMA),
        ("mistral", LLAMA),
        ("mpt", MPT),
        ("olmo2", LLAMA),
        ("opt", OPT),
        ("phi3", LLAMA),
        ("qwen2", LLAMA),
        ("qwen3", LLAMA),
        ("smollm3", LLAMA),
    ]
};

/// The family of a model type.
pub(crate) fn family(model_type: &str) -> Result<Family, String> {
    let known = FAMILIES.iter().find(|(name, _)| *name == model_type);
    known.map(|&(_, family)| family).ok_or_else(|| {
        let names = FAMILIES.map(|(name, _)| name).join(", ");
        format!("model_type {model_type:?} is not supported; these are: {names}")
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
            Norm::Rms { .. } => None,
            Norm::Layer { .. } if has_bias => Some(self.checkpoint.vector(&format!("{name}.bias"), length)?),
            Norm::Layer { .. } => Some(vec![0.0; length]),
        };
        Ok(Scales { weight, bias })
    }
}
