//! Converts text to tokens.

use std::io::Read;
use std::ops::Range;

use verdigris_logits::TokenId;

use crate::bpe::ScoredToken;
use crate::chunks::{Chunks, ReadError};
use crate::controls::{Control, Controls, TextPart};
use crate::encoder::Encoder;
use crate::error::TokenizerError;
use crate::parallel::try_map;
use crate::vocabulary::Vocabulary;

/// The number of chunks that are tokenized concurrently, which bounds the memory of reading to a few MiB.
const IN_FLIGHT: usize = 16;

/// A tokenizer and its vocabulary.
#[derive(Debug)]
pub struct Tokenizer {
    encoder: Encoder,
    vocabulary: Vocabulary,
    controls: Controls,
}

impl Tokenizer {
    /// Parses the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`TokenizerError`] names the part that cannot be read.
    pub fn from_json(json: &[u8]) -> Result<Self, TokenizerError> {
        let (encoder, vocabulary) = Encoder::read(json)?;
        Self::of(encoder, vocabulary)
    }

    /// Makes a tokenizer of pieces whose merges follow from scores, as in SentencePiece. `json` is the `tokenizer.json`
    /// without them: its model has neither tokens nor merges. Returns `None` for a tokenizer that can only be given as
    /// a whole `tokenizer.json`, to [`Tokenizer::from_json`].
    pub fn from_scores(json: &[u8], tokens: &[ScoredToken<'_>]) -> Option<Self> {
        let (encoder, vocabulary) = Encoder::of_scores(json, tokens)?;
        Self::of(encoder, vocabulary).ok()
    }

    fn of(encoder: Encoder, vocabulary: Vocabulary) -> Result<Self, TokenizerError> {
        let special = encoder.added().into_iter().filter(|(_, token)| token.special);
        let control = |(id, token): (TokenId, tokenizers::AddedToken)| Control {
            id,
            name: token.content,
            strips_before: token.lstrip,
            strips_after: token.rstrip,
        };
        let controls = Controls::new(special.map(control).collect());
        let controls = controls.map_err(TokenizerError::Controls)?;
        Ok(Self { encoder, vocabulary, controls })
    }

    /// The bytes of all tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Whether the first token of a text may begin with a space that is not in the text, as with SentencePiece.
    #[doc(alias = "add_prefix_space")]
    #[doc(alias = "add_dummy_prefix")]
    pub fn adds_space(&self) -> bool {
        self.encoder.adds_space(&self.vocabulary)
    }

    /// The id of a token by its name in the tokenizer, such as `<|endoftext|>`.
    pub fn id(&self, name: &str) -> Option<TokenId> {
        self.encoder.id(name)
    }

    /// Returns the tokens of a text. Control tokens are neither added nor recognised.
    ///
    /// # Errors
    ///
    /// If the tokenizer has no token for a part of the text, and no unknown token.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>, ReadError> {
        self.encoder.ids(text, true, &self.vocabulary)
    }

