//! Resuming after a kill.
//!
//! A checkpoint is a safetensors file with the weights and the optimizer's moments in f32, and a JSON file with the
//! progress and the settings of the run. Each is written under another name and then renamed, the JSON last, so a kill
//! at any moment leaves a complete checkpoint: the old one or the new one.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor, Var};
use serde::{Deserialize, Serialize};
use verdigris_models::whole_file::replace;

use crate::adamw::AdamW;
use crate::error::TrainError;
use crate::weights::save;

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The settings that must be the same to resume a run.
    pub(crate) settings: String,
    pub(crate) step: u64,
    pub(crate) tokens: u64,
    /// Seconds of training so far.
    pub(crate) elapsed: f64,
    /// The name of the file with weights and moments.
    pub(crate) tensors: String,
}

/// The name of the file with the weights and moments of a step.
fn file_of(step: u64) -> String {
    format!("checkpoint-{step}.safetensors")
}

/// The checkpoint in an output folder.
pub(crate) struct Checkpoint {
    folder: PathBuf,
}

impl Checkpoint {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    fn state_path(&self) -> PathBuf {
        self.folder.join("checkpoint.json")
    }

    /// Fails if the folder holds a model that must not be lost. Only an interrupted run has a checkpoint; then the
    /// other files were to be replaced already.
    pub(crate) fn refuse_a_finished_model(&self, replace: bool) -> Result<(), TrainError> {
        // The files of a model folder, such as the one that a run continues from.
        let files = ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"];
        let holds_a_model = || files.iter().any(|file| self.folder.join(file).exists());
        if !replace && !self.state_path().exists() && holds_a_model() {
            return Err(TrainError::Finished { path: self.folder.clone() });
        }
        Ok(())
    }

    pub(crate) fn save(
        &self,
        mut state: State,
        variables: &BTreeMap<String, Var>,
        adamw: &AdamW,
    ) -> Result<(), TrainError> {
        let mut tensors: HashMap<String, Tensor> =
            variables.iter().map(|(name, var)| (format!("weight.{name}"), var.as_tensor().clone())).collect();
        adamw.save(&mut tensors);
        state.tensors = file_of(state.step);
        let old = self.state().ok().flatten();
        save(&self.folder.join(&state.tensors), &tensors, None)?;
        let json = serde_json::to_vec_pretty(&state).expect("a state serialises");
        replace(&self.state_path(), &json).map_err(TrainError::file("write", self.state_path()))?;
        if let Some(old) = old.filter(|old| old.tensors != state.tensors) {
            let _ = fs::remove_file(self.folder.join(old.tensors));
        }
        Ok(())
    }

    fn state(&self) -> Result<Option<State>, TrainError> {
        let path = self.state_path();
        if !path.exists() {
            return Ok(None);
        }
        let json = fs::read(&path).map_err(TrainError::file("read", &path))?;
        let state = serde_json::from_slice::<State>(&json).map_err(|error| error.to_string());
        // The file is removed later, so it must be one of this folder.
        let state = state.and_then(|state| match state.tensors == file_of(state.step) {
            true => Ok(Some(state)),
            false => Err(format!("the tensors of step {} are not in {:?}", state.step, state.tensors)),
        });
        state.map_err(|fault| TrainError::DamagedCheckpoint { path, fault })
    }

    /// Restores weights and optimizer, if there is a checkpoint of a run with these settings.
    pub(crate) fn restore(
        &self,
        settings: &str,
        variables: &BTreeMap<String, Var>,
        adamw: &mut AdamW,
    ) -> Result<Option<State>, TrainError> {
        let Some(state) = self.state()? else { return Ok(None) };
        if state.settings != settings {
            let difference = format!("{} there, {settings} here", state.settings);
            return Err(TrainError::ForeignCheckpoint { path: self.state_path(), difference });
        }
        let path = self.folder.join(&state.tensors);
        let damaged = |fault: String| TrainError::DamagedCheckpoint { path: path.clone(), fault };
        let tensors =
            candle_core::safetensors::load(&path, &Device::Cpu).map_err(|error| damaged(error.to_string()))?;
        for (name, var) in variables {
            let saved = tensors.get(&format!("weight.{name}")).filter(|saved| saved.shape() == var.shape());
            var.set(saved.ok_or_else(|| damaged(format!("no weight {name}")))?)?;
        }
        adamw.restore(state.step, &tensors).map_err(|name| damaged(format!("no {name}")))?;
        Ok(Some(state))
    }

    /// Removes the checkpoint of a run that has ended.
    pub(crate) fn remove(&self) -> Result<(), TrainError> {
        if let Some(state) = self.state()? {
            fs::remove_file(self.state_path()).map_err(TrainError::file("remove", self.state_path()))?;
            let _ = fs::remove_file(self.folder.join(state.tensors));
        }
        Ok(())
    }
}
