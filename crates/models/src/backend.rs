//! Other libraries that compute models.

use std::fmt;
use std::sync::Arc;

use crate::error::ModelError;
use crate::language_model::LanguageModel;
use crate::source::folder::ModelFolder;

/// A library that makes rows out of a folder's weights, in the place of this crate's decoders. Its name, and where it
/// computes, is what it displays.
///
/// Tokenizer, chat template, and the tokens that end a text are read as for any other model.
pub trait Backend: fmt::Debug + fmt::Display + Send + Sync {
    /// The model of a folder, or of a GGUF file.
    ///
    /// # Errors
    /// [`ModelError::Architecture`] for a model type that the library does not have, [`ModelError::Config`] for what it
    /// would compute otherwise than the configuration says, and those of reading files.
    fn model(&self, folder: &ModelFolder) -> Result<Arc<dyn LanguageModel>, ModelError>;
}
