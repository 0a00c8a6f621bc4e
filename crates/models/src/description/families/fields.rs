//! A `config.json`, field by field. A field of the wrong type is an error that names it.

use serde_json::{Map, Value};
use verdigris_text::shown;

use super::defaults::defaults;
use super::wrapper::fields_of_text;
use crate::description::config::{Activation, Attention, DecoderConfig};

/// The fields of a configuration; those of its language model if it has other parts.
pub(crate) struct Fields {
    all: Map<String, Value>,
    /// The model type of the multimodal model that contains the language model.
    wrapper: Option<String>,
}

/// A decoder's shape before its layers are described.
pub(crate) struct Shape {
    pub(crate) config: DecoderConfig,
    pub(crate) layers: usize,
    pub(crate) attention: Attention,
}

impl Fields {
    /// Reads the fields of a JSON text, and adds default values. The error says what is wrong with it.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(json)
            .or_else(|error| serde_json::from_slice(&finite(json)).map_err(|_| error))
            .map_err(|error| format!("not a model's configuration: {error}"))?;
        let Value::Object(mut fields) = value else { return Err("a configuration is an object".into()) };
        let mut wrapper = None;
        match fields.remove("text_config") {
            None | Some(Value::Null) => {}
            Some(Value::Object(text)) => {
                wrapper = fields.get("model_type").and_then(Value::as_str).map(str::to_owned);
                fields = fields_of_text(text, fields);
            }
            Some(other) => return Err(wrong("text_config", &other, "JSON object")),
        }
        let model = fields.get("model_type").and_then(Value::as_str).unwrap_or_default();
        for (name, value) in defaults(model) {
            fields.entry(name).or_insert(value);
        }
        Ok(Self { all: fields, wrapper })
    }

    pub(crate) fn of(all: Map<String, Value>) -> Self {
        Self { all, wrapper: None }
    }

    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.all.insert(name.to_owned(), value);
    }

    /// The model type of the multimodal model that contains the language model, if there is one.
    pub(crate) fn wrapper(&self) -> Option<&str> {
        self.wrapper.as_deref()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.all.get(name).filter(|value| !value.is_null())
    }

    /// The architecture.
    pub(crate) fn model_type(&self) -> Result<&str, String> {
        self.text("model_type")?.ok_or_else(|| "model_type is missing".into())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, String> {
        self.some(name, "text", Value::as_str)
    }

    /// A count, under the first of several names that is there.
    pub(crate) fn size_or(&self, names: &[&str]) -> Result<Option<usize>, String> {
        let name = names.iter().find(|name| self.get(name).is_some());
        let size = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
        name.map_or(Ok(None), |name| self.some(name, "number of things", size))
    }

    /// Like [`Fields::size_or`], but it must be there.
    pub(crate) fn size(&self, names: &[&str]) -> Result<usize, String> {
        self.size_or(names)?.ok_or_else(|| format!("{} is missing", names[0]))
    }

    /// The number of elements of a head, if only the width of the model determines it. 0 if a number is 0, which is
    /// refused later.
    pub(crate) fn head_dim(width: usize, heads: usize) -> Result<usize, String> {
        match width.checked_rem(heads) {
            Some(0) | None => Ok(width.checked_div(heads).unwrap_or(0)),
            Some(_) => Err(format!(
                "a width of {width} cannot be shared out to {heads} attention heads: one of the two is not the model's"
            )),
        }
    }

    /// The number of layers, under the first of several names that is there.
    pub(crate) fn layers(&self, names: &[&str]) -> Result<usize, String> {
        let (layers, most) = (self.size(names)?, DecoderConfig::MAX_LAYERS);
        if layers > most { Err(format!("the number of layers is {layers}, but at most {most}")) } else { Ok(layers) }
    }

    /// The kinds of the layers, if there is a list of types under the first of several names that is there. An unknown
    /// type is an error that says which are `supported`.
    pub(crate) fn layer_types<T: Copy>(
        &self,
        names: &[&str],
        layers: usize,
        kinds: &[(&str, T)],
        supported: &str,
    ) -> Result<Option<Vec<T>>, String> {
        let name = names.iter().find(|name| self.get(name).is_some());
        let Some(types) = name.map_or(Ok(None), |name| self.list(name))? else { return Ok(None) };
        if types.len() < layers {
            return Err(format!("layer_types has {} of {layers} layers", types.len()));
        }
        let kind = |of: &Value| {
            let known = kinds.iter().find(|(name, _)| of.as_str() == Some(name));
            known.map(|&(_, kind)| kind).ok_or_else(|| {
                let of = of.to_string();
                format!("layer_types has {}, which is not supported; {supported} are", shown(&of))
            })
        };
        types[..layers].iter().map(kind).collect::<Result<_, _>>().map(Some)
    }

    /// Whether each layer has a window, if `layer_types` lists them.
    pub(crate) fn windows(&self, layers: usize) -> Result<Option<Vec<bool>>, String> {
        let kinds = [("full_attention", false), ("sliding_attention", true)];
        self.layer_types(&["layer_types"], layers, &kinds, "full_attention and sliding_attention")
    }

    /// The shape of a decoder with a key head for each query head, from the names of its width, the number of its heads
    /// and that of its layers. By default the output matrix is the embedding.
    pub(crate) fn shape(&self, [width, heads, layers]: [&[&str]; 3]) -> Result<Shape, String> {
        let (width, heads) = (self.size(width)?, self.size(heads)?);
        Ok(Shape {
            layers: self.layers(layers)?,
            attention: Attention {
                heads,
                kv_heads: heads,
                head_dim: Self::head_dim(width, heads)?,
                ..Attention::default()
            },
            config: DecoderConfig {
                vocabulary: self.size(&["vocab_size"])?,
                width,
                tied: self.flag("tie_word_embeddings", true)?,
                ..DecoderConfig::default()
            },
        })
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, String> {
        self.some(name, "number", |value| value.as_f64().filter(|number| number.is_finite()))
    }

    pub(crate) fn flag(&self, name: &str, otherwise: bool) -> Result<bool, String> {
        Ok(self.some(name, "truth value", Value::as_bool)?.unwrap_or(otherwise))
    }

    pub(crate) fn list(&self, name: &str) -> Result<Option<&[Value]>, String> {
        self.some(name, "list", |value| value.as_array().map(Vec::as_slice))
    }

    /// The fields of an object.
    pub(crate) fn inner(&self, name: &str) -> Result<Option<Self>, String> {
        Ok(self.some(name, "JSON object", Value::as_object)?.cloned().map(Self::of))
    }

    fn some<'a, T>(
        &'a self,
        name: &str,
        what: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| wrong(name, value, what))
    }

    pub(crate) fn activation(&self, names: &[&str], otherwise: &str) -> Result<Activation, String> {
        let name = names.iter().find(|name| self.get(name).is_some());
        let name = name.map_or(Ok(None), |name| self.text(name))?.unwrap_or(otherwise);
        Ok(match name {
            "silu" | "swish" => Activation::Silu,
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            "relu2" => Activation::SquaredRelu,
            other => {
                return Err(format!(
                    "the activation {:?} is not supported; silu, gelu, gelu_new, relu and relu2 are",
                    shown(other)
                ));
            }
        })
    }

    /// Refuses a field that is set, unless it is harmless.
    pub(crate) fn refuse(&self, name: &str, harmless: impl Fn(&Value) -> bool) -> Result<(), String> {
        match self.get(name) {
            Some(value) if !harmless(value) => {
                Err(format!("{} = {} is not supported", shown(name), shown(&value.to_string())))
            }
            _ => Ok(()),
        }
    }
}

