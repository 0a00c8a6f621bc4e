//! The reasons why a tokenizer could not be loaded.

use crate::shown::shown;

/// The reason why a tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A part of the file is not JSON, or not the JSON that the format requires.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: {}", shown(&.0.to_string()))]
    Json(#[source] serde_json::Error),
    /// The library refused it.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: {}", shown(&.0.to_string()))]
    Library(#[source] tokenizers::Error),
    /// The names of its control tokens are too large to search for.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: {0}")]
    Controls(#[source] aho_corasick::BuildError),
    /// The library panicked.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: a part of it is not what the library expects")]
    Panic,
    /// Its steps before the model make a text too long.
    #[error(
        "its normalizer and pre_tokenizer can make a text {growth} times longer, and {most} times is allowed: leave \
         out steps that insert text (Replace, Prepend)"
    )]
    Growth {
        /// The factor by which a text may grow.
        growth: u64,
        /// The maximum factor.
        most: u64,
    },
    /// A table of replacements is damaged.
    #[error("the precompiled_charsmap of its normalizer is damaged ({0}): download or copy the file again")]
    Charsmap(String),
    /// The template around a text is invalid.
    #[error("the TemplateProcessing of its post_processor cannot be used: {0}; correct the file or take another")]
    Template(String),
    /// It has no tokens.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: it has no tokens")]
    Empty,
    /// An id is so large that most ids would have no token.
    #[error(
        "not a `tokenizer.json` of Hugging Face tokenizers: {:?} has the id {id}, beyond {most}, though there are \
         {tokens} tokens",
        shown(name)
    )]
    Id {
        /// The token.
        name: String,
        /// Its id.
        id: usize,
        /// The largest id allowed for this number of tokens.
        most: usize,
        /// The number of tokens.
        tokens: usize,
    },
}
