//! What can go wrong when a text is judged.

use verdigris_constrain::Departure;
use verdigris_text::ReadError;
use verdigris_watermark::KeyError;

/// What cannot be done with a text that is read as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LongText {
    /// It was to be judged under several keys.
    #[error("such a text is judged under one key at a time")]
    SeveralKeys,
    /// Passages or offsets were asked for.
    #[error("windows, offsets and reports need a shorter text")]
    Passages,
    /// Its constraint was given.
    #[error("the form of such a text cannot be taken into account")]
    Form,
}

/// Why a text could not be judged. Each message is one line that names the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The text could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The text does not obey the constraint that the reader was given.
    #[error("{0}; judge it without the form, or with what it was written with")]
    Form(#[from] Departure),
    /// The text is longer than [`MAX_TEXT`](crate::MAX_TEXT), and what was asked for needs all of it at once.
    #[error("it is longer than 16 MiB: {0}")]
    Long(#[from] LongText),
    /// A text was to be judged under no key.
    #[error("there is no key to judge by: give at least one")]
    NoKey,
    /// The key was made for another tokenizer than the one at hand.
    #[error(
        "the key {id} was made for a vocabulary of {key_size} tokens ({key_fingerprint:.8}{}), but this tokenizer has \
         {size} ({fingerprint:.8}): choose the model that goes with the key",
        .key_model.as_ref().map_or(String::new(), |model| format!(", that of {model}"))
    )]
    ForeignKey {
        /// The key's id.
        id: String,
        /// The name of the model that it was made for, where that is known.
        key_model: Option<String>,
        /// The size of the key's vocabulary.
        key_size: usize,
        /// Its fingerprint.
        key_fingerprint: String,
        /// The size of the vocabulary at hand.
        size: usize,
        /// Its fingerprint.
        fingerprint: String,
    },
}
