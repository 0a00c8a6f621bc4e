//! Converts between text and tokens, in streams of any length.
//!
//! | module | contents |
//! |---|---|
//! | [`tokenizer`] | text to tokens, at once or from a reader in bounded memory |
//! | [`vocabulary`] | the bytes of each token, and a fingerprint of all of them |
//! | [`stream`] | tokens to text, one at a time |
//! | [`chat`] | conversations as prompts, by a model's own template |
//! | [`calls`] | tool calls in the syntaxes of families of models |
//! | [`reasoning`] | the thoughts of models and their answers |
//! | `bpe` | byte-pair encoding of texts, for the tokenizers that occur most |
//! | `encoder` | our own encoder, or that of the library |
//! | `parts` | checks of a tokenizer's file before the library reads it |
//! | `charsmap` | the replacement table in such a file |
//! | `controls` | control tokens by their names in a text |
//! | `lead` | the space that some tokenizers add before a text |
//! | `library` | calls of the tokenizers library, with its errors and panics |
//! | [`chunks`] | splitting a long text without changing its tokens |
//! | [`shown`](mod@shown) | names and values from files in messages |
//! | [`parallel`] | work on all cores, if available |
#![forbid(unsafe_code)]

mod bpe;
pub mod calls;
mod charsmap;
pub mod chat;
pub mod chunks;
mod controls;
mod encoder;
pub mod error;
mod lead;
mod library;
pub mod parallel;
mod parts;
pub mod reasoning;
pub mod shown;
pub mod stream;
pub mod tokenizer;
pub mod vocabulary;

#[cfg(test)]
#[path = "../../../tests/src/sampled.rs"]
mod sampled;

pub use bpe::ScoredToken;
pub use chat::{ChatError, ChatTemplate, Conversation, Message, Turn};
pub use chunks::{Chunks, ReadError};
pub use error::TokenizerError;
pub use reasoning::{Reasoning, ReasoningSyntax, Section};
pub use shown::shown;
pub use stream::{StreamPart, TextStream};
pub use tokenizer::Tokenizer;
pub use vocabulary::Vocabulary;
