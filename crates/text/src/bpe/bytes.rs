//! Words as bytes, each of which is a character of GPT-2's alphabet in the names of tokens.

use super::merges::{Merges, Queue};
use super::names::{Names, Part};
use crate::vocabulary::byte_of;

/// The encoder of words of a byte-level tokenizer.
pub(super) struct Bytes {
    /// The part that is the token of each byte. The library leaves out bytes that have no token.
    parts: [Option<Part>; 256],
    /// The character of each byte.
    alphabet: [char; 256],
    /// Whether a word that is a token becomes that token, whatever the merges say.
    ignore_merges: bool,
}

impl Bytes {
    /// Creates an encoder; see [`Bytes::is_complete`].
    pub(super) fn new(names: &Names, ignore_merges: bool) -> Self {
        let mut alphabet = ['\0'; 256];
        let characters = ('!'..='\u{143}').filter(|c| !matches!(c, '\u{7f}'..='\u{a0}' | '\u{ad}'));
        characters.for_each(|c| byte_of(c).for_each(|byte| alphabet[usize::from(byte)] = c));
        let part = |c: char| Some(Part { id: names.id(c.encode_utf8(&mut [0; 4]))?, length: c.len_utf8() as u32 });
        Self { parts: alphabet.map(part), alphabet, ignore_merges }
    }

    /// Whether every byte of a text has a token.
    pub(super) fn is_complete(&self) -> bool {
        let missing = |&byte: &u8| self.parts[usize::from(byte)].is_none();
        // UTF-8 does not have the others.
        !(0..=0xf4u8).filter(|byte| !matches!(byte, 0xc0 | 0xc1)).any(|byte| missing(&byte))
    }

    /// The length of a character in the names of tokens.
    pub(super) fn length(&self, c: char) -> usize {
        let mut utf8 = [0; 4];
        let bytes = c.encode_utf8(&mut utf8).bytes();
        bytes.map(|byte| self.alphabet[usize::from(byte)].len_utf8()).sum()
    }

    /// Sets `name` to the characters of the next bytes, which have the given length together.
    pub(super) fn name(&self, rest: &mut impl Iterator<Item = u8>, length: usize, name: &mut String) {
        name.clear();
        while name.len() < length
            && let Some(byte) = rest.next()
        {
            name.push(self.alphabet[usize::from(byte)]);
        }
    }

    /// Replaces `parts` by the tokens of a word.
    pub(super) fn encode(&self, word: &str, names: &Names, merges: &Merges, parts: &mut Vec<Part>, queue: &mut Queue) {
        parts.clear();
        let characters = word.bytes().map(|byte| self.alphabet[usize::from(byte)]);
        if self.ignore_merges
            && let Some(token) = names.whole(characters, &mut queue.name)
        {
            return parts.push(token);
        }
        parts.extend(word.bytes().filter_map(|byte| self.parts[usize::from(byte)]));
        merges.merge(names, parts, queue);
    }
}
