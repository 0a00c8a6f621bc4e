//! The files of a checkpoint, by rank.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::CheckpointError;

const OPTIMIZER: &str = "_optim_states.pt";
const MODEL: &str = "_model_states.pt";

/// The files of a checkpoint from ranks that use only data parallelism.
pub(super) struct Files {
    folder: PathBuf,
    /// The files of optimizer states, from rank 0 on.
    pub(super) optimizers: Vec<PathBuf>,
    /// The file of model states, up to stage 2.
    model: Option<PathBuf>,
    /// The files of model states at stage 3, by rank.
    models: BTreeMap<usize, PathBuf>,
}

impl Files {
    /// Lists the files in a folder.
    ///
    /// # Errors
    /// If a rank has none, or the model was split in other ways as well.
    pub(super) fn of(folder: &Path) -> Result<Self, CheckpointError> {
        let incomplete = |fault: String| CheckpointError::Incomplete { path: folder.to_owned(), fault };
        let unsupported = |how: &str| {
            let fault = format!("{how}, which is not read here: export the model with the program that trained it");
            CheckpointError::Unsupported { path: folder.to_owned(), fault }
        };
        let mut optimizers = BTreeMap::new();
        let (mut model, mut models) = (None, BTreeMap::new());
        for name in names(folder)? {
            if name.starts_with("expp_rank") || name.contains("_expert_") {
                return Err(unsupported("experts of a mixture were trained apart from each other"));
            }
            if name.starts_with("layer_") && name.ends_with("-model_states.pt") {
                return Err(unsupported("the model was trained in a pipeline"));
            }
            let path = folder.join(&name);
            let Some((data, tensor)) = ranks(&name) else { continue };
            if tensor != 0 {
                return Err(unsupported("each weight was split by the model's parallelism too (mp_rank_01)"));
            }
            let twice = match (data, name.ends_with(OPTIMIZER)) {
                (Some(rank), true) => optimizers.insert(rank, path),
                (Some(rank), false) => models.insert(rank, path),
                (None, false) => model.replace(path),
                (None, true) => None,
            };
            if let Some(other) = twice {
                let other = other.file_name().unwrap_or_default().display().to_string();
                return Err(incomplete(format!(
                    "{name} and {other} are of the same rank: take away the one of another training"
                )));
            }
        }
        if optimizers.is_empty() {
            return Err(incomplete(format!(
                "there is no zero_pp_rank_0_mp_rank_00{OPTIMIZER}, where ZeRO keeps its weights: copy it from the \
                 machine that wrote it; without ZeRO (stage 0) load mp_rank_00{MODEL} in torch"
            )));
        }
        if let Some(rank) = (0..optimizers.len()).find(|rank| !optimizers.contains_key(rank)) {
            let fault = format!(
                "zero_pp_rank_{rank}_mp_rank_00{OPTIMIZER} is missing: copy it from the machine of rank {rank}"
            );
            return Err(incomplete(fault));
        }
        Ok(Self { folder: folder.to_owned(), optimizers: optimizers.into_values().collect(), model, models })
    }

    fn incomplete(&self, fault: String) -> CheckpointError {
        CheckpointError::Incomplete { path: self.folder.clone(), fault }
    }

    /// Checks that there are files of `world` ranks.
    pub(super) fn check_world(&self, world: usize) -> Result<(), CheckpointError> {
        let found = self.optimizers.len();
        match found.cmp(&world) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Less => Err(self.incomplete(format!(
                "it was saved by {world} ranks, and files of {found} are here: copy zero_pp_rank_{found}_mp_rank_00\
                 {OPTIMIZER} and those after it from the machines that wrote them"
            ))),
            std::cmp::Ordering::Greater => Err(self.incomplete(format!(
                "it was saved by {world} ranks, but files of {found} are here: take away those of another training, \
                 from zero_pp_rank_{world}_mp_rank_00{OPTIMIZER} on"
            ))),
        }
    }

    /// The files of model states: one up to stage 2, one per rank at stage 3.
    pub(super) fn models(&self, stage: usize) -> Result<Vec<PathBuf>, CheckpointError> {
        if stage < 3 {
            let missing = || self.incomplete(format!("mp_rank_00{MODEL} is missing: copy it from where rank 0 ran"));
            return Ok(vec![self.model.clone().ok_or_else(missing)?]);
        }
        let of = |rank: usize| {
            self.models.get(&rank).cloned().ok_or_else(|| {
                let file = format!("zero_pp_rank_{rank}_mp_rank_00{MODEL}");
                self.incomplete(format!("{file} is missing: copy it from the machine of rank {rank}"))
            })
        };
        (0..self.optimizers.len()).map(of).collect()
    }
}

