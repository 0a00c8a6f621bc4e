//! A model's chat template, and the tokens that end its messages.

use serde_json::Value;
use verdigris_logits::TokenId;
use verdigris_text::shown;

use super::file_names::{CHAT_TEMPLATE, GENERATION, TOKENIZER_CONFIG};
use super::files::Files;
use crate::description::gguf::{self, Gguf};
use crate::error::ModelError;

/// A chat template from a model's files: see [`verdigris_text::ChatTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatSource {
    /// The template.
    pub template: String,
    /// The name of the token that begins a text.
    pub begin: Option<String>,
    /// The name of the token that ends a text.
    pub end: Option<String>,
}

impl Files {
    /// The model's chat template, if it has one.
    pub(super) fn chat(&self, gguf: Option<&Gguf>) -> Result<Option<ChatSource>, ModelError> {
        if let Some(gguf) = gguf {
            let tokens = gguf.texts("tokenizer.ggml.tokens").unwrap_or_default();
            let name = |id: &str| {
                let id = gguf.get(&format!("tokenizer.ggml.{id}")).and_then(gguf::Value::integer)?;
                Some(tokens.get(usize::try_from(id).ok()?)?.to_owned())
            };
            let template = gguf.get("tokenizer.chat_template").and_then(gguf::Value::text).map(str::to_owned);
            let [begin, end] = ["bos_token_id", "eos_token_id"].map(name);
            return Ok(template.map(|template| ChatSource { template, begin, end }));
        }
        let config = self.optional(TOKENIZER_CONFIG)?.unwrap_or_default();
        let token = |name: &str| config[name].as_str().or(config[name]["content"].as_str()).map(str::to_owned);
        let inside = || match &config["chat_template"] {
            Value::String(template) => Some(template.clone()),
            // Several templates for several purposes.
            Value::Array(named) => {
                let usual = named.iter().find(|named| named["name"] == "default").or(named.first())?;
                usual["template"].as_str().map(str::to_owned)
            }
            _ => None,
        };
        let beside = if self.has(CHAT_TEMPLATE) { Some(self.read(CHAT_TEMPLATE)?) } else { None };
        let template = beside.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).or_else(inside);
        let [begin, end] = ["bos_token", "eos_token"].map(token);
        Ok(template.map(|template| ChatSource { template, begin, end }))
    }

    /// The tokens that end generation, in addition to those in the model's configuration.
    pub(super) fn more_ends(&self, rows: usize) -> Result<Vec<TokenId>, ModelError> {
        let config = self.optional(GENERATION)?.unwrap_or_default();
        let ends = ids("eos_token_id", Some(&config["eos_token_id"]), rows);
        ends.map_err(|fault| ModelError::Config { path: self.path(GENERATION), fault })
    }

    /// A JSON file that may be missing.
    fn optional(&self, name: &str) -> Result<Option<Value>, ModelError> {
        if !self.has(name) {
            return Ok(None);
        }
        let fault = |error: serde_json::Error| ModelError::Config { path: self.path(name), fault: error.to_string() };
        serde_json::from_slice(&self.read(name)?).map(Some).map_err(fault)
    }
}

/// One or several tokens in the field `name`, for a model with `rows` rows. The error says what the field has instead.
pub(super) fn ids(name: &str, value: Option<&Value>, rows: usize) -> Result<Vec<TokenId>, String> {
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| TokenId::try_from(id).ok()).filter(|&id| (id as usize) < rows);
        id.ok_or_else(|| format!("{name} is {}, which is not one of {rows} tokens", shown(&value.to_string())))
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(id).collect(),
        Some(one) => Ok(vec![id(one)?]),
    }
}
