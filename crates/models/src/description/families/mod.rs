//! The supported architectures: the names that each uses for its choices in `config.json`, and for its weights.
//!
//! | module | model types |
//! |---|---|
//! | `llama` | those with a row in `llama_table`; `llama_weights` reads their weights, and `mixture` experts, of which |
//! | | `mxfp4` reads those of gpt-oss; `latent` is the attention of some |
//! | `qwen_next` | qwen3_next, qwen3_5, qwen3_5_moe: gated delta nets and gated attention |
//! | `mamba` | mamba2: state-space models |
//! | `granite_hybrid` | granitemoehybrid: state-space models, attention, experts |
//! | `nemotron_hybrid` | nemotron_h: state-space models, attention, networks and experts, one in each layer |
//! | `lfm2` | lfm2, lfm2_moe: gated convolutions and attention |
//! | `gpt` | gpt2, opt |
//! | `gemma3n` | gemma3n_text |
//! | `gemma4` | gemma4_text, gemma4_unified_text |
//! | `fused` | gpt_neox, bloom, mpt, falcon: queries, keys and values in one matrix |
//!
//! `fields` reads a configuration, `defaults` has the values of missing fields, `wrapper` finds the text part of
//! multimodal models. Several families share `rotary` (positions) and `prefixed` (weights with a common prefix).

mod defaults;
pub(in crate::description) mod fields;
mod fused;
mod gemma3n;
mod gemma4;
mod gpt;
mod granite_hybrid;
mod latent;
mod lfm2;
mod llama;
mod llama_table;
mod llama_weights;
mod mamba;
mod mixture;
mod mxfp4;
mod nemotron_hybrid;
mod prefixed;
mod qwen_next;
mod rotary;
mod wrapper;

use verdigris_text::shown;

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::parts::Parts;
use crate::error::ModelError;

pub(crate) use fields::Fields;
pub(crate) use llama_weights::layers as llama_layers;

/// One architecture, or several that differ only in choices.
#[derive(Clone, Copy)]
pub(crate) struct Family {
    /// The description of a decoder. The error says why there is none.
    pub(crate) config: fn(&Fields) -> Result<DecoderConfig, String>,
    /// Its weights.
    pub(crate) parts: fn(&Checkpoint, &DecoderConfig, &Fields) -> Result<Parts, ModelError>,
}

/// Llama and related models.
pub(crate) const LLAMA: Family = Family { config: llama::config, parts: llama_weights::parts };

/// Gemma 4, whose assistants have layers of the same kind.
pub(crate) const GEMMA4: Family = Family { config: gemma4::config, parts: gemma4::parts };

/// The other families, by their model types.
const FAMILIES: &[(&str, Family)] = {
    const BLOOM: Family = Family { config: fused::bloom_config, parts: fused::bloom_parts };
    const FALCON: Family = Family { config: fused::falcon_config, parts: fused::falcon_parts };
    const GEMMA3N: Family = Family { config: gemma3n::config, parts: gemma3n::parts };
    const GPT2: Family = Family { config: gpt::gpt2_config, parts: gpt::gpt2_parts };
    const GRANITE_HYBRID: Family = Family { config: granite_hybrid::config, parts: granite_hybrid::parts };
    const LFM2: Family = Family { config: lfm2::config, parts: lfm2::parts };
    const MAMBA2: Family = Family { config: mamba::config, parts: mamba::parts };
    const MPT: Family = Family { config: fused::mpt_config, parts: fused::mpt_parts };
    const NEMOTRON_HYBRID: Family = Family { config: nemotron_hybrid::config, parts: nemotron_hybrid::parts };
    const NEOX: Family = Family { config: fused::neox_config, parts: fused::neox_parts };
    const OPT: Family = Family { config: gpt::opt_config, parts: gpt::opt_parts };
    const QWEN_NEXT: Family = Family { config: qwen_next::config, parts: qwen_next::parts };
    &[
        ("bloom", BLOOM),
        ("falcon", FALCON),
        ("gemma3n_text", GEMMA3N),
        ("gemma4_text", GEMMA4),
        ("gemma4_unified_text", GEMMA4),
        ("gpt2", GPT2),
        ("gpt_neox", NEOX),
        ("granitemoehybrid", GRANITE_HYBRID),
        ("lfm2", LFM2),
        ("lfm2_moe", LFM2),
        ("mamba2", MAMBA2),
        ("mpt", MPT),
        ("nemotron_h", NEMOTRON_HYBRID),
        ("opt", OPT),
        ("qwen3_5_moe_text", QWEN_NEXT),
        ("qwen3_5_text", QWEN_NEXT),
        ("qwen3_next", QWEN_NEXT),
    ]
};

/// All supported model types, with their families.
fn families() -> impl Iterator<Item = (&'static str, Family)> {
    FAMILIES.iter().copied().chain(llama_table::ROWS.iter().map(|row| (row.model_type, LLAMA)))
}

/// The family of a model. The error says what is wrong with its model type.
pub(crate) fn family(fields: &Fields) -> Result<Family, BadModelType> {
    let model_type = fields.model_type().map_err(BadModelType::Fault)?;
    let found = families().find(|(name, _)| *name == model_type).map(|(_, family)| family);
    let unknown = |model_type: &str| BadModelType::Unknown(model_type.into());
    match (fields.wrapper(), found) {
        (Some(outer), _) if !wrapper::is_known(outer) => Err(unknown(outer)),
        (Some(outer), None) => Err(BadModelType::Fault(format!(
            "the text part of this {outer} is {:?}, which is not supported; these are: {}",
            shown(model_type),
            names()
        ))),
        (None, None) => Err(unknown(model_type)),
        (_, Some(family)) => Ok(family),
    }
}

/// The reason why a model type has no family.
pub(crate) enum BadModelType {
    /// It is not known.
    Unknown(String),
    /// It is missing, or it is the unsupported type of a text part.
    Fault(String),
}

/// All supported model types, as a list.
pub(crate) fn model_types() -> String {
    format!("{}; and the text part of {}", names(), wrapper::wrappers())
}

fn names() -> String {
    // A text part's own type says no more than that of the model around it.
    let mut names: Vec<&str> = families().map(|(name, _)| name).filter(|name| !name.ends_with("_text")).collect();
    names.sort_unstable();
    names.join(", ")
}
