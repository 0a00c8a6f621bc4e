//! One line of the audit log.

use jiff::Timestamp;
use serde::Serialize;

use crate::protocol::mark::MarkStatus;

/// What is known of an answer when it ends: neither text nor secrets. `docs/operating.md` has its fields for people.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) time: Timestamp,
    pub(crate) request_id: String,
    /// The id in the answer itself.
    pub(crate) answer_id: String,
    /// The name of the API key; empty where none is needed.
    pub(crate) tenant: String,
    pub(crate) endpoint: String,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) outcome: Outcome,
    /// The key that the texts were to be marked with.
    pub(crate) key_id: Option<String>,
    pub(crate) scheme: Option<&'static str>,
    pub(crate) prompt_tokens: usize,
    /// Of the texts that have ended.
    pub(crate) completion_tokens: usize,
    pub(crate) texts: Vec<TextEntry>,
}

/// How far an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// A stream is about to send its first byte; another line says how it ended.
    Begun,
    /// All of it is written. Whether it was read as well, nobody but its reader knows.
    Whole,
    /// The mark of a text could not be verified, and the server refuses such texts. A stream's client has read it.
    Refused,
    /// A stream ended before its texts did: its reader left, or something failed.
    Cut,
}

impl Outcome {
    /// Its name, as it stands in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Whole => "whole",
            Self::Refused => "refused",
            Self::Cut => "cut",
        }
    }
}

/// One text of an answer, which has ended.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TextEntry {
    pub(crate) index: usize,
    /// As in the answer: what it says about its mark, and why there is none.
    pub(crate) watermark: &'static str,
    pub(crate) reason: Option<&'static str>,
    pub(crate) scored_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) finish_reason: &'static str,
}

impl TextEntry {
    pub(crate) fn new(index: usize, mark: &MarkStatus, tokens: usize, finish_reason: &'static str) -> Self {
        let (reason, scored_tokens) = match mark {
            MarkStatus::Watermarked { scored_tokens, .. } => (None, *scored_tokens),
            MarkStatus::TooWeak { scored_tokens, reason, .. } => (Some(*reason), *scored_tokens),
            MarkStatus::Skipped { reason, .. } | MarkStatus::NotWatermarked { reason } => (Some(*reason), 0),
        };
        Self { index, watermark: mark.name(), reason, scored_tokens, completion_tokens: tokens, finish_reason }
    }
}
