//! Other libraries that compute models.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use verdigris_kernels::Bytes;

use crate::error::ModelError;
use crate::language_model::LanguageModel;
use crate::source::file_names::CONFIG;
use crate::source::files::Files;

/// A library that computes rows from a model's weights, instead of this crate's decoders. `Display` gives its name and
/// where it computes.
///
/// Tokenizer, chat template and end-of-text tokens are read as for any other model.
pub trait Backend: fmt::Debug + fmt::Display + Send + Sync {
    /// Loads the model of a folder or a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Architecture`] for a model type that the library does not have, [`ModelError::Config`] for a
    /// configuration that it would compute differently, and the errors of reading files.
    fn model(&self, files: ModelFiles<'_>) -> Result<Arc<dyn LanguageModel>, ModelError>;
}

/// The files of a model, wherever they are stored.
#[derive(Clone, Copy, Debug)]
pub struct ModelFiles<'a>(pub(crate) &'a Files);

impl ModelFiles<'_> {
    /// The path and the contents of `config.json`.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn config(&self) -> Result<(PathBuf, Cow<'static, [u8]>), ModelError> {
        Ok((self.0.path(CONFIG), self.0.read(CONFIG)?))
    }

    /// The safetensors files: one, or the shards that an index lists; empty for a GGUF file. They are memory-mapped,
    /// and read on use.
    ///
    /// # Errors
    /// If a file is missing or cannot be read, or the index is damaged.
    pub fn safetensors(&self) -> Result<Vec<(PathBuf, Bytes)>, ModelError> {
        self.0.safetensors()
    }

    /// The whole GGUF file, or `None` for a folder. It is memory-mapped, and read on use.
    ///
    /// # Errors
    /// If it is missing, cannot be read, or does not start like a GGUF file.
    pub fn gguf(&self) -> Result<Option<Bytes>, ModelError> {
        self.0.gguf_bytes()
    }
}