/// A JSON text with null for numbers that are not finite, which Python writes although they are not JSON.
fn finite(json: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut is_text) = (Vec::with_capacity(json.len()), json, false);
    while let Some((&first, others)) = rest.split_first() {
        let number = [&b"-Infinity"[..], b"Infinity", b"NaN"].into_iter().find(|number| rest.starts_with(number));
        match (number.filter(|_| !is_text), first) {
            (Some(number), _) => {
                out.extend_from_slice(b"null");
                rest = &rest[number.len()..];
                continue;
            }
            (None, b'\\') if is_text && !others.is_empty() => {
                out.extend_from_slice(&rest[..2]);
                rest = &rest[2..];
                continue;
            }
            (None, b'"') => is_text = !is_text,
            _ => {}
        }
        out.push(first);
        rest = others;
    }
    out
}

fn wrong(name: &str, value: &Value, what: &str) -> String {
    format!("{} is {}, which is not a {what}", shown(name), shown(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_python_are_read_and_texts_are_unchanged() {
        let json = br#"{"a": [0.0, Infinity, -Infinity], "b": "NaN \" Infinity \\", "c": NaN, "d": [Infinity]}"#;
        let fields = Fields::parse(json).unwrap();
        assert_eq!(fields.list("a").unwrap().unwrap()[1..], [Value::Null, Value::Null]);
        assert_eq!(fields.text("b").unwrap(), Some("NaN \" Infinity \\"));
        assert!(fields.get("c").is_none());
        for bad in [&br#"{"a": Inf}"#[..], br#"{"a": "\"#, b"Infinity", b"{NaN: 1}"] {
            assert!(Fields::parse(bad).is_err(), "{bad:?}");
        }
    }
}
