//! The bytes of each token.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use data_encoding::HEXLOWER;
use sha3::{Digest, Sha3_256};
use tokenizers::{AddedToken, DecoderWrapper};
use verdigris_logits::TokenId;

use crate::error::TokenizerError;

/// The number of ids that a tokenizer may leave out per token, in addition to [`HOLES`]. An id without a token takes a
/// few bytes, so the memory of a file depends on its own size, whatever ids it contains.
const HOLES_A_TOKEN: usize = 16;

/// The number of ids that any tokenizer may leave out.
const HOLES: usize = 1 << 16;

/// The bytes of every token of a tokenizer, by id.
///
/// Tokens are byte strings and need not be text on their own: a token may end in the middle of a character. Control
/// tokens (end of text and the like) and ids without a token have no bytes.
#[derive(Debug)]
pub struct Vocabulary {
    /// The bytes of all tokens, concatenated.
    bytes: Vec<u8>,
    /// The end of each token in `bytes`.
    ends: Vec<u32>,
    special: Vec<bool>,
    /// The [spellings](Vocabulary::spelling) that are not the bytes of a token.
    controls: BTreeMap<TokenId, Box<[u8]>>,
    fingerprint: OnceLock<String>,
}

impl Vocabulary {
    /// The bytes around the name of a control token in its [spelling](Vocabulary::spelling). Neither occurs in UTF-8.
    pub const CONTROL: [u8; 2] = [0xff, 0xfe];

    /// Reads the vocabulary of a tokenizer of the library.
    pub(crate) fn of(tokenizer: &tokenizers::Tokenizer) -> Result<Self, TokenizerError> {
        let added = tokenizer.get_added_tokens_decoder();
        let byte_level = tokenizer.get_decoder().is_some_and(is_byte_level);
        let tokens = tokenizer.get_vocab(true);
        let mut tokens: Vec<(TokenId, &str)> = tokens.iter().map(|(token, id)| (*id, &**token)).collect();
        tokens.sort_unstable();
        Self::new(&tokens, |id| added.get(&id), byte_level)
    }

