//! Words as bytes, each of which is a character of GPT-2's alphabet in the names of tokens.

use verdigris_logits::TokenId;

use super::merges::{Merges, Part, Queue};
use super::names::Names;
use crate::vocabulary::byte_of;

/// The encoder of words of a byte-level tokenizer.
pub(super) struct Bytes {
    /// The token of each byte. Bytes that UTF-8 does not have may lack one.
    tokens: [TokenId; 256],
    /// The character of each byte.
    alphabet: [char; 256],
    /// Whether a word that is a token becomes that token, whatever the merges say.
    ignore_merges: bool,
}

impl Bytes {
    /// `None` if there is a byte without a token.
    pub(super) fn new(names: &Names, ignore_merges: bool) -> Option<Self> {
        let mut alphabet = ['\0'; 256];
        for c in ('!'..='\u{143}').filter(|c| !matches!(c, '\u{7f}'..='\u{a0}' | '\u{ad}')) {
            alphabet[usize::from(byte_of(c).next()?)] = c;
        }
        let mut tokens = [0; 256];
        for (byte, token) in (0..=255u8).zip(&mut tokens) {
            *token = match names.id(alphabet[usize::from(byte)].encode_utf8(&mut [0; 4])) {
                Some(id) => id,
                None if matches!(byte, 0xc0 | 0xc1 | 0xf5..) => 0,
                None => return None,
            };
        }
        Some(Self { tokens, alphabet, ignore_merges })
    }

    /// Replaces `parts` by the tokens of a word.
    pub(super) fn encode(&self, word: &str, names: &Names, merges: &Merges, parts: &mut Vec<Part>, queue: &mut Queue) {
        parts.clear();
        if self.ignore_merges {
            queue.name.clear();
            queue.name.extend(word.bytes().map(|byte| self.alphabet[usize::from(byte)]));
            if let Some(id) = names.id(&queue.name) {
                return parts.push(Part { id, length: word.len() as u32 });
            }
        }
        parts.extend(word.bytes().map(|byte| Part { id: self.tokens[usize::from(byte)], length: 1 }));
        merges.merge(parts, queue);
    }
}