    /// Returns the tokens of a text, each with the range of its bytes in the text. A token that holds part of a
    /// character has the range of the whole character.
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::encode`].
    #[doc(alias = "return_offsets_mapping")]
    pub fn encode_with_offsets(&self, text: &str) -> Result<Vec<(TokenId, Range<usize>)>, ReadError> {
        // In chunks, like a reader, since the library's data for a token takes a hundred times its bytes.
        let (mut all, mut before) = (Vec::new(), 0);
        for chunk in Chunks::new(text.as_bytes()) {
            let chunk = chunk?;
            let tokens = self.encoder.offsets(&chunk, before == 0, &self.vocabulary)?.into_iter();
            all.extend(tokens.map(|(id, Range { start, end })| (id, before + start..before + end.max(start))));
            before += chunk.len();
        }
        Ok(all)
    }

    /// Returns the tokens of a text of any length, computed on all cores: the same as [`Tokenizer::encode_reader`]
    /// gives.
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::encode`].
    pub fn encode_long(&self, text: &str) -> Result<Vec<TokenId>, ReadError> {
        let mut all = Vec::new();
        self.encode_reader(text.as_bytes(), |_, tokens| all.extend_from_slice(tokens))?;
        Ok(all)
    }

    /// Returns the tokens of a prompt: those of the text, with the control tokens around it that the tokenizer's own
    /// template adds (in many families, a begin-of-text token).
    ///
    /// # Errors
    ///
    /// Those of [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str) -> Result<Vec<TokenId>, ReadError> {
        self.encoder.prompt(text)
    }

    /// Returns the tokens of a text in which the names of control tokens represent them, such as a rendered chat
    /// template. Names that must stay text are broken up by `guard`, which is removed.
    pub(crate) fn encode_with_controls(&self, text: &str, guard: char) -> Result<Vec<TokenId>, ReadError> {
        let (mut tokens, mut is_first) = (Vec::new(), true);
        for part in self.controls.parts(text, guard) {
            match part {
                TextPart::Control(id) => tokens.push(id),
                TextPart::Text(text) => {
                    let text = text.replace(guard, "");
                    tokens.extend(self.encoder.ids(&text, is_first, &self.vocabulary)?);
                }
            }
            is_first = !self.encoder.leads_only_first();
        }
        Ok(tokens)
    }

    /// Returns a text as a grammar spells it: the names of control tokens are replaced by their
    /// [spellings](Vocabulary::spelling).
    pub fn spell(&self, text: &str) -> Vec<u8> {
        // No text of a grammar is guarded.
        let parts = self.controls.parts(text, '\u{FDD0}').into_iter();
        parts
            .flat_map(|part| match part {
                TextPart::Control(id) => self.vocabulary.spelling(id),
                TextPart::Text(text) => text.as_bytes(),
            })
            .copied()
            .collect()
    }

    /// The control tokens.
    pub(crate) fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Decodes tokens to text; invalid bytes become U+FFFD.
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| self.vocabulary.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Tokenizes the text of a reader on all cores, in bounded memory, and passes each chunk and its tokens to `each`
    /// in order.
    ///
    /// # Errors
    ///
    /// If the reader fails or its bytes are not UTF-8, and those of [`Tokenizer::encode`].
    pub fn encode_reader(&self, reader: impl Read, mut each: impl FnMut(&str, &[TokenId])) -> Result<(), ReadError> {
        let (mut chunks, mut is_first) = (Chunks::new(reader), true);
        loop {
            let (mut texts, mut fault) = (Vec::with_capacity(IN_FLIGHT), None);
            for chunk in chunks.by_ref().take(IN_FLIGHT) {
                match chunk {
                    Ok(text) => texts.push((text, std::mem::take(&mut is_first))),
                    Err(error) => {
                        fault = Some(error);
                        break;
                    }
                }
            }
            let tokens = try_map(&texts, |(text, is_first)| self.encoder.ids(text, *is_first, &self.vocabulary))?;
            texts.iter().zip(&tokens).for_each(|((text, _), tokens)| each(text, tokens));
            match fault {
                Some(fault) => return Err(fault),
                None if texts.len() < IN_FLIGHT => return Ok(()),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::TextStream;

    fn tale() -> Tokenizer {
        Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json")).unwrap()
    }

    #[test]
    fn text_survives_the_way_there_and_back() {
        let tokenizer = tale();
        let text = "It was a dark night -- über \u{1F600}\u{200D} naïve\n\n\"Go!\" <|endoftext|> ok";
        let tokens = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&tokens), text);
        assert!(!tokens.contains(&tokenizer.id("<|endoftext|>").unwrap()), "control tokens never come from text");
        let mut stream = TextStream::new(&tokenizer);
        let streamed: String = tokens.iter().map(|&token| stream.push(token).to_owned()).collect();
        assert_eq!(streamed + stream.finish(), text);
    }

    /// After control tokens there is a space where the library adds one.
    #[test]
    fn a_space_is_added_where_the_library_adds_it() {
        let special = |id: u32, name: &str| {
            json!({"id": id, "content": name, "special": true, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false})
        };
        for scheme in ["first", "always", "never"] {
            let vocab = json!({"<s>": 0, "</s>": 1, "\u{2581}": 2, "a": 3, "b": 4, "\u{2581}a": 5});
            let step =
                json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": scheme, "split": false});
            for (kind, vocab) in [
                (
                    "BPE",
                    json!({"vocab": vocab, "merges": [["\u{2581}", "a"]], "byte_fallback": true, "unk_token": "</s>"}),
                ),
                (
                    "Unigram",
                    json!({"vocab": [["<s>", 0], ["</s>", 0], ["\u{2581}", -1], ["a", -2], ["b", -2], ["\u{2581}a", -1]],
                        "unk_id": 1}),
                ),
            ] {
                let mut model = vocab;
                model["type"] = kind.into();
                let file = json!({"added_tokens": [special(0, "<s>"), special(1, "</s>")], "pre_tokenizer": step,
                    "decoder": step, "model": model});
                let file = file.to_string();
                let library: tokenizers::Tokenizer = file.parse().unwrap();
                let ours = Tokenizer::from_json(file.as_bytes()).unwrap();
                for text in ["<s>ab</s>ab", "ab<s>ab", "<s><s>ab", "ab", "</s>ab<s>"] {
                    let expected = library.encode_fast(text, false).unwrap();
                    let got = ours.encode_with_controls(text, '\u{FDD0}').unwrap();
                    assert_eq!(got, expected.get_ids(), "{scheme} {kind} {text}");
                }
            }
        }
    }

    /// Dropout of merges is for training.
    #[test]
    fn a_text_has_the_same_tokens_whenever_it_is_read() {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let mut file: Value = serde_json::from_slice(json).unwrap();
        file["model"]["dropout"] = 0.9.into();
        let dropping = Tokenizer::from_json(file.to_string().as_bytes()).unwrap();
        let text = "The captain stood at the window, and the ship lay in the harbour.";
        for _ in 0..20 {
            assert_eq!(dropping.encode(text).unwrap(), tale().encode(text).unwrap());
        }
    }

    #[test]
    fn tokens_know_their_places() {
        let tokenizer = tale();
        let text = "The naïve captain — über all, \u{1F600} he said.\n\nNew line";
        let offsets = tokenizer.encode_with_offsets(text).unwrap();
        assert_eq!(offsets.iter().map(|(token, _)| *token).collect::<Vec<_>>(), tokenizer.encode(text).unwrap());
        for (token, range) in &offsets {
            let bytes = tokenizer.vocabulary().bytes(*token);
            let written = &text.as_bytes()[range.clone()];
            assert!(written == bytes || written.windows(bytes.len()).any(|part| part == bytes), "{range:?}");
        }
        assert_eq!(offsets.last().unwrap().1.end, text.len());
    }

    #[test]
    fn a_stream_waits_for_characters_and_gives_up_on_broken_ones() {
        let tokenizer = tale();
        let vocabulary = tokenizer.vocabulary();
        let byte = |b: u8| (0..vocabulary.size() as u32).find(|&t| vocabulary.bytes(t) == [b]).unwrap();
        let mut stream = TextStream::new(&tokenizer);
        assert_eq!(stream.push(byte(0xF0)), "");
        assert_eq!(stream.push(byte(0x9F)), "");
        assert_eq!(stream.push(byte(0x98)), "");
        assert_eq!(stream.push(byte(0x80)), "\u{1F600}");
        assert_eq!(stream.push(byte(0xE2)), "");
        assert_eq!(stream.push(byte(b'a')), "\u{FFFD}a");
        assert_eq!(stream.push(byte(0xE2)), "");
        assert_eq!(stream.finish(), "\u{FFFD}");
    }

    #[test]
    fn reading_in_chunks_changes_no_token() {
        let tokenizer = tale();
        let text = include_str!("chunks.rs").repeat(60);
        let mut tokens = Vec::new();
        let mut read = String::new();
        tokenizer
            .encode_reader(text.as_bytes(), |text, ids| {
                read.push_str(text);
                tokens.extend_from_slice(ids);
            })
            .unwrap();
        assert_eq!(read, text);
        assert!(text.len() > 200_000);
        assert!(tokens == tokenizer.encode(&text).unwrap());
    }

    #[test]
    fn the_vocabulary_is_known_to_the_byte() {
        let tokenizer = tale();
        let vocabulary = tokenizer.vocabulary();
        assert_eq!(vocabulary.size(), 4096);
        assert!(vocabulary.is_special(0) && vocabulary.bytes(0).is_empty());
        assert_eq!(vocabulary.bytes(tokenizer.id("Ġthe").unwrap()), b" the");
        assert!(vocabulary.bytes(1_000_000).is_empty() && !vocabulary.is_special(1_000_000));
        assert_eq!(vocabulary.fingerprint().len(), 32);
    }

    #[test]
    fn faults_are_errors() {
        for bad in [&b""[..], b"{}", b"\xff", b"[[[[", br#"{"model":{"type":"BPE"}}"#] {
            assert!(Tokenizer::from_json(bad).is_err());
        }
    }

    /// A tokenizer of whole words.
    fn words(vocabulary: &Value, unknown: &str) -> Result<Tokenizer, TokenizerError> {
        let json = serde_json::json!({
            "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": unknown},
        });
        Tokenizer::from_json(&serde_json::to_vec(&json).unwrap())
    }

    #[test]
    fn a_word_without_a_token_is_an_error() {
        let tokenizer = words(&serde_json::json!({"hello": 0, "world": 1}), "<unk>").unwrap();
        assert_eq!(tokenizer.encode("hello world").unwrap(), [0, 1]);
        let text = "hello strange world";
        let reader = tokenizer.encode_reader(text.as_bytes(), |_, _| panic!("a part of it is read"));
        let faults = [
            tokenizer.encode(text).unwrap_err(),
            tokenizer.encode_prompt(text).unwrap_err(),
            tokenizer.encode_long(text).unwrap_err(),
            tokenizer.encode_with_offsets(text).unwrap_err(),
            tokenizer.encode_with_controls(text, '\u{FDD0}').unwrap_err(),
            reader.unwrap_err(),
        ];
        for fault in faults {
            assert!(matches!(&fault, ReadError::NoTokens { .. }), "{fault}");
        }
        let tokenizer = words(&serde_json::json!({"hello": 0, "world": 1, "<unk>": 2}), "<unk>").unwrap();
        assert_eq!(tokenizer.encode(text).unwrap(), [0, 2, 1]);
    }

    #[test]
    fn ids_far_beyond_the_tokens_are_errors() {
        for id in [4_000_000_000u32, u32::MAX, 1 << 24] {
            let fault = words(&serde_json::json!({"hello": 0, "zzz": id}), "zzz").unwrap_err().to_string();
            assert!(fault.contains(&format!("\"zzz\" has the id {id}")), "{fault}");
        }
        assert_eq!(words(&serde_json::json!({"hello": 0, "zzz": 60_000}), "zzz").unwrap().vocabulary().size(), 60_001);
        let fault = words(&serde_json::json!({}), "zzz").unwrap_err().to_string();
        assert!(fault.contains("has no tokens"), "{fault}");
    }
}
