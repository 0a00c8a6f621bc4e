//! Other libraries that compute models.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use verdigris_kernels::Bytes;

use crate::error::ModelError;
use crate::language_model::LanguageModel;
use crate::source::files::{CONFIG, Files};

/// A library that makes rows out of a model's weights, in the place of this crate's decoders. Its name, and where it
/// computes, is what it displays.
///
/// Tokenizer, chat template, and the tokens that end a text are read as for any other model.
pub trait Backend: fmt::Debug + fmt::Display + Send + Sync {
    /// The model of a folder, or of a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Architecture`] for a model type that the library does not have, [`ModelError::Config`] for what it
    /// would compute otherwise than the configuration says, and those of reading files.
    fn model(&self, files: ModelFiles<'_>) -> Result<Arc<dyn LanguageModel>, ModelError>;
}

/// The files of a model, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub struct ModelFiles<'a>(pub(crate) &'a Files);

impl ModelFiles<'_> {
    /// The configuration of a folder, and where it lies.
    ///
    /// # Errors
    /// Where it is missing or cannot be read.
    pub fn config(&self) -> Result<(PathBuf, Cow<'static, [u8]>), ModelError> {
        Ok((self.0.path(CONFIG), self.0.read(CONFIG)?))
    }

    /// The safetensors files: one, or the shards that an index lists; none where the model is a GGUF file. They are
    /// mapped, and read when they are used.
    ///
    /// # Errors
    /// Where one is missing or cannot be read, or the index is damaged.
    pub fn safetensors(&self) -> Result<Vec<(PathBuf, Bytes)>, ModelError> {
        self.0.safetensors()
    }

    /// All of a GGUF file; none where the model is a folder. It is mapped, and read when it is used.
    ///
    /// # Errors
    /// Where it is missing, cannot be read, or does not begin like one.
    pub fn gguf(&self) -> Result<Option<Bytes>, ModelError> {
        self.0.gguf_bytes()
    }
}
