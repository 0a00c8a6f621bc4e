//! A checkpoint of any kind, and the model's weights in it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use crate::error::CheckpointError;
use crate::weight::Weight;
use crate::{dcp, zero};

/// The program that wrote a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// DeepSpeed, with ZeRO at stage 1, 2 or 3.
    Zero,
    /// `torch.distributed.checkpoint`.
    Dcp,
}

/// The model's weights in a checkpoint. Files are memory-mapped, and numbers are read only when a model is written.
#[derive(Debug)]
pub struct Checkpoint {
    kind: Kind,
    description: String,
    /// The given folder, and the one with the ranks' files.
    folders: [PathBuf; 2],
    weights: Vec<Weight>,
}

impl Checkpoint {
    /// The kind of checkpoint in a folder; `None` for a folder without one, and for a folder that is a model already.
    pub fn recognise(folder: &Path) -> Option<Kind> {
        let is_model = ["model.safetensors", "model.safetensors.index.json"];
        if !folder.is_dir() || is_model.iter().any(|file| folder.join(file).is_file()) {
            return None;
        }
        // If there are several checkpoints, `open` reports that.
        let holds = |found: Result<Option<PathBuf>, CheckpointError>| !matches!(found, Ok(None));
        if folder.join(dcp::METADATA).is_file() {
            Some(Kind::Dcp)
        } else if holds(zero::tag_folder(folder)) {
            Some(Kind::Zero)
        } else {
            holds(metadata_folder(folder)).then_some(Kind::Dcp)
        }
    }

    /// Opens the checkpoint in a folder, of the given kind or the detected one. The folder may be the one with the
    /// ranks' files, or the one above, if its file `latest` names that folder or there is only one.
    ///
    /// # Errors
    /// If there is none, files are missing, damaged or contradictory, or the model is split in an unsupported way.
    pub fn open(folder: &Path, kind: Option<Kind>) -> Result<Self, CheckpointError> {
        let none = |fault: &str| CheckpointError::NotACheckpoint { path: folder.to_owned(), fault: fault.into() };
        if !folder.is_dir() {
            return Err(none(if folder.exists() { "it is not a folder" } else { "there is nothing at that path" }));
        }
        let kind = kind.or_else(|| Self::recognise(folder)).ok_or_else(|| none(what_else(folder)))?;
        let (inner, (weights, description)) = match kind {
            Kind::Zero => {
                let inner = zero::tag_folder(folder)?.ok_or_else(|| none(what_else(folder)))?;
                (inner.clone(), zero::read(&inner)?)
            }
            Kind::Dcp => {
                let inner = metadata_folder(folder)?.ok_or_else(|| none(what_else(folder)))?;
                (inner.clone(), dcp::read(&inner)?)
            }
        };
        let weights = with_plain_names(weights).map_err(|name| CheckpointError::Inconsistent {
            path: inner.clone(),
            fault: format!("two weights are called {name}"),
        })?;
        if let Some(lora) = weights.iter().find(|weight| weight.name().contains(".lora_A.")) {
            let fault = format!(
                "it holds an adapter ({}), not a model: save it with PEFT's save_pretrained, or merge it first",
                lora.name()
            );
            return Err(CheckpointError::Unsupported { path: inner, fault });
        }
        Ok(Self { kind, description, folders: [folder.to_owned(), inner], weights })
    }

    /// The program that wrote it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A short description, such as `DeepSpeed ZeRO 1, 2 ranks`.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The weights, in the order of the checkpoint.
    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// The default type to write floating-point weights in; `None` to keep the type of each.
    pub(crate) fn usual_dtype(&self) -> Option<Dtype> {
        match self.kind {
            Kind::Zero => Some(zero::DTYPE),
            Kind::Dcp => None,
        }
    }

    /// The folders that may have the model's other files: the given folder, the one with the ranks' files, and their
    /// parents.
    pub(crate) fn places(&self) -> Vec<PathBuf> {
        let mut places = Vec::new();
        for folder in &self.folders {
            // The path may be relative to the folder itself, such as `.`.
            let above = folder.canonicalize().ok().and_then(|folder| Some(folder.parent()?.to_owned()));
            places.extend(std::iter::once(folder.clone()).chain(above));
        }
        let mut seen = HashSet::new();
        places.retain(|place| seen.insert(place.canonicalize().unwrap_or_else(|_| place.clone())));
        places
    }
}

/// The folder with `.metadata`: the given one, or the only one in it that has a model.
fn metadata_folder(folder: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    if folder.join(dcp::METADATA).is_file() {
        return Ok(Some(folder.to_owned()));
    }
    let read = |source| CheckpointError::Read { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(read)? {
        names.push(entry.map_err(read)?.file_name().to_string_lossy().into_owned());
    }
    // accelerate saves the optimizer as a separate checkpoint.
    names.retain(|name| !name.starts_with("optimizer") && folder.join(name).join(dcp::METADATA).is_file());
    names.sort();
    match &*names {
        [] => Ok(None),
        [only] => Ok(Some(folder.join(only))),
        _ => {
            let fault = format!("it holds {} checkpoints: name one of {}", names.len(), names.join(", "));
            Err(CheckpointError::NotACheckpoint { path: folder.to_owned(), fault })
        }
    }
}

/// A hint about the content of a folder without a supported checkpoint.
fn what_else(folder: &Path) -> &'static str {
    let has = |file: &str| folder.join(file).exists();
    if has("model.safetensors") || has("model.safetensors.index.json") {
        "it is a model folder already, and needs no conversion"
    } else if has("common.pt") || has("mp_rank_00/model_optim_rng.pt") || has("latest_checkpointed_iteration.txt") {
        "it is one of Megatron-Core: export it with Megatron Bridge (AutoBridge.export_ckpt)"
    } else if has("pytorch_model.bin") || has("pytorch_model.bin.index.json") {
        "it holds weights of torch.save: save it with transformers' save_pretrained, which writes safetensors"
    } else {
        "DeepSpeed's have a file `latest` or files *_optim_states.pt, torch's a file .metadata"
    }
}

/// Removes the prefixes that torch's wrappers add to a model's names.
///
/// # Errors
/// A name that two weights would have.
fn with_plain_names(weights: Vec<Weight>) -> Result<Vec<Weight>, String> {
    const WITHIN: [&str; 3] = ["_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."];
    // Data parallelism wraps the whole model.
    let is_wrapped = weights.iter().all(|weight| weight.name().starts_with("module."));
    let mut names = HashSet::new();
    let plain = |weight: Weight| {
        let mut name = weight.name().to_owned();
        WITHIN.iter().for_each(|part| name = name.replace(part, ""));
        let name = if is_wrapped { name.strip_prefix("module.").unwrap_or(&name) } else { &name };
        if names.insert(name.to_owned()) { Ok(weight.named(name)) } else { Err(name.to_owned()) }
    };
    weights.into_iter().map(plain).collect()
}
