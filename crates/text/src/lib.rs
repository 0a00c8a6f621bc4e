//! Text and tokens: from one to the other and back, in streams of any length.
//!
//! | module | holds |
//! |---|---|
//! | [`tokenizer`] | text to tokens, whole or from a reader in bounded memory |
//! | [`vocabulary`] | the bytes of each token, and the fingerprint of all of them |
//! | [`stream`] | tokens to text, one at a time |
//! | [`chat`] | conversations as prompts, by a model's own template |
//! | `parts` | checks of a tokenizer's file before the library sees it |
//! | `charsmap` | a table of replacements in such a file |
//! | `controls` | control tokens by their names in a text |
//! | `lead` | the space that some tokenizers put before a text |
//! | `library` | what the library of tokenizers makes of a text |
//! | [`chunks`] | cutting a long text where a tokenizer would cut it too |
//! | [`shown`](mod@shown) | names and values of files in messages |
//! | [`parallel`] | work on all cores, where there are some |
#![forbid(unsafe_code)]

mod charsmap;
pub mod chat;
pub mod chunks;
mod controls;
pub mod error;
mod lead;
mod library;
pub mod parallel;
mod parts;
pub mod shown;
pub mod stream;
pub mod tokenizer;
pub mod vocabulary;

pub use chat::{ChatError, ChatTemplate, Conversation, Message};
pub use chunks::{Chunks, ReadError};
pub use error::TokenizerError;
pub use shown::shown;
pub use stream::TextStream;
pub use tokenizer::Tokenizer;
pub use vocabulary::Vocabulary;
