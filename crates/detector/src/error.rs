//! Errors of judging a text.

use verdigris_constrain::Departure;
use verdigris_text::ReadError;
use verdigris_watermark::KeyError;

/// An option that does not work with a text that is read as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LongText {
    /// Several keys were given.
    #[error("a text of this length can be judged under only one key")]
    SeveralKeys,
    /// Passages or offsets were requested.
    #[error("windows, offsets and reports need a shorter text")]
    Passages,
    /// A constraint was given.
    #[error("the constraint of a text of this length cannot be taken into account")]
    Constraint,
}

/// The reason why a text could not be judged. Each message is one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The text could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The text breaks the reader's constraint.
    #[error("{0}; judge it without the constraint, or with the one that it was written with")]
    Constraint(#[from] Departure),
    /// The text is longer than [`MAX_TEXT`](crate::MAX_TEXT), and an option needs all of it at once.
    #[error("it is longer than 16 MiB: {0}")]
    Long(#[from] LongText),
    /// No key was given.
    #[error("there is no key to judge by: give at least one")]
    NoKey,
    /// The key was made for another tokenizer than the reader's.
    #[error(
        "the key {id} was made for a vocabulary of {key_size} tokens ({key_fingerprint:.8}{}), but this tokenizer has \
         {size} ({fingerprint:.8}): choose the model that goes with the key",
        .key_model.as_ref().map_or(String::new(), |model| format!(", that of {model}"))
    )]
    ForeignKey {
        /// The key's id.
        id: String,
        /// The name of the model that the key was made for, if known.
        key_model: Option<String>,
        /// The size of the key's vocabulary.
        key_size: usize,
        /// Its fingerprint.
        key_fingerprint: String,
        /// The size of the reader's vocabulary.
        size: usize,
        /// Its fingerprint.
        fingerprint: String,
    },
}
