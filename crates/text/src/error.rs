//! Why a tokenizer could not be loaded.

/// Why a tokenizer could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A part of the file is no JSON, or not the JSON that the format has there.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: {0}")]
    Json(#[source] serde_json::Error),
    /// The library refuses it.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: {0}")]
    Library(#[source] tokenizers::Error),
    /// The names of its control tokens are too much to look for.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: {0}")]
    Controls(#[source] aho_corasick::BuildError),
    /// The library panicked.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: a part of it is not what the library expects")]
    Panic,
    /// It has no tokens.
    #[error("not a `tokenizer.json` of Hugging Face tokenizers: it has no tokens")]
    Empty,
    /// An id so large that most ids would have no token.
    #[error(
        "not a `tokenizer.json` of Hugging Face tokenizers: {name:?} has the id {id}, beyond {most}, though there are \
         {tokens} tokens"
    )]
    Id {
        /// The token.
        name: String,
        /// Its id.
        id: usize,
        /// The largest id that so many tokens may have.
        most: usize,
        /// How many tokens there are.
        tokens: usize,
    },
}
