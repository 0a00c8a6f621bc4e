//! Errors, each with a code.

use serde_json::json;
use verdigris_detector::DetectError;
use verdigris_detector::text::{ReadError, TokenizerError};
use verdigris_detector::watermark::key::BadKeyFile;

use verdigris_detector::MAX_TEXT;

/// An error. Each message has the cause and the remedy, and none contains a part of a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeskError {
    /// The file is not a tokenizer.
    #[error("this is not the tokenizer of a model, which is called tokenizer.json: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The file is not a key.
    #[error("this is not a key that can be used: {0}; choose a file that verdigris key new made")]
    Key(#[from] BadKeyFile),
    /// The key was made for another tokenizer.
    #[error("{0}")]
    ForeignKey(DetectError),
    /// There is no key yet to judge a text with.
    #[error("there is no key yet: choose the key file first")]
    NoKey,
    /// The text is longer than a page accepts.
    #[error("the text has {} bytes, but this page accepts {MAX_TEXT}: verdigris detect reads texts of any length", .0)]
    LongText(usize),
    /// The text cannot be tokenized.
    #[error(transparent)]
    Text(#[from] ReadError),
    /// The text cannot be judged.
    #[error(transparent)]
    Judge(DetectError),
    /// The options are not valid.
    #[error("the options cannot be read: {0}")]
    Wanted(#[from] serde_json::Error),
}

impl DeskError {
    /// The error's code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tokenizer(_) => "not_a_tokenizer",
            Self::Key(_) => "not_a_key",
            Self::ForeignKey(_) => "key_of_another_tokenizer",
            Self::NoKey => "no_key",
            Self::LongText(_) => "text_too_long",
            Self::Text(_) => "text_without_tokens",
            Self::Judge(_) => "cannot_be_judged",
            Self::Wanted(_) => "invalid_value",
        }
    }
}

impl From<DetectError> for DeskError {
    fn from(error: DetectError) -> Self {
        match error {
            DetectError::ForeignKey { .. } => Self::ForeignKey(error),
            DetectError::Read(error) => Self::Text(error),
            error => Self::Judge(error),
        }
    }
}

/// The JSON that JavaScript receives. For a key of another tokenizer it has that tokenizer's fingerprint, since the
/// page may have it.
impl From<DeskError> for String {
    fn from(fault: DeskError) -> Self {
        let mut told = json!({"code": fault.code(), "message": fault.to_string()});
        if let DeskError::ForeignKey(DetectError::ForeignKey { key_fingerprint, .. }) = &fault {
            told["fingerprint"] = key_fingerprint.as_str().into();
        }
        told.to_string()
    }
}
