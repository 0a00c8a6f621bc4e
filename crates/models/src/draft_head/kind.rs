//! Recognises a draft head by its `config.json`.

use serde_json::Value;
use verdigris_text::shown;

use crate::description::families::Fields;

/// The kind of a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Our own feature drafter.
    Feature,
    /// Our own Medusa heads.
    Medusa,
    /// Medusa heads as their authors publish them: the only file without a model type.
    PublishedMedusa,
    /// A published head of EAGLE-3.
    Eagle3,
    /// A published head of DFlash or DSpark.
    Block,
    /// An assistant of Gemma 4.
    Assistant,
    /// A head that is not supported: its name, and what to do.
    Unsupported(String),
}

/// The kind of the head that a configuration describes, or `None` for that of a model.
pub(super) fn kind(fields: &Fields) -> Option<Kind> {
    match fields.model_type() {
        Ok("verdigris_feature_drafter") => return Some(Kind::Feature),
        Ok("verdigris_medusa") => return Some(Kind::Medusa),
        _ => {}
    }
    if fields.get("medusa_num_heads").is_some() {
        return Some(Kind::PublishedMedusa);
    }
    let unsupported = |name: &str| Kind::Unsupported(format!("{} is not supported: give {SUPPORTED}", shown(name)));
    if let Some(name) = fields.get("speculators_model_type").and_then(Value::as_str) {
        match name {
            "eagle3" => return Some(Kind::Eagle3),
            "dspark" => return Some(Kind::Block),
            _ => {}
        }
        return Some(unsupported(&format!("a draft head of speculators' type {name}")));
    }
    let names = fields.get("architectures").and_then(Value::as_array)?;
    let is_head = |name: &&str| HEADS.iter().any(|part| name.contains(part));
    let name = names.iter().filter_map(Value::as_str).find(is_head)?;
    if EAGLE3.contains(&name) {
        return Some(Kind::Eagle3);
    }
    if BLOCK.contains(&name) {
        return Some(Kind::Block);
    }
    if name == ASSISTANT {
        return Some(Kind::Assistant);
    }
    Some(unsupported(&format!("the draft head {name}")))
}

/// The heads that are supported, for messages.
pub(super) const SUPPORTED: &str = "a head of EAGLE-3, DFlash or DSpark, Medusa heads, an assistant of Gemma 4, or a head \
     of `verdigris train`";

/// Parts of the names of architectures that are draft heads.
const HEADS: [&str; 7] = ["Assistant", "DFlash", "DSpark", "Eagle", "Medusa", "MTP", "NextN"];

/// The architectures of EAGLE-3 that are supported.
const EAGLE3: [&str; 2] = ["LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM"];

/// The architecture of assistants that are supported.
const ASSISTANT: &str = "Gemma4AssistantForCausalLM";

/// The architectures of DFlash and DSpark that are supported.
const BLOCK: [&str; 2] = ["DFlashDraftModel", "Qwen3DSparkModel"];
