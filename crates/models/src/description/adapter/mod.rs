//! Adapters: the changes that training made to a model, stored separately, as the library `peft` saves them.
//!
//! The change of a matrix is a separate low-rank product ([`update`]), so the model's own weights stay as they are
//! stored, and are shared by all its adapters. Weights that were trained in full replace the model's.
//!
//! | module | holds |
//! |---|---|
//! | `config` | the contents of `adapter_config.json` |
//! | `targets` | the modules that an adapter says that it changes, and patterns of their names |
//! | [`update`] | a low-rank change of a matrix |

mod config;
mod targets;
pub(crate) mod update;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use verdigris_kernels::Bytes;

use crate::description::matrix::Matrix;
use crate::description::stored_tensor::{StoredTensor, parse_safetensors};
use crate::description::weight::Weight;
use crate::error::ModelError;

pub(crate) use config::AdapterConfig;
use targets::is_inside;
use update::Update;
use verdigris_text::shown;

/// The prefix of all names.
const PREFIX: &str = "base_model.model.";

/// Prefixes of weight names, which depend only on whether the model is alone or part of another.
const PREFIXES: [&str; 9] = [
    "model.language_model.",
    "model.text_model.",
    "language_model.model.",
    "language_model.",
    "model.decoder.",
    "decoder.",
    "model.",
    "transformer.",
    "gpt_neox.",
];

