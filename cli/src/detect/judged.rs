//! A judged text and its outcome.

use serde_json::Value;
use verdigris::Judgement;

use crate::error::Failure;

/// A text that was judged, or why it was not.
pub(super) struct Judged<'k> {
    pub(super) name: String,
    pub(super) id: Option<Value>,
    pub(super) text: String,
    pub(super) result: Result<Judgement<'k>, Failure>,
}

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Marked,
    /// A passage of it is marked, the text as a whole is not.
    MarkedInPart,
    NotMarked,
    /// It is not, and would not be if it were marked: it left too little choice.
    NotEnough,
    TooShort,
    Faulty,
}
