//! Tokens to text, one at a time.

use std::ops::Deref;

use verdigris_logits::TokenId;

use crate::tokenizer::Tokenizer;
use crate::vocabulary::Vocabulary;

/// A part of the text of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPart<'s> {
    /// Whole characters: at least one.
    Text(&'s str),
    /// The name of a control token.
    Control(&'s str),
}

impl StreamPart<'_> {
    /// Appends the part as a grammar spells it: see [`Vocabulary::spelling`].
    pub fn spell(self, to: &mut Vec<u8>) {
        match self {
            Self::Text(text) => to.extend_from_slice(text.as_bytes()),
            Self::Control(name) => to.extend(Vocabulary::spell_control(name)),
        }
    }
}

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
    /// replaced by U+FFFD. Control tokens have no characters.
    pub fn push(&mut self, token: TokenId) -> &str {
        self.bytes.extend_from_slice(self.tokenizer.vocabulary().bytes(token));
        self.characters()
    }

    /// As [`TextStream::push`], for bytes of the text.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> &str {
        self.bytes.extend_from_slice(bytes);
        self.characters()
    }

    /// Takes the whole characters from the bytes.
    fn characters(&mut self) -> &str {
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

    /// Takes one token and returns the characters that it completes, or its name if it is a control token. Since a
    /// control token separates the texts around it, an unfinished character before it is replaced by U+FFFD.
    pub fn push_parts(&mut self, token: TokenId) -> impl Iterator<Item = StreamPart<'_>> {
        let is_control = self.tokenizer.vocabulary().control(token).is_some();
        let is_broken = is_control && !self.bytes.is_empty();
        self.push(token);
        if is_broken {
            self.bytes.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        let text = Some(&*self.text).filter(|text| !text.is_empty());
        let control = self.tokenizer.vocabulary().control(token);
        text.map(StreamPart::Text).into_iter().chain(control.map(StreamPart::Control))
    }

    /// Ends the text; returns U+FFFD for an unfinished character.
    pub fn finish(self) -> &'static str {
        if self.bytes.is_empty() { "" } else { "\u{FFFD}" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_tokens_are_parts_of_their_own() {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Tokenizer::from_json(json).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let byte = |b: u8| (0..vocabulary.size() as u32).find(|&t| vocabulary.bytes(t) == [b]).unwrap();
        let name = "<|endoftext|>";
        let end = tokenizer.id(name).unwrap();
        let mut stream = TextStream::new(&tokenizer);
        let (the, control) = (StreamPart::Text(" the"), StreamPart::Control(name));
        let mut spelled = Vec::new();
        for (token, expected) in [
            (tokenizer.encode(" the").unwrap()[0], vec![the]),
            (end, vec![control]),
            (byte(0xC3), vec![]),
            (byte(0xA9), vec![StreamPart::Text("é")]),
            (byte(0xC3), vec![]),
            (end, vec![StreamPart::Text("\u{FFFD}"), control]),
            (byte(b'a'), vec![StreamPart::Text("a")]),
            (byte(0xC3), vec![]),
        ] {
            let parts: Vec<StreamPart<'_>> = stream.push_parts(token).collect();
            parts.iter().for_each(|part| part.spell(&mut spelled));
            assert_eq!(parts, expected);
        }
        assert_eq!(stream.finish(), "\u{FFFD}");
        // A grammar spells the text the same way.
        assert_eq!(spelled, tokenizer.spell(&format!(" the{name}é\u{FFFD}{name}a")));
    }
}
