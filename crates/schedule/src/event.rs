//! Events of a text that is being written.

use verdigris_decoding::{DecodeError, Provenance};
use verdigris_logits::TokenId;

use crate::ended::Ended;

/// An event of a text, for every reader from the loop to a stream of HTTP: the type of its parts is that of tokens,
/// later that of strings. First comes [`Event::Begun`], last either [`Event::End`] or [`Event::Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<T, E, F> {
    /// The text has had its turn and memory, and its prompt is read from now on.
    Begun,
    /// The next part of the thought before the text. Texts of tokens have no sections.
    Reasoning(T),
    /// The next part of the text.
    Text(T),
    /// The end of the text.
    End(E),
    /// The text cannot begin or continue.
    Failed(F),
}

impl<T, E, F> Event<T, E, F> {
    /// The same event with another type of text.
    pub fn map_text<U>(self, map: impl FnOnce(T) -> U) -> Event<U, E, F> {
        match self {
            Self::Begun => Event::Begun,
            Self::Reasoning(text) => Event::Reasoning(map(text)),
            Self::Text(text) => Event::Text(map(text)),
            Self::End(end) => Event::End(end),
            Self::Failed(failed) => Event::Failed(failed),
        }
    }

    /// The same event with another type of failure.
    pub fn map_failed<U>(self, map: impl FnOnce(F) -> U) -> Event<T, E, U> {
        match self {
            Self::Begun => Event::Begun,
            Self::Reasoning(text) => Event::Reasoning(text),
            Self::Text(text) => Event::Text(text),
            Self::End(end) => Event::End(end),
            Self::Failed(failed) => Event::Failed(map(failed)),
        }
    }
}

/// An event of a text of tokens, each with its provenance.
pub type TokenEvent = Event<(TokenId, Provenance), Ended, DecodeError>;
