//! Errors of reading or converting a checkpoint.

use std::io;
use std::path::PathBuf;

use crate::pickle::PickleError;

/// An error of converting a checkpoint: the cause and the cure, with names as in the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The path does not hold a supported checkpoint.
    #[error("{path} is not a checkpoint of DeepSpeed or torch: {fault}")]
    NotACheckpoint {
        /// The path.
        path: PathBuf,
        /// The content found, and a remedy.
        fault: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{path} is truncated or damaged ({fault}): copy it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        fault: String,
    },
    /// A file contains a name that only an attack would use.
    #[error("{path} is refused: {source}; do not load it, and get the checkpoint from those who made it")]
    Dangerous {
        /// The file.
        path: PathBuf,
        /// The error with the name.
        source: PickleError,
    },
    /// A checkpoint that must be converted by another program.
    #[error("{path}: {fault}")]
    Unsupported {
        /// The file or folder.
        path: PathBuf,
        /// The kind of checkpoint, and a remedy.
        fault: String,
    },
    /// Files of some ranks are missing, or belong to another training.
    #[error("{path}: {fault}")]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// The missing files, and a remedy.
        fault: String,
    },
    /// Parts of a checkpoint contradict each other.
    #[error("{path} contradicts itself: {fault}; save the checkpoint again, or take an earlier one")]
    Inconsistent {
        /// The file or folder.
        path: PathBuf,
        /// The contradiction.
        fault: String,
    },
    /// The configuration or the tokenizer of the model is missing.
    #[error("there is no {file} in {looked}: name a folder of the model that was trained, which has one")]
    NoModelFile {
        /// The file.
        file: &'static str,
        /// The folders that were searched.
        looked: String,
    },
    /// The target path exists already.
    #[error("{0} exists already: choose another name, or remove it")]
    Exists(PathBuf),
    /// A weight that is stored in blocks must be assembled in memory, and there is not enough.
    #[error("no memory for the weight {name}, which has {:.1} GiB", *bytes as f64 / (1u64 << 30) as f64)]
    Memory {
        /// The name of the weight.
        name: String,
        /// The size of the weight in bytes.
        bytes: usize,
    },
    /// A number is too large for the type of the output.
    #[error("the weight {name} holds {value:e}, which {dtype} cannot{}", if *dtype == "f16" { ": choose bf16 or f32" } else { "" })]
    Overflow {
        /// The name of the weight.
        name: String,
        /// One of its numbers that is too large.
        value: f64,
        /// The type.
        dtype: &'static str,
    },
}

impl CheckpointError {
    /// The error for a pickle in a file that cannot be read.
    pub(crate) fn pickle(path: PathBuf, source: PickleError) -> Self {
        match source {
            PickleError::Dangerous { .. } => Self::Dangerous { path, source },
            PickleError::Damaged { .. } | PickleError::TooLarge(_) => Self::Damaged { path, fault: source.to_string() },
        }
    }
}
