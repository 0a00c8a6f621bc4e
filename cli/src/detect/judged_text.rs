//! A judged text.

use serde_json::Value;
use verdigris::detector::report::Content;
use verdigris::{Judgement, Outcome};

use crate::error::Failure;

/// A text with its judgement, or the reason why it could not be judged.
pub(super) struct JudgedText<'k> {
    pub(super) name: String,
    pub(super) id: Option<Value>,
    pub(super) text: String,
    /// The hash of the text, if it was requested and all of the text was read.
    pub(super) content: Option<Content>,
    pub(super) result: Result<Judgement<'k>, Failure>,
}

impl JudgedText<'_> {
    /// The class of the verdict; `None` where the text could not be judged.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.result.as_ref().ok().map(Judgement::outcome)
    }
}
