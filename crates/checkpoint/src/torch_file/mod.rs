//! What `torch.save` writes since version 1.6 ([torch/serialization.py]): an archive in the format of zip, where
//! nothing is compressed, with a pickle (`data.pkl`) and the numbers of each tensor (`data/0`, `data/1`, ...), which
//! the pickle names.
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

/// A file that `torch.save` has written.
#[derive(Debug)]
pub struct TorchFile {
    /// What errors call it.
    path: PathBuf,
    archive: Archive,
    pickle: Pickle,
}

impl TorchFile {
    /// Opens a file, which is mapped.
    ///
    /// # Errors
    /// If it cannot be read, is damaged or of a format that is not read here, or names what only an attack would.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        Self::of(path, file::map(path)?)
    }

    /// As [`TorchFile::open`], with bytes that are in memory. Errors call them `path`.
    ///
    /// # Errors
    /// As there.
    pub fn in_memory(path: &Path, bytes: Vec<u8>) -> Result<Self, CheckpointError> {
        Self::of(path, Bytes::new(Arc::new(bytes)))
    }

    /// A file, or a part of one: those of `torch.distributed.checkpoint` hold one after the other.
    pub(crate) fn of(path: &Path, bytes: Bytes) -> Result<Self, CheckpointError> {
        let archive = Archive::read(path, bytes)?;
        let pickle = archive.get("data.pkl").ok_or_else(|| CheckpointError::Damaged {
            path: path.to_owned(),
            fault: "the archive holds no data.pkl".into(),
        })?;
        let pickle = Pickle::read(pickle.get()).map_err(|fault| CheckpointError::pickle(path.to_owned(), fault))?;
        Ok(Self { path: path.to_owned(), archive, pickle })
    }

    /// What was saved.
    pub fn root(&self) -> Node<'_> {
        self.pickle.root()
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tensor that a value of the pickle is.
    ///
    /// # Errors
    /// If it is none, one of a kind that is not read here, or reaches past its numbers.
    pub fn tensor(&self, node: Node<'_>) -> Result<Tensor, CheckpointError> {
        Tensor::read(&self.path, &self.archive, node)
    }

    /// A fault of what the file says.
    pub(crate) fn damaged(&self, fault: impl Into<String>) -> CheckpointError {
        CheckpointError::Damaged { path: self.path.clone(), fault: fault.into() }
    }

    /// The value of a key of what was saved.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn get(&self, key: &str) -> Result<Node<'_>, CheckpointError> {
        self.root().get(key).ok_or_else(|| self.damaged(format!("it has no {key}")))
    }
}
