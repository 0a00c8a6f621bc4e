//! A text to judge, or the reason why it could not be read.

use std::io::{self, Read};

/// The longest text that is held in memory. A file that is one longer text is read as a stream.
pub(crate) const MAX_TEXT: u64 = verdigris::MAX_TEXT as u64;

/// A text with a name, or the reason why it could not be read.
pub(crate) struct Document {
    pub(crate) name: String,
    /// The id in the text's record.
    pub(crate) id: Option<serde_json::Value>,
    pub(crate) text: Result<DocumentText, DocumentError>,
}

pub(crate) enum DocumentText {
    Whole(String),
    /// Longer than [`MAX_TEXT`].
    Long(Box<dyn Read + Send>),
}

/// The text of a record, or the reason why it is not held in memory: it is not read as a stream.
pub(super) fn of_record(text: String) -> Result<String, String> {
    match text.len() as u64 {
        0..=MAX_TEXT => Ok(text),
        _ => Err(format!("it is longer than {} MiB: put it into its own file", MAX_TEXT >> 20)),
    }
}

/// The reason why a text could not be read, without its name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    /// The file cannot be opened.
    #[error("{0}")]
    Open(io::Error),
    /// The content is not text.
    #[error("{0}")]
    Text(String),
}

impl Document {
    pub(super) fn faulty(name: String, fault: impl std::fmt::Display) -> Self {
        Self { name, id: None, text: Err(DocumentError::Text(fault.to_string())) }
    }

    /// The bytes of text in memory.
    pub(crate) fn size(&self) -> usize {
        match &self.text {
            Ok(DocumentText::Whole(text)) => text.len(),
            Ok(DocumentText::Long(_)) => MAX_TEXT as usize,
            Err(_) => 0,
        }
    }
}

/// The fields of records that are read.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) text: String,
    pub(crate) id: String,
    /// Whether the field of the text was given, which implies that files hold records.
    pub(crate) named: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self { text: "text".into(), id: "id".into(), named: false }
    }
}
