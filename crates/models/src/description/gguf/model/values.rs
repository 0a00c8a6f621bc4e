//! The values that describe a model, below the name of its architecture.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use serde_json::{Map, Value as Json};
use verdigris_text::shown;

use super::super::{Gguf, Numbers, Value};
use crate::description::config::DecoderConfig;
use crate::description::families::Fields;

/// The architecture of assistants of Gemma 4.
pub(super) const ASSISTANT: &str = "gemma4-assistant";

/// A file's values. Those that were read are remembered, so that the others can be refused if they change logits.
pub(super) struct Values<'a> {
    pub(super) gguf: &'a Gguf,
    pub(super) architecture: &'a str,
    read: RefCell<HashSet<String>>,
}

impl<'a> Values<'a> {
    /// The values of a file. The error says that it has no architecture.
    pub(super) fn of(gguf: &'a Gguf) -> Result<Self, String> {
        let architecture = gguf.text("general.architecture")?.ok_or("general.architecture is missing")?;
        Ok(Self { gguf, architecture, read: RefCell::default() })
    }

    /// The full name of a value.
    pub(super) fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn reading(&self, name: &str) -> String {
        self.read.borrow_mut().insert(name.to_owned());
        self.name(name)
    }

    pub(super) fn size_or(&self, name: &str) -> Result<Option<usize>, String> {
        self.gguf.size(&self.reading(name))
    }

