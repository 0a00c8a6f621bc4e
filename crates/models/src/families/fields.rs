//! A `config.json`, field by field.

use serde_json::{Map, Value};

use crate::config::Activation;

/// The fields of a configuration; those of its language model, where it has other parts.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Those of a JSON text; what is wrong with it.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(json).map_err(|error| format!("not a model's configuration: {error}"))?;
        let Value::Object(mut fields) = value else { return Err("a configuration is an object".into()) };
        if let Some(Value::Object(text)) = fields.remove("text_config") {
            // What belongs to the whole is said outside.
            let outside = std::mem::replace(&mut fields, text);
            for (name, value) in outside {
                fields.entry(name).or_insert(value);
            }
        }
        Ok(Self(fields))
    }

    pub(crate) fn of(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// A number of things, under the first of some names that is there.
    pub(crate) fn size_or(&self, names: &[&str]) -> Result<Option<usize>, String> {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, self.get(name)?))) else { return Ok(None) };
        let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
        size.map(Some).ok_or_else(|| format!("{name} is {value}, which is no number of things"))
    }

    /// As [`Fields::size_or`], and it must be there.
    pub(crate) fn size(&self, names: &[&str]) -> Result<usize, String> {
        self.size_or(names)?.ok_or_else(|| format!("{} is missing", names[0]))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| format!("{name} is {value}, which is no number"))
    }

    pub(crate) fn flag(&self, name: &str, otherwise: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(otherwise)
    }

    /// The fields of a field.
    pub(crate) fn inner(&self, name: &str) -> Option<Self> {
        self.get(name)?.as_object().cloned().map(Self)
    }

    pub(crate) fn activation(&self, names: &[&str], otherwise: &str) -> Result<Activation, String> {
        let name = names.iter().find_map(|name| self.text(name)).unwrap_or(otherwise);
        Ok(match name {
            "silu" | "swish" => Activation::Silu,
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            other => {
                return Err(format!("the activation {other:?} is not supported; silu, gelu, gelu_new and relu are"));
            }
        })
    }

    /// Refuses a field that is set to something.
    pub(crate) fn refuse(&self, name: &str, harmless: impl Fn(&Value) -> bool) -> Result<(), String> {
        match self.get(name) {
            Some(value) if !harmless(value) => Err(format!("{name} = {value} is not supported")),
            _ => Ok(()),
        }
    }
}