    /// Creates a vocabulary of tokens, sorted by their ids, some of which are added: byte-level BPE, or pieces with `▁`
    /// for a space and `<0x..>` for bytes.
    pub(crate) fn new<'a>(
        tokens: &[(TokenId, &str)],
        added: impl Fn(TokenId) -> Option<&'a AddedToken>,
        byte_level: bool,
    ) -> Result<Self, TokenizerError> {
        let Some(&(last, name)) = tokens.last() else { return Err(TokenizerError::Empty) };
        let (last, most) = (last as usize, HOLES + tokens.len().saturating_mul(HOLES_A_TOKEN));
        if last > most {
            return Err(TokenizerError::Id { name: name.to_owned(), id: last, most, tokens: tokens.len() });
        }
        let size = last + 1;
        let mut vocabulary = Self {
            bytes: Vec::with_capacity(size * 8),
            ends: Vec::with_capacity(size),
            special: vec![false; size],
            controls: BTreeMap::new(),
            fingerprint: OnceLock::new(),
        };
        for &(id, token) in tokens {
            // Holes have no bytes. Two names for one id cannot both be right: the first one is used.
            if (id as usize) < vocabulary.ends.len() {
                continue;
            }
            vocabulary.ends.resize(id as usize, vocabulary.bytes.len() as u32);
            match added(id) {
                Some(token) if token.special => {
                    vocabulary.special[id as usize] = true;
                    vocabulary.controls.insert(id, Self::spell_control(&token.content).into());
                }
                Some(token) => vocabulary.bytes.extend_from_slice(token.content.as_bytes()),
                None if byte_level => vocabulary.bytes.extend(token.chars().flat_map(byte_of)),
                None => push_piece(token, &mut vocabulary.bytes),
            }
            vocabulary.ends.push(vocabulary.bytes.len() as u32);
            // Tokens of single bytes must not spell the name of a control token.
            if vocabulary.bytes(id).iter().any(|byte| Self::CONTROL.contains(byte)) {
                vocabulary.controls.insert(id, Box::default());
            }
        }
        Ok(vocabulary)
    }

    /// One more than the highest token id.
    pub fn size(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a token; empty for a control token and for an id without a token.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let token = token as usize;
        let Some(&end) = self.ends.get(token) else { return &[] };
        let start = if token == 0 { 0 } else { self.ends[token - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// The bytes that represent a token in a grammar: those of [`Vocabulary::bytes`], or for a control token
    /// its name between those of [`Vocabulary::CONTROL`]. So no text can be confused with a control token. Empty for
    /// tokens of bytes that UTF-8 does not have, which no grammar contains.
    pub fn spelling(&self, token: TokenId) -> &[u8] {
        match self.controls.get(&token) {
            Some(spelling) => spelling,
            None => self.bytes(token),
        }
    }

    /// The spelling of a control token with a name.
    pub(crate) fn spell_control(name: &str) -> Vec<u8> {
        let [begin, end] = Self::CONTROL;
        [&[begin], name.as_bytes(), &[end]].concat()
    }

    /// The name of a control token; `None` for other tokens.
    pub fn control(&self, token: TokenId) -> Option<&str> {
        let spelling = self.controls.get(&token)?;
        // A spelling is a name between two bytes.
        std::str::from_utf8(spelling.get(1..spelling.len().checked_sub(1)?)?).ok()
    }

    /// Whether a token is a control token.
    pub fn is_special(&self, token: TokenId) -> bool {
        self.special.get(token as usize).copied().unwrap_or(false)
    }

    /// A digest of all tokens in order: 128 bits of SHA3-256, in hexadecimal. Vocabularies with equal fingerprints give
    /// every token the same id.
    pub fn fingerprint(&self) -> &str {
        self.fingerprint.get_or_init(|| {
            let mut hash = Sha3_256::new();
            hash.update(b"verdigris vocabulary 1");
            for token in 0..self.size() as TokenId {
                let bytes = self.bytes(token);
                hash.update([u8::from(self.is_special(token))]);
                hash.update((bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
            HEXLOWER.encode(&hash.finalize()[..16])
        })
    }
}

/// Whether a decoder reads GPT-2's byte-level alphabet.
pub(crate) fn is_byte_level(decoder: &DecoderWrapper) -> bool {
    match decoder {
        DecoderWrapper::ByteLevel(_) => true,
        DecoderWrapper::Sequence(parts) => parts.get_decoders().iter().any(is_byte_level),
        _ => false,
    }
}

/// The byte that a character of GPT-2's byte-level alphabet represents. Printable characters of Latin-1 represent
/// themselves, and the characters from U+0100 on represent the other 68 bytes, in order. A character outside the
/// alphabet represents its own UTF-8 bytes.
pub(crate) fn byte_of(c: char) -> impl Iterator<Item = u8> {
    let code = c as u32;
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121) as u8 + 0x7f),
        0x143 => Some(0xad),
        _ => None,
    };
    let mut utf8 = [0; 4];
    let length = match byte {
        Some(byte) => {
            utf8[0] = byte;
            1
        }
        None => c.encode_utf8(&mut utf8).len(),
    };
    utf8.into_iter().take(length)
}

/// Appends the bytes of a SentencePiece piece: `▁` is a space, `<0xE2>` a byte.
fn push_piece(piece: &str, bytes: &mut Vec<u8>) {
    let byte = piece.strip_prefix("<0x").and_then(|p| p.strip_suffix('>')).filter(|p| p.len() == 2);
    match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => bytes.push(byte),
        None => bytes.extend_from_slice(piece.replace('▁', " ").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_level_alphabet_covers_every_byte_once() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        let mut bytes: Vec<u8> = alphabet.into_iter().flat_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
    }

    #[test]
    fn control_tokens_are_spelled_apart_from_text() {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = crate::Tokenizer::from_json(json).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let spelled = b"\xff<|endoftext|>\xfe";
        assert_eq!((vocabulary.bytes(0), vocabulary.spelling(0)), (&b""[..], &spelled[..]));
        assert_eq!(tokenizer.spell("a<|endoftext|> é"), [b"a", &spelled[..], " é".as_bytes()].concat());
        let (byte, bytes) = (|b: u8| (0..4096).find(|&t| vocabulary.bytes(t) == [b]).unwrap(), [0xff, 0xfe]);
        for token in bytes.map(byte) {
            assert_eq!((vocabulary.spelling(token), vocabulary.control(token)), (&b""[..], None));
        }
        let the = tokenizer.encode(" the").unwrap()[0];
        assert_eq!((vocabulary.spelling(the), vocabulary.spelling(u32::MAX)), (&b" the"[..], &b""[..]));
    }

    #[test]
    fn pieces_become_bytes() {
        let mut bytes = Vec::new();
        for piece in ["▁Hello", "<0xE2>", "<0x>", "<0xZZ>"] {
            push_piece(piece, &mut bytes);
        }
        assert_eq!(bytes, b" Hello\xE2<0x><0xZZ>");
    }
}
