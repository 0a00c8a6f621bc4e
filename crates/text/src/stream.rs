//! Tokens to text, one at a time.

use std::ops::Deref;

use verdigris_logits::TokenId;

use crate::tokenizer::Tokenizer;

/// Turns tokens into text as they arrive. Bytes that do not make a character yet wait for the next token. The tokenizer
/// is borrowed or shared: `&Tokenizer` or `Arc<Tokenizer>`.
#[doc(alias = "TextIteratorStreamer")]
#[doc(alias = "detokenize")]
pub struct TextStream<T> {
    tokenizer: T,
    bytes: Vec<u8>,
    text: String,
}

impl<T: Deref<Target = Tokenizer>> TextStream<T> {
    /// Creates a stream at the start of a text.
    pub fn new(tokenizer: T) -> Self {
        Self { tokenizer, bytes: Vec::new(), text: String::new() }
    }

    /// Takes one token and returns the characters that it completes. Bytes that can no longer become a character are
    /// replaced by U+FFFD.
    pub fn push(&mut self, token: TokenId) -> &str {
        self.bytes.extend_from_slice(self.tokenizer.vocabulary().bytes(token));
        self.text.clear();
        let mut done = 0;
        loop {
            match std::str::from_utf8(&self.bytes[done..]) {
                Ok(rest) => {
                    self.text.push_str(rest);
                    done = self.bytes.len();
                    break;
                }
                Err(error) => {
                    let valid = &self.bytes[done..done + error.valid_up_to()];
                    self.text.push_str(std::str::from_utf8(valid).expect("checked up to here"));
                    done += error.valid_up_to();
                    let Some(bad) = error.error_len() else { break };
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    done += bad;
                }
            }
        }
        self.bytes.drain(..done);
        &self.text
    }

    /// Ends the text; returns U+FFFD for an unfinished character.
    pub fn finish(self) -> &'static str {
        if self.bytes.is_empty() { "" } else { "\u{FFFD}" }
    }
}
