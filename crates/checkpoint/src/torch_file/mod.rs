//! Files of `torch.save` since version 1.6 ([torch/serialization.py]): an uncompressed zip archive with a pickle
//! (`data.pkl`) and the numbers of each tensor (`data/0`, `data/1`, ...), which the pickle refers to.
//!
//! [torch/serialization.py]: https://github.com/pytorch/pytorch/blob/main/torch/serialization.py

mod archive;
pub(crate) mod tensor;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use verdigris_kernels::Bytes;

use crate::error::CheckpointError;
use crate::file;
use crate::pickle::{Node, Pickle};
use archive::Archive;
use tensor::Tensor;

/// A file written by `torch.save`.
#[derive(Debug)]
pub struct TorchFile {
    /// The name in errors.
    path: PathBuf,
    archive: Archive,
    pickle: Pickle,
}

impl TorchFile {
    /// Opens and memory-maps a file.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or of an unsupported format, or contains names that only an attack would use.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::of(path, file::map(path)?)
    }

    /// As [`TorchFile::open`], from bytes in memory. Errors refer to them as `path`.
    ///
    /// # Errors
    /// As for [`TorchFile::open`].
    pub fn in_memory(path: &Path, bytes: Vec<u8>) -> Result<Self, CheckpointError> {
        Self::of(path, Bytes::new(Arc::new(bytes)))
    }

    /// A file, or a part of one: files of `torch.distributed.checkpoint` contain several in sequence.
    pub(crate) fn of(path: &Path, bytes: Bytes) -> Result<Self, CheckpointError> {
        let archive = Archive::read(path, bytes)?;
        let pickle = archive.get("data.pkl").ok_or_else(|| CheckpointError::Damaged {
            path: path.to_owned(),
            fault: "the archive holds no data.pkl".into(),
        })?;
        let pickle = Pickle::read(pickle.get()).map_err(|fault| CheckpointError::pickle(path.to_owned(), fault))?;
        Ok(Self { path: path.to_owned(), archive, pickle })
    }

    /// The value that was saved.
    pub fn root(&self) -> Node<'_> {
        self.pickle.root()
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tensor for a value of the pickle.
    ///
    /// # Errors
    /// If the value is not a tensor, is of an unsupported kind, or reaches past its numbers.
    pub fn tensor(&self, node: Node<'_>) -> Result<Tensor, CheckpointError> {
        Tensor::read(&self.path, &self.archive, node)
    }

    /// The error for unexpected content of the file.
    pub(crate) fn damaged(&self, fault: impl Into<String>) -> CheckpointError {
        CheckpointError::Damaged { path: self.path.clone(), fault: fault.into() }
    }

    /// The value of a key in the dictionary that was saved.
    ///
    /// # Errors
    /// If there is no such key.
    pub(crate) fn get(&self, key: &str) -> Result<Node<'_>, CheckpointError> {
        self.root().get(key).ok_or_else(|| self.damaged(format!("it has no {key}")))
    }
}
