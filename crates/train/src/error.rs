//! What can go wrong in training.

use std::io;
use std::path::PathBuf;

use verdigris_decoding::DecodeError;
use verdigris_models::ModelError;
use verdigris_text::{ChatError, ReadError};

/// Why a model could not be trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// What was tried: `read`, `write`.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The corpus is not text.
    #[error("{path} is not UTF-8 text, plain or compressed with zstd")]
    NotText {
        /// Which file.
        path: PathBuf,
    },
    /// The tokenizer has no tokens for the corpus.
    #[error("{path}: {source}")]
    Tokens {
        /// Which file.
        path: PathBuf,
        /// What the tokenizer says.
        source: ReadError,
    },
    /// The corpus is too short to take one window from.
    #[error("{path} has {tokens} tokens, but one training window takes {needed}: use more text or a shorter --window")]
    TooShort {
        /// Which file.
        path: PathBuf,
        /// Its length.
        tokens: usize,
        /// The length of a window with its last target.
        needed: usize,
    },
    /// A prompt that no text can follow.
    #[error("{path}, line {line}: {fault}")]
    Prompts {
        /// The file of prompts.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: String,
    },
    /// A file without prompts.
    #[error("{path} has no prompts: write one a line, or JSON Lines with a field `prompt`")]
    NoPrompts {
        /// The file.
        path: PathBuf,
    },
    /// Prompts are messages to a model that knows no conversations.
    #[error("the target has no chat template: leave out --chat, and it goes on from the prompts as they are")]
    NoChatTemplate,
    /// The target's chat template does not take a prompt.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// A line that is no text, or none of this model.
    #[error("{path}, line {line}: {fault}; texts are those that a run has written beside its head for this target")]
    Texts {
        /// The file of texts.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: String,
    },
    /// A text that this run would not have written.
    #[error(
        "{path}, line {line} was written after another prompt or with another --seed: choose another --out, or remove \
         the file to write all texts anew"
    )]
    ForeignTexts {
        /// The file of texts.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// There is nothing to train on, or nothing to hold out.
    #[error(
        "{texts} texts have two tokens or more after their prompts within --window, but {needed} are needed: give more \
         prompts"
    )]
    TooFewTexts {
        /// How many there are.
        texts: usize,
        /// How many there must be.
        needed: usize,
    },
    /// The target could not write a text.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An option has an impossible value.
    #[error("{name} is {value}, but must be {range}")]
    Option {
        /// Which option.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// The output folder holds a model, and no checkpoint of a run that made it.
    #[error("{path} holds a model already: choose another --out, or train over it with --force")]
    Finished {
        /// The folder.
        path: PathBuf,
    },
    /// The output folder holds the checkpoint of another run.
    #[error(
        "{path} belongs to a run with other settings ({difference}): choose another --out, or remove it to begin anew"
    )]
    ForeignCheckpoint {
        /// The checkpoint.
        path: PathBuf,
        /// How the settings differ.
        difference: String,
    },
    /// The checkpoint is damaged.
    #[error("the checkpoint {path} is damaged ({fault}): remove it to begin anew")]
    DamagedCheckpoint {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// The loss is no longer a number.
    #[error("the loss is not a number after {step} steps: use a lower --learning-rate")]
    Diverged {
        /// Steps done.
        step: u64,
    },
    /// A decoder that is not made of candle's operations here.
    #[error("for training, decoders like Llama's in Hugging Face folders are supported, and this one is another")]
    Architecture,
    /// The model could not be loaded or run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tensor library failed.
    #[error("computation failed: {0}")]
    Compute(#[from] candle_core::Error),
}

impl TrainError {
    /// Turns an I/O error into one that names the file.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