/// The name of a weight without these prefixes.
pub(crate) fn plain_name(name: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// An adapter: the weights that it changes, by their plain names.
#[derive(Debug)]
pub(crate) struct Adapter {
    path: PathBuf,
    config: AdapterConfig,
    changes: HashMap<String, Change>,
}

/// The change of one weight.
#[derive(Debug, Default)]
struct Change {
    /// The weight that replaces it.
    whole: Option<Whole>,
    /// LoRA's `A` and `B`, as they are stored.
    down: Option<StoredTensor>,
    up: Option<StoredTensor>,
    /// DoRA's lengths.
    lengths: Option<StoredTensor>,
    /// Whether it is the change of an embedding: then `A` and `B` are the other way round.
    is_embedding: bool,
    /// The module's name, which patterns are matched with.
    module: String,
}

#[derive(Debug)]
struct Whole {
    stored: StoredTensor,
    /// Whether it is the base's weight, saved with the adapter; an output matrix tied to the embedding then uses it
    /// too.
    is_of_base: bool,
}

impl Adapter {
    /// Reads an adapter from a safetensors file in memory.
    pub(crate) fn new(config: AdapterConfig, path: PathBuf, bytes: &Bytes) -> Result<Self, ModelError> {
        let mut adapter = Self { path, config, changes: HashMap::new() };
        for (name, stored) in parse_safetensors(&adapter.path, bytes)? {
            if let Err(fault) = adapter.add(&name, stored) {
                return Err(adapter.wrong(&name, fault));
            }
        }
        if adapter.changes.is_empty() {
            return Err(ModelError::Adapter { path: adapter.path, fault: "it changes nothing".into() });
        }
        adapter.check_config()?;
        Ok(adapter)
    }

    fn add(&mut self, name: &str, stored: StoredTensor) -> Result<(), &'static str> {
        const NOT_KNOWN: &str = "is not known in adapters of LoRA";
        let name = name.strip_prefix(PREFIX).ok_or(NOT_KNOWN)?;
        let Some((module, part)) = name.split_once(".lora_") else {
            let is_of_base = name.contains(".base_layer.");
            let name = name.replace(".base_layer.", ".").replace(".modules_to_save.", ".");
            let change = self.changes.entry(plain_name(&name).to_owned()).or_default();
            change.whole = Some(Whole { stored, is_of_base });
            return Ok(());
        };
        let change = self.changes.entry(format!("{}.weight", plain_name(module))).or_default();
        module.clone_into(&mut change.module);
        let to = match part {
            "A.weight" | "embedding_A" => &mut change.down,
            "B.weight" | "embedding_B" => &mut change.up,
            "magnitude_vector" | "magnitude_vector.weight" if self.config.has_lengths => &mut change.lengths,
            _ => return Err(NOT_KNOWN),
        };
        *to = Some(stored);
        change.is_embedding |= part.starts_with("embedding");
        Ok(())
    }

    /// Checks that the configuration allows each change.
    fn check_config(&self) -> Result<(), ModelError> {
        let mut changes: Vec<(&String, &Change)> =
            self.changes.iter().filter(|(_, change)| !change.module.is_empty()).collect();
        changes.sort_unstable_by_key(|(name, _)| *name);
        for (name, change) in changes {
            if !self.config.targets.has(&change.module) {
                return Err(self.damaged(format!("{} is changed, but target_modules does not name it", shown(name))));
            }
            if self.config.has_lengths && change.lengths.is_none() {
                let name = shown(name);
                return Err(self.damaged(format!("use_dora is true, but {name} is changed without a magnitude vector")));
            }
        }
        Ok(())
    }

    /// Checks that the base has every weight that is changed, and that all modules that should be replaced in full have
    /// weights. `base` has the plain names of the base's weights.
    pub(crate) fn check(&self, base: &HashSet<&str>) -> Result<(), ModelError> {
        let mut foreign: Vec<&String> = self.changes.keys().filter(|name| !base.contains(name.as_str())).collect();
        foreign.sort_unstable();
        if let Some(name) = foreign.first() {
            return Err(self.wrong(name, "is changed, but the model has none"));
        }
        let is_whole = |name: &&str| self.changes.get(*name).is_some_and(|change| change.whole.is_some());
        for module in &self.config.saved {
            let mut weights = base.iter().filter(|name| is_inside(name, module)).peekable();
            if weights.peek().is_some() && !weights.any(is_whole) {
                let fault = format!("modules_to_save has {:?}, but there are no weights of it", shown(module));
                return Err(self.damaged(fault));
            }
        }
        Ok(())
    }

    /// The error of an adapter whose two files do not belong together.
    fn damaged(&self, fault: String) -> ModelError {
        let fault = format!("{fault}: adapter_config.json and this file do not belong together, or one is incomplete");
        ModelError::Adapter { path: self.path.clone(), fault }
    }

    /// The weight that replaces this one.
    pub(crate) fn whole(&self, name: &str) -> Option<&StoredTensor> {
        self.changes.get(plain_name(name))?.whole.as_ref().map(|whole| &whole.stored)
    }

    /// The weight that replaces this one and all others tied to it in the base.
    pub(crate) fn of_base(&self, name: &str) -> Option<&StoredTensor> {
        let whole = self.changes.get(plain_name(name))?.whole.as_ref()?;
        whole.is_of_base.then_some(&whole.stored)
    }

    /// The weight of this name; `matrix` (`out x in`) is the weight without the adapter.
    pub(crate) fn change(&self, name: &str, matrix: Matrix) -> Result<Weight, ModelError> {
        let change = self.changes.get(plain_name(name));
        let Some(change) = change.filter(|change| !change.module.is_empty()) else { return Ok(matrix.into()) };
        change.of(&self.config, matrix).map_err(|fault| self.wrong(name, fault))
    }

    /// Converts the changes for a GGUF file, where the rows of queries and keys are in another order (`order` of the
    /// number of heads), and where norms and the heads of gated delta nets may be stored differently.
    pub(crate) fn for_gguf(
        &mut self,
        [heads, kv_heads]: [usize; 2],
        order: Option<impl Fn(usize) -> Vec<usize>>,
        norms_are_whole: bool,
        value_heads_are_strided: bool,
    ) -> Result<(), ModelError> {
        let of_heads = |name: &&String| name.contains(".linear_attn.");
        if value_heads_are_strided && let Some(name) = self.changes.keys().find(of_heads) {
            let fault = "cannot be changed in a GGUF file, which has the heads of this layer in another order: use the \
                         folder that it was made of";
            return Err(self.wrong(name, fault));
        }
        let is_norm = |name: &str| name.ends_with("norm.weight");
        if norms_are_whole && let Some(name) = self.changes.keys().find(|name| is_norm(name)) {
            return Err(
                self.wrong(name, "cannot be changed in a GGUF file of Gemma: use the folder that it was made of")
            );
        }
        let Some(order) = order else { return Ok(()) };
        for (name, change) in &mut self.changes {
            let module = name.rsplit_once('.').map_or("", |(module, _)| module);
            let order = match module.rsplit_once('.').map(|(_, part)| part) {
                Some("q_proj") => order(heads),
                Some("k_proj") => order(kv_heads),
                _ => continue,
            };
            let Change { whole, up, lengths, .. } = change;
            for stored in whole.iter_mut().map(|whole| &mut whole.stored).chain(up).chain(lengths) {
                // A wrong shape is reported later.
                if let Some(ordered) = stored.gather(&order) {
                    *stored = ordered;
                }
            }
        }
        Ok(())
    }

    /// The error of a weight's change.
    pub(crate) fn wrong(&self, name: &str, fault: impl Into<String>) -> ModelError {
        let base = self.config.base().map(|base| format!(" ({})", shown(base))).unwrap_or_default();
        let fault = format!(
            "{} {}; an adapter goes with the model that it was trained from{base} and with no other",
            shown(name),
            fault.into()
        );
        ModelError::Adapter { path: self.path.clone(), fault }
    }
}

