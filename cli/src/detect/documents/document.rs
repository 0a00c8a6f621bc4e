//! A text to be judged, or why it could not be had.

use std::io::{self, Read};

/// No text is held that is longer; one by itself in a file is then read as a stream.
pub(crate) const MAX_TEXT: u64 = verdigris::MAX_TEXT as u64;

/// A text with a name, or why it could not be had.
pub(crate) struct Document {
    pub(crate) name: String,
    /// What the text's own record calls it.
    pub(crate) id: Option<serde_json::Value>,
    pub(crate) text: Result<Text, Fault>,
}

pub(crate) enum Text {
    Whole(String),
    /// Longer than [`MAX_TEXT`].
    Long(Box<dyn Read + Send>),
}

impl Text {
    /// The text of a record, which is not read as a stream.
    pub(super) fn of_record(text: String) -> Result<Self, Fault> {
        if text.len() as u64 > MAX_TEXT {
            return Err(Fault::Text(format!("it is longer than {} MiB: detect it by itself", MAX_TEXT >> 20)));
        }
        Ok(Self::Whole(text))
    }
}

/// Why a text could not be had; the text's name is not in it.
#[derive(Debug)]
pub(crate) enum Fault {
    /// There is nothing to read.
    Open(io::Error),
    /// What was read is no text.
    Text(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Text(fault) => f.write_str(fault),
        }
    }
}

impl Document {
    pub(super) fn faulty(name: String, fault: impl std::fmt::Display) -> Self {
        Self { name, id: None, text: Err(Fault::Text(fault.to_string())) }
    }

    /// The bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        match &self.text {
            Ok(Text::Whole(text)) => text.len(),
            Ok(Text::Long(_)) => MAX_TEXT as usize,
            Err(_) => 0,
        }
    }
}

/// Which fields of records are read.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub(crate) text: String,
    pub(crate) id: String,
    /// Whether the field of the text was named, which says that there are records.
    pub(crate) named: bool,
}
