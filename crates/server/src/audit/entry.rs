//! One line of the audit log.

use jiff::Timestamp;
use serde::Serialize;

use crate::input_marks::InputMark;
use crate::manifests::ManifestField;
use crate::protocol::mark::MarkField;

/// The record of an answer, without text and secrets. `docs/operating.md` describes the fields.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) time: Timestamp,
    pub(crate) request_id: String,
    /// The id in the answer.
    pub(crate) answer_id: String,
    /// The name of the API key; empty if none is required.
    pub(crate) tenant: String,
    pub(crate) endpoint: String,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) outcome: Outcome,
    /// The id of the key for marking the texts.
    pub(crate) key_id: Option<String>,
    pub(crate) scheme: Option<&'static str>,
    /// The marks in the messages or prompts; `None` if they are not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_marks: Option<Vec<InputMark>>,
    pub(crate) prompt_tokens: usize,
    /// The tokens of the texts that have ended.
    pub(crate) completion_tokens: usize,
    pub(crate) texts: Vec<TextEntry>,
}

/// The outcome of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// A stream is about to send its first byte; another line records its end.
    Begun,
    /// The answer is complete. Whether the client received it is unknown.
    Whole,
    /// The mark of a text could not be verified, or the text could not be signed, and the server refuses such texts. A
    /// stream has sent it already.
    Refused,
    /// A stream ended before its texts did: the client disconnected, or something failed.
    Cut,
}

impl Outcome {
    /// The name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Whole => "whole",
            Self::Refused => "refused",
            Self::Cut => "cut",
        }
    }
}

/// One text of an answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TextEntry {
    pub(crate) index: usize,
    /// The mark's status in the answer; `reason` says why the text is not marked.
    pub(crate) watermark: &'static str,
    pub(crate) reason: Option<&'static str>,
    pub(crate) scored_tokens: usize,
    pub(crate) completion_tokens: usize,
    pub(crate) finish_reason: &'static str,
    /// Whether the text could be signed; `None` if it was not to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) c2pa: Option<&'static str>,
}

impl TextEntry {
    pub(crate) fn new(
        index: usize,
        mark: &MarkField,
        tokens: usize,
        finish_reason: &'static str,
        manifest: Option<&ManifestField>,
    ) -> Self {
        let MarkField { status: watermark, reason, scored_tokens, .. } = *mark;
        let c2pa = manifest.map(ManifestField::status);
        Self { index, watermark, reason, scored_tokens, completion_tokens: tokens, finish_reason, c2pa }
    }
}