    pub(super) fn size(&self, name: &str) -> Result<usize, String> {
        self.size_or(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, String> {
        self.gguf.number(&self.reading(name))
    }

    pub(super) fn needed_number(&self, name: &str) -> Result<f64, String> {
        self.number(name)?.ok_or_else(|| self.missing(name))
    }

    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        self.gguf.truth(&self.reading(name))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        self.gguf.text(&self.reading(name))
    }

    /// The number of layers, without those that predict later tokens.
    pub(super) fn layers(&self) -> Result<usize, String> {
        let (all, most) = (self.size("block_count")?, DecoderConfig::MAX_LAYERS);
        let predictors = self.predictor_count()?;
        let layers = all.checked_sub(predictors);
        let layers = layers.ok_or_else(|| format!("{predictors} of {all} layers predict later tokens"))?;
        if layers > most { Err(format!("the number of layers is {layers}, but at most {most}")) } else { Ok(layers) }
    }

    /// The layers that predict later tokens, which come last and are only used for drafts.
    pub(super) fn predictors(&self) -> Result<Range<usize>, String> {
        match self.predictor_count()? {
            0 => Ok(0..0),
            _ => Ok(self.layers()?..self.size("block_count")?),
        }
    }

    fn predictor_count(&self) -> Result<usize, String> {
        let count = self.size_or("nextn_predict_layers")?.unwrap_or(0);
        // An assistant has only layers that predict.
        Ok(if self.architecture == ASSISTANT { 0 } else { count })
    }

    /// The whole numbers of a list with at most one for each layer, if it is there.
    pub(super) fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, String> {
        let name = self.reading(name);
        let Some(value) = self.gguf.get(&name) else { return Ok(None) };
        let all = match value {
            Value::Numbers(list) if Numbers::count(list) <= DecoderConfig::MAX_LAYERS => {
                (0..Numbers::count(list)).map(|i| list.at(i)?.integer()).collect()
            }
            _ => None,
        };
        all.map(Some).ok_or_else(|| format!("{name} is not a list of whole numbers, at most one for each layer"))
    }

    /// A count for each layer, or one for all, if it is there.
    pub(super) fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>, String> {
        self.each(name, "number of things", |value| usize::try_from(value.integer()?).ok())
    }

    /// A truth value for each layer, or one for all, if it is there.
    pub(super) fn truths(&self, name: &str) -> Result<Option<Vec<bool>>, String> {
        self.each(name, "truth value", |value| match value {
            Value::Truth(truth) => Some(*truth),
            // Some programs write them as numbers.
            other => other.integer().map(|integer| integer != 0),
        })
    }

    fn each<T: Clone>(
        &self,
        name: &str,
        what: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, String> {
        let name = self.reading(name);
        let Some(value) = self.gguf.get(&name) else { return Ok(None) };
        let layers = self.layers()?;
        let wrong = || format!("{name} is not a {what} for each of {layers} layers");
        let all = match value {
            Value::Numbers(list) => {
                let first =
                    (0..layers.min(Numbers::count(list))).map(|i| read(&list.at(i)?)).collect::<Option<Vec<T>>>();
                first.filter(|first| first.len() == layers)
            }
            one => read(one).map(|one| vec![one; layers]),
        };
        all.map(Some).ok_or_else(wrong)
    }

    /// The numbers of a vector among the tensors, if it is there.
    pub(super) fn vector(&self, name: &str) -> Result<Option<Vec<f32>>, String> {
        let stored = self.gguf.tensors.get(name);
        stored.map(|stored| stored.as_vector().map_err(|fault| format!("{name} {fault}"))).transpose()
    }

    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.gguf.has_tensor(name)
    }

    fn missing(&self, name: &str) -> String {
        format!("{} is missing", self.name(name))
    }

    /// Refuses values that would change a model's logits and were not read.
    pub(super) fn refuse_others(&self) -> Result<(), String> {
        for (name, usual) in UNUSUAL {
            if !self.read.borrow().contains(name) {
                self.refuse(name, usual)?;
            }
        }
        Ok(())
    }

    /// Refuses a value that is not the usual one. Truth values are 0 and 1; with NaN any value is refused.
    pub(super) fn refuse(&self, name: &str, usual: f64) -> Result<(), String> {
        let full = self.reading(name);
        let value = match self.gguf.get(&full) {
            Some(Value::Truth(truth)) if (f64::from(u8::from(*truth)) - usual).abs() == 0.0 => return Ok(()),
            Some(Value::Truth(truth)) => truth.to_string(),
            Some(Value::Text(text)) => format!("{:?}", shown(text)),
            Some(Value::Numbers(list)) => match list.all().and_then(|value| value.number()) {
                Some(value) if value == usual => return Ok(()),
                _ => "a list".into(),
            },
            _ => match self.gguf.number(&full)? {
                Some(value) if value != usual => value.to_string(),
                _ => return Ok(()),
            },
        };
        Err(format!("{full} = {value} is not supported"))
    }
}

/// Values that change logits, with those that mean that there is nothing unusual.
const UNUSUAL: [(&str, f64); 38] = [
    ("expert_count", 0.0),
    ("attention.scale", f64::NAN),
    ("attention.clamp_kqv", f64::NAN),
    ("attention.max_alibi_bias", 0.0),
    ("embedding_scale", 1.0),
    ("residual_scale", 1.0),
    ("logit_scale", 1.0),
    ("rope.scale_linear", 1.0),
    ("rope.scaling.attn_factor", 1.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
    ("rope.scaling.yarn_attn_factor", 1.0),
    ("attention.causal", 1.0),
    ("attention.key_length_swa", f64::NAN),
    ("attention.kv_lora_rank", 0.0),
    ("attention.q_lora_rank", 0.0),
    ("attention.recurrent_layers", 0.0),
    ("attention.shared_kv_layers", 0.0),
    ("attention.temperature_length", 0.0),
    ("attention.temperature_scale", 0.0),
    ("attention.value_length_swa", f64::NAN),
    ("attention.value_scale", 1.0),
    ("embedding_length_per_layer_input", 0.0),
    ("expert_group_scale", f64::NAN),
    ("expert_shared_count", 0.0),
    ("expert_shared_feed_forward_length", 0.0),
    ("experts_per_group", 0.0),
    ("interleave_moe_layer_step", 1.0),
    ("leading_dense_block_count", 0.0),
    ("moe_every_n_layers", 0.0),
    ("moe_latent_size", 0.0),
    ("num_loops", 1.0),
    ("rope.dimension_count_swa", f64::NAN),
    ("rope.scaling.alpha", f64::NAN),
    ("rope.scaling.yarn_log_multiplier", 0.0),
    ("router_logit_softcapping", 0.0),
    ("swiglu_clamp_exp", 0.0),
    ("swiglu_clamp_shexp", 0.0),
    ("use_parallel_residual", 0.0),
];

/// The fields that a `config.json` would have.
#[derive(Default)]
pub(super) struct Described(Map<String, Json>);

impl Described {
    pub(super) fn put(&mut self, name: &str, value: impl Into<Json>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A value, if it is there.
    pub(super) fn put_some(&mut self, name: &str, value: Option<impl Into<Json>>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    pub(super) fn fields(self) -> Fields {
        Fields::of(self.0)
    }
}