/// The data-parallel rank in a file name, if any, and the tensor-parallel rank.
fn ranks(name: &str) -> Option<(Option<usize>, usize)> {
    let name = name.strip_suffix(OPTIMIZER).or_else(|| name.strip_suffix(MODEL))?;
    // Some kinds of half precision add a prefix.
    let name = name.strip_prefix("bf16_").or_else(|| name.strip_prefix("fp16_")).unwrap_or(name);
    if let Some(rank) = name.strip_prefix("mp_rank_") {
        return Some((None, rank.parse().ok()?));
    }
    let (data, tensor) = name.strip_prefix("zero_pp_rank_")?.split_once("_mp_rank_")?;
    Some((Some(data.parse().ok()?), tensor.parse().ok()?))
}

fn names(folder: &Path) -> Result<Vec<String>, CheckpointError> {
    let read = |source: io::Error| CheckpointError::Read { path: folder.to_owned(), source };
    let names = fs::read_dir(folder).map_err(read)?.map(|entry| Ok(entry.map_err(read)?.file_name()));
    let names: Vec<_> = names.collect::<Result<_, CheckpointError>>()?;
    // DeepSpeed writes only UTF-8 names.
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Whether a folder has files of ranks.
fn has_states(folder: &Path) -> bool {
    names(folder).is_ok_and(|names| names.iter().any(|name| name.ends_with(OPTIMIZER) || name.ends_with(MODEL)))
}

/// The folder with the files of ranks: the given one, the one that its file `latest` names, or the only one in it.
///
/// # Errors
/// If `latest` names a folder that does not exist, or there are several.
pub(crate) fn tag_folder(folder: &Path) -> Result<Option<PathBuf>, CheckpointError> {
    if has_states(folder) {
        return Ok(Some(folder.to_owned()));
    }
    let all: Vec<String> = names(folder)?.into_iter().filter(|name| has_states(&folder.join(name))).collect();
    let latest = folder.join("latest");
    if latest.is_file() {
        let read = |source| CheckpointError::Read { path: latest.clone(), source };
        let tag = fs::read_to_string(&latest).map_err(read)?;
        let tag = tag.trim();
        return match all.iter().find(|name| *name == tag) {
            Some(name) => Ok(Some(folder.join(name))),
            None => Err(CheckpointError::Incomplete {
                path: folder.to_owned(),
                fault: format!(
                    "its file `latest` names {:?}, which is not a checkpoint folder here: copy it, or name another",
                    tag.chars().take(64).collect::<String>()
                ),
            }),
        };
    }
    match &*all {
        [] => Ok(None),
        [only] => Ok(Some(folder.join(only))),
        _ => {
            let fault =
                format!("it holds {} checkpoints and no file `latest`: name one of {}", all.len(), all.join(", "));
            Err(CheckpointError::NotACheckpoint { path: folder.to_owned(), fault })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        assert_eq!(ranks("mp_rank_00_model_states.pt"), Some((None, 0)));
        assert_eq!(ranks("zero_pp_rank_3_mp_rank_01_model_states.pt"), Some((Some(3), 1)));
        for half in ["", "bf16_", "fp16_"] {
            let name = format!("{half}zero_pp_rank_12_mp_rank_00_optim_states.pt");
            assert_eq!(ranks(&name), Some((Some(12), 0)), "{name}");
        }
        for other in ["zero_pp_rank_x_mp_rank_00_optim_states.pt", "layer_01-model_00-model_states.pt", "optim.pt"] {
            assert_eq!(ranks(other), None, "{other}");
        }
    }
}
