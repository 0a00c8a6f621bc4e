//! Errors of training.

use std::io;
use std::path::PathBuf;

use verdigris_decoding::DecodeError;
use verdigris_models::ModelError;
use verdigris_text::{ChatError, ReadError};

/// The reason why a model could not be trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// The action that failed: `read`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The corpus is not text.
    #[error("{path} is not UTF-8 text, plain or compressed with zstd")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The corpus cannot be tokenized.
    #[error("{path}: {source}")]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The tokenizer's error.
        source: ReadError,
    },
    /// The corpus is shorter than one window.
    #[error("{path} has {tokens} tokens, but one training window takes {needed}: use more text or a shorter --window")]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length.
        tokens: usize,
        /// The length of a window with its last target.
        needed: usize,
    },
    /// A line that is not a prompt, or a prompt that no text can follow.
    #[error("{path}, line {line}: {fault}")]
    Prompts {
        /// The file of prompts.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        fault: String,
    },
    /// A file without prompts.
    #[error("{path} has no prompts: write one a line, or JSON Lines with a field `prompt`")]
    NoPrompts {
        /// The file.
        path: PathBuf,
    },
    /// Prompts should be messages, but the target has no chat template.
    #[error("the target has no chat template: leave out --chat, and it continues the prompts unchanged")]
    NoChatTemplate,
    /// The target's chat template rejects a prompt.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// A line that is not a text of this target.
    #[error("{path}, line {line}: {fault}; texts are those that a run has written next to its head for this target")]
    Texts {
        /// The file of texts.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        fault: String,
    },
    /// A text that this run would not have written.
    #[error(
        "{path}, line {line} was written after another prompt or with another --seed: choose another --out, or remove \
         the file to write all texts again"
    )]
    ForeignTexts {
        /// The file of texts.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// There are too few texts to train on some and to hold out others.
    #[error(
        "{texts} texts have two tokens or more after their prompts within --window, but {needed} are needed: give more \
         prompts"
    )]
    TooFewTexts {
        /// The number of texts.
        texts: usize,
        /// The number of texts needed.
        needed: usize,
    },
    /// The target could not write a text.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An option has an impossible value.
    #[error("{name} is {value}, but must be {range}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The allowed values.
        range: &'static str,
    },
    /// The output folder holds a model, but no checkpoint of the run that made it.
    #[error("{path} holds a model already: choose another --out, or train over it with --force")]
    Finished {
        /// The folder.
        path: PathBuf,
    },
    /// The output folder holds the checkpoint of another run.
    #[error(
        "{path} belongs to a run with other settings ({difference}): choose another --out, or remove it to begin again"
    )]
    ForeignCheckpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The difference of the settings.
        difference: String,
    },
    /// The checkpoint is damaged.
    #[error("the checkpoint {path} is damaged ({fault}): remove it to begin again")]
    DamagedCheckpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The problem.
        fault: String,
    },
    /// The loss is no longer a number.
    #[error("the loss is not a number after {step} steps: use a lower --learning-rate")]
    Diverged {
        /// Steps done.
        step: u64,
    },
    /// A decoder that cannot be built from candle's operations here.
    #[error("for training, decoders like Llama's in Hugging Face folders are supported, and this one is another")]
    Architecture,
    /// A target whose logits heads are not trained for.
    #[error("a draft head cannot be trained for a model that scales its logits (logit_scale, logits_scaling)")]
    ScaledLogits,
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
