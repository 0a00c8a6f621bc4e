//! The fields of `config.json` under the names that candle's models know, and checks of those that they would ignore.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use verdigris_models::shown;

/// The fields of a configuration.
pub(crate) struct Config(Map<String, Value>);

impl Config {
    /// # Errors
    /// If it is not a JSON object.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let mut fields: Map<String, Value> =
            serde_json::from_slice(json).map_err(|error| shown(&error.to_string()).into_owned())?;
        // transformers writes them there since its version 5.
        if let Some(Value::Object(rotary)) = fields.get("rope_parameters").cloned() {
            for (name, value) in rotary {
                if matches!(&*name, "rope_theta" | "partial_rotary_factor") {
                    fields.entry(name).or_insert(value);
                }
            }
        }
        if let Some(experts) = fields.get("num_local_experts").cloned() {
            fields.entry("num_experts").or_insert(experts);
        }
        Ok(Self(fields))
    }

    /// A field that is there and not null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Sets a field that is missing.
    pub(crate) fn or(mut self, name: &str, value: impl Into<Value>) -> Self {
        if self.get(name).is_none() {
            self.0.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Sets a field.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The same fields, for changes.
    pub(crate) fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, String> {
        self.get(name).and_then(Value::as_str).ok_or_else(|| format!("{name} is missing, or is not a text"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<usize, String> {
        let number = self.get(name).and_then(Value::as_u64).filter(|&number| number < 1 << 32);
        number.map(|number| number as usize).ok_or_else(|| format!("{name} is missing, or is not a whole number"))
    }

    /// The configuration of one of candle's models.
    pub(crate) fn of<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_value(Value::Object(self.0.clone())).map_err(|error| shown(&error.to_string()).into_owned())
    }

    /// Checks a field that candle's model ignores: any value but these is an error.
    pub(crate) fn is(&self, name: &str, values: &[Value]) -> Result<(), String> {
        match self.get(name) {
            Some(value) if !values.contains(value) => {
                Err(format!("{name} is {}, which candle's model of this type does not heed", shown(&value.to_string())))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the width of a head is the width of the model divided by the number of heads, which most of candle's
    /// models assume.
    pub(crate) fn has_usual_heads(&self) -> Result<(), String> {
        let size = self.number("hidden_size")? / self.number("num_attention_heads")?.max(1);
        self.is("head_dim", &[size.into()])
    }

    /// Refuses fields that all of candle's models ignore.
    pub(crate) fn heeded(&self) -> Result<(), String> {
        if self.get("quantization_config").is_some() {
            return Err(
                "its weights are in fewer bits (quantization_config), which is not supported; take the model in \
                16 bits, or a GGUF file of it"
                    .into(),
            );
        }
        for name in ["num_attention_heads", "num_key_value_heads"] {
            if self.get(name).and_then(Value::as_u64) == Some(0) {
                return Err(format!("{name} is 0"));
            }
        }
        for name in ["rope_parameters", "rope_scaling"] {
            let kind = self.get(name).and_then(|rotary| rotary.get("rope_type").or(rotary.get("type")));
            if let Some(kind) = kind.filter(|&kind| kind != "default") {
                return Err(format!(
                    "{name} of the kind {}, which candle's model of this type does not heed",
                    shown(&kind.to_string())
                ));
            }
        }
        Ok(())
    }

    /// The most tokens: the number of positions, but at most the length of a sliding window, because candle's models do
    /// not slide it over tokens read earlier.
    pub(crate) fn context(&self) -> Result<usize, String> {
        let positions = self.number("max_position_embeddings")?;
        let slides = self.get("use_sliding_window").is_none_or(|used| used == true);
        Ok(match self.number("sliding_window") {
            Ok(window) if slides => positions.min(window),
            _ => positions,
        })
    }

    /// The weight that serves as the output matrix if the files have no other.
    pub(crate) fn output_is_embedding(&self) -> Option<&'static str> {
        match self.get("model_type").and_then(Value::as_str) {
            Some("falcon") => Some("transformer.word_embeddings.weight"),
            Some("t5") => Some("shared.weight"),
            _ if self.get("tie_word_embeddings") == Some(&true.into()) => Some("model.embed_tokens.weight"),
            _ => None,
        }
    }
}
