//! Multimodal models around a language model: the location of their text part, which is all that is loaded here.
//!
//! The fields of the text part are in `text_config`, next to those of the whole. Where neither has a field, the default
//! of the outer model type applies.

use serde_json::{Map, Value};

use super::defaults::text_defaults;

/// A model type that contains a text part.
struct Wrapper {
    model_type: &'static str,
    /// The model type of the text part, if it has none itself.
    text: &'static str,
    /// Whether the output matrix is the embedding, if the outer fields do not say so.
    tied: bool,
    /// Whether the text part can say so, too.
    ties_by_text: bool,
}

const fn wrapper(model_type: &'static str, text: &'static str, tied: bool) -> Wrapper {
    Wrapper { model_type, text, tied, ties_by_text: false }
}

const WRAPPERS: [Wrapper; 12] = [
    wrapper("gemma3", "gemma3_text", true),
    wrapper("gemma3n", "gemma3n_text", true),
    wrapper("gemma4", "gemma4_text", true),
    wrapper("gemma4_unified", "gemma4_unified_text", true),
    wrapper("idefics3", "llama", false),
    wrapper("internvl", "qwen2", true),
    Wrapper { ties_by_text: true, ..wrapper("llava", "llama", false) },
    Wrapper { ties_by_text: true, ..wrapper("llava_next", "llama", false) },
    wrapper("mistral3", "mistral", true),
    wrapper("qwen3_5", "qwen3_5_text", false),
    wrapper("qwen3_5_moe", "qwen3_5_moe_text", false),
    wrapper("smolvlm", "llama", false),
];

/// The model types whose text part is loaded.
pub(super) fn wrappers() -> String {
    WRAPPERS.map(|wrapper| wrapper.model_type).join(", ")
}

/// Whether a model type is one of these.
pub(super) fn is_known(model_type: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.model_type == model_type)
}

/// The fields of a text part, completed from the outer fields.
pub(super) fn fields_of_text(mut text: Map<String, Value>, outside: Map<String, Value>) -> Map<String, Value> {
    const TIED: &str = "tie_word_embeddings";
    let outer = outside.get("model_type").and_then(Value::as_str);
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| Some(wrapper.model_type) == outer) {
        let model_type = text.entry("model_type").or_insert_with(|| wrapper.text.into()).clone();
        for (name, value) in text_defaults(model_type.as_str().unwrap_or_default()) {
            text.entry(name).or_insert(value);
        }
        let by_text = wrapper.ties_by_text && text.get(TIED) == Some(&true.into());
        let tied = outside.get(TIED).cloned().unwrap_or_else(|| wrapper.tied.into());
        text.insert(TIED.into(), if by_text { true.into() } else { tied });
    }
    for (name, value) in outside {
        // The begin, end and padding tokens are those of the whole model.
        if ["bos_token_id", "eos_token_id", "pad_token_id"].contains(&&*name) && !value.is_null() {
            text.insert(name, value);
        } else {
            text.entry(name).or_insert(value);
        }
    }
    text
}
