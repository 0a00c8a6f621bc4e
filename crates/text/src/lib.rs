//! Text and tokens: from one to the other and back, in streams of any length.
//!
//! | module | holds |
//! |---|---|
//! | [`tokenizer`] | text to tokens, whole or from a reader in bounded memory |
//! | [`vocabulary`] | the bytes of each token, and the fingerprint of all of them |
//! | [`stream`] | tokens to text, one at a time |
//! | [`chat`] | conversations as prompts, by a model's own template |
//! | `controls` | control tokens by their names in a text |
//! | [`pieces`] | cutting a long text where a tokenizer would cut it too |
#![forbid(unsafe_code)]

pub mod chat;
mod controls;
pub mod error;
pub mod pieces;
pub mod stream;
pub mod tokenizer;
pub mod vocabulary;

pub use chat::{ChatError, ChatTemplate, Message};
pub use error::TokenizerError;
pub use pieces::{Pieces, ReadError};
pub use stream::TextStream;
pub use tokenizer::Tokenizer;
pub use vocabulary::Vocabulary;
