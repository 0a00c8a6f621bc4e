//! What can go wrong, each with a name.

use serde_json::json;
use verdigris_detector::DetectError;
use verdigris_detector::text::{ReadError, TokenizerError};
use verdigris_detector::watermark::key::BadKeyFile;

use verdigris_detector::MAX_TEXT;

/// What can go wrong. Each message names the cause and the cure, and none has a part of a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A file that is no tokenizer.
    #[error("this is not the tokenizer of a model, which is called tokenizer.json: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// A file that is no key.
    #[error("this is not a key that can be used: {0}; choose the file that verdigris key new made")]
    Key(#[from] BadKeyFile),
    /// A key that was made for another tokenizer.
    #[error("{0}")]
    ForeignKey(DetectError),
    /// A text was to be judged before there was a key.
    #[error("there is no key yet: choose the key file first")]
    NoKey,
    /// A text beyond what a page takes.
    #[error("the text has {} bytes, and this page takes {MAX_TEXT}: verdigris detect reads texts of any length", .0)]
    LongText(usize),
    /// The tokenizer does not take the text.
    #[error(transparent)]
    Text(#[from] ReadError),
    /// The text cannot be judged.
    #[error(transparent)]
    Judge(DetectError),
    /// How to look is not what it must be.
    #[error("how to look cannot be read: {0}")]
    Wanted(#[from] serde_json::Error),
}

impl Fault {
    /// Its name, for programs.
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

impl From<DetectError> for Fault {
    fn from(error: DetectError) -> Self {
        match error {
            DetectError::ForeignKey { .. } => Self::ForeignKey(error),
            DetectError::Read(error) => Self::Text(error),
            error => Self::Judge(error),
        }
    }
}

/// As JavaScript gets it. A key of another tokenizer says whose it is: the page may have that one.
impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        let mut told = json!({"code": fault.code(), "message": fault.to_string()});
        if let Fault::ForeignKey(DetectError::ForeignKey { key_fingerprint, .. }) = &fault {
            told["fingerprint"] = key_fingerprint.as_str().into();
        }
        told.to_string()
    }
}