impl Change {
    fn of(&self, config: &AdapterConfig, matrix: Matrix) -> Result<Weight, String> {
        let (Some(down), Some(up)) = (&self.down, &self.up) else { return Err("has one of two matrices only".into()) };
        let (down, up) = (down.as_matrix()?, up.as_matrix()?);
        let scale = config.scale(&self.module, down.rows())?;
        // The rows of an embedding are tokens.
        let (up, down) = if self.is_embedding { (down.transposed(), up.transposed()) } else { (up, down) };
        let update = Update::new(up, down, scale).ok_or("has two matrices that do not fit together")?;
        let (shape, expected) = (update.shape(), [matrix.rows(), matrix.columns()]);
        if shape != expected {
            return Err(format!("is changed by a matrix of {shape:?}, but has shape {expected:?}"));
        }
        let Some(lengths) = &self.lengths else { return Ok(Weight::updated(matrix, update)) };
        if !config.has_lengths {
            return Err("has lengths, which is not known in adapters of LoRA".into());
        }
        let lengths = lengths.as_vector()?;
        let bad = "has rows of zeros, or other lengths than it has rows";
        if self.is_embedding {
            return Ok(columns_of_lengths(&matrix, &update, &lengths).ok_or(bad)?.into());
        }
        let update = update.with_lengths(&matrix, &lengths).ok_or(bad)?;
        Ok(Weight::updated(matrix, update))
    }
}

/// The changed matrix with new lengths for its columns: DoRA's change of an embedding. `None` if that is not possible.
fn columns_of_lengths(matrix: &Matrix, update: &Update, lengths: &[f32]) -> Option<Matrix> {
    let columns = matrix.columns();
    let mut numbers = matrix.numbers();
    update.change(0..matrix.rows(), &mut numbers);
    let mut squares = vec![0f64; columns];
    for row in numbers.chunks(columns) {
        squares.iter_mut().zip(row).for_each(|(square, x)| *square += f64::from(*x).powi(2));
    }
    let factors: Vec<f32> =
        lengths.iter().zip(&squares).map(|(length, square)| length / square.sqrt() as f32).collect();
    if factors.len() != columns || factors.iter().any(|factor| !factor.is_finite()) {
        return None;
    }
    numbers.chunks_mut(columns).for_each(|row| row.iter_mut().zip(&factors).for_each(|(x, factor)| *x *= factor));
    Some(Matrix::of_numbers(&numbers, columns))
}
