//! What can go wrong with a checkpoint.

use std::io;
use std::path::PathBuf;

use crate::pickle::PickleError;

/// Why a checkpoint could not become a model: the cause and the cure, with names as the files have them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The path holds no checkpoint that is read here.
    #[error("{path} is no checkpoint of DeepSpeed or torch: {fault}")]
    NotACheckpoint {
        /// Which path.
        path: PathBuf,
        /// What is there, and what to do.
        fault: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{path} is truncated or damaged ({fault}): copy it again")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// A file names what only an attack on its reader would name.
    #[error("{path} is refused: {source}; do not load it, and get the checkpoint from those who made it")]
    Dangerous {
        /// Which file.
        path: PathBuf,
        /// The name.
        source: PickleError,
    },
    /// A checkpoint that can be read elsewhere.
    #[error("{path}: {fault}")]
    Unsupported {
        /// Which file or folder.
        path: PathBuf,
        /// What it is, and what to do.
        fault: String,
    },
    /// Files of some ranks are not there, or are of another training.
    #[error("{path}: {fault}")]
    Incomplete {
        /// Which folder.
        path: PathBuf,
        /// What is missing, and what to do.
        fault: String,
    },
    /// Parts of a checkpoint contradict each other.
    #[error("{path} contradicts itself: {fault}; save the checkpoint again, or take an earlier one")]
    Inconsistent {
        /// Which file or folder.
        path: PathBuf,
        /// What does not add up.
        fault: String,
    },
    /// There is no configuration or no tokenizer for the model.
    #[error("there is no {file} in {looked}: name a folder of the model that was trained, which has one")]
    NoModelFile {
        /// Which file.
        file: &'static str,
        /// Where it was looked for.
        looked: String,
    },
    /// Something is where the model was to go.
    #[error("{0} exists already: choose another name, or remove it")]
    Exists(PathBuf),
    /// A weight that lies in blocks has to be put together in memory, and there is none.
    #[error("no memory for the weight {name}, which has {:.1} GiB", *bytes as f64 / (1u64 << 30) as f64)]
    Memory {
        /// Which weight.
        name: String,
        /// Its bytes.
        bytes: usize,
    },
    /// A number is too large for half precision.
    #[error("the weight {name} holds {value}, which f16 cannot: choose bf16 or f32")]
    Overflow {
        /// Which weight.
        name: String,
        /// One of its numbers.
        value: f32,
    },
}

impl CheckpointError {
    /// A fault of the pickle in a file.
    pub(crate) fn pickle(path: PathBuf, source: PickleError) -> Self {
        match source {
            PickleError::Dangerous { .. } => Self::Dangerous { path, source },
            PickleError::Damaged { .. } | PickleError::TooLarge(_) => Self::Damaged { path, fault: source.to_string() },
        }
    }
}
