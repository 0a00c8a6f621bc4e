//! The tokens of words that were seen before, in bounded memory.

use std::ops::Range;

use verdigris_logits::TokenId;

/// The number of entries, a power of two. An entry is a cache line, so all of them are 2 MiB.
const ENTRIES: usize = 1 << 15;

/// The maximum length of a word in bytes.
const LONGEST: usize = 31;

/// The maximum number of tokens of a word.
const MOST: usize = 7;

/// The bytes of a word, and their number in the last byte.
type Word = [u8; LONGEST + 1];

/// For each length of a word, ones in its bytes.
static MASKS: [Word; LONGEST + 1] = {
    let mut masks = [[0; LONGEST + 1]; LONGEST + 1];
    let mut length = 0;
    while length <= LONGEST {
        let mut byte = 0;
        while byte < length {
            masks[length][byte] = u8::MAX;
            byte += 1;
        }
        length += 1;
    }
    masks
};

/// Words and their tokens. A word replaces the one that was in its entry.
pub(super) struct Memo(Box<[Entry]>);

#[derive(Clone, Copy)]
struct Entry {
    /// All zero in an unused entry, since no word is empty.
    word: Word,
    tokens: [TokenId; MOST],
    count: u32,
}

/// A word that may be remembered.
pub(super) struct Slot {
    word: Word,
    entry: usize,
}

impl Memo {
    pub(super) fn new() -> Self {
        Self(vec![Entry { word: [0; LONGEST + 1], tokens: [0; MOST], count: 0 }; ENTRIES].into())
    }

    /// The tokens of a word of a text, if they are known, or where to remember them; neither for a long word.
    #[inline]
    pub(super) fn get(&self, text: &str, word: Range<usize>) -> Result<&[TokenId], Option<Slot>> {
        let (text, length) = (text.as_bytes(), word.len());
        if length == 0 || length > LONGEST {
            return Err(None);
        }
        let mut key = [0; LONGEST + 1];
        // Copies of a constant length are much faster, so what follows the word is copied, too, and then removed.
        match text.get(word.start..word.start + key.len()) {
            Some(more) => {
                key.copy_from_slice(more);
                key.iter_mut().zip(&MASKS[length]).for_each(|(byte, mask)| *byte &= mask);
            }
            None => key[..length].copy_from_slice(&text[word]),
        }
        key[LONGEST] = length as u8;
        let slot = hash(&key) as usize % ENTRIES;
        let entry = &self.0[slot];
        if entry.word == key {
            Ok(&entry.tokens[..entry.count as usize])
        } else {
            Err(Some(Slot { word: key, entry: slot }))
        }
    }

    /// Remembers the tokens of a word, unless there are too many.
    pub(super) fn put(&mut self, Slot { word, entry }: Slot, ids: impl ExactSizeIterator<Item = TokenId>) {
        if ids.len() <= MOST {
            let (mut tokens, count) = ([0; MOST], ids.len() as u32);
            tokens.iter_mut().zip(ids).for_each(|(to, id)| *to = id);
            self.0[entry] = Entry { word, tokens, count };
        }
    }
}

/// A hash of a word: products of its parts, both halves of each.
fn hash(word: &Word) -> u64 {
    let (parts, _) = word.as_chunks();
    let [a, b, c, d] = [0, 1, 2, 3].map(|part| u64::from_le_bytes(parts[part]));
    let mixed = |x: u64, y: u64| {
        let product = u128::from(x ^ 0x9e37_79b9_7f4a_7c15) * u128::from(y ^ 0xd1b5_4a32_d192_ed03);
        (product >> 64) as u64 ^ product as u64
    };
    mixed(mixed(a, b), mixed(c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'m>(memo: &'m Memo, word: &str) -> Result<&'m [TokenId], Option<Slot>> {
        let known = memo.get(word, 0..word.len());
        // The text around a word does not matter.
        for around in [format!("a{word}"), format!("a{word}{}", "b".repeat(40))] {
            assert_eq!(memo.get(&around, 1..1 + word.len()).ok(), known.as_ref().ok().copied());
        }
        known
    }

    #[test]
    fn words_are_remembered_within_bounds() {
        let mut memo = Memo::new();
        let long = "x".repeat(LONGEST + 1);
        assert!(matches!(get(&memo, &long), Err(None)) && matches!(get(&memo, ""), Err(None)));
        // A word and the same word with zero bytes are two words.
        for (word, tokens) in [("a", &[1, 2, 3][..]), ("a\0", &[4]), (&long[1..], &[]), ("b", &[7; MOST])] {
            let Err(Some(slot)) = get(&memo, word) else { panic!("{word:?} is not new") };
            memo.put(slot, tokens.iter().copied());
            assert!(get(&memo, word).is_ok_and(|known| known == tokens));
        }
        let Err(Some(slot)) = get(&memo, "c") else { panic!("c is not new") };
        memo.put(slot, [8; MOST + 1].into_iter());
        assert!(get(&memo, "c").is_err());
    }

    /// Words that are known are returned with their own tokens, whatever was replaced.
    #[test]
    fn entries_are_replaced() {
        let mut memo = Memo::new();
        let words = || (0..4 * ENTRIES as u32).map(|n| (n, n.to_string()));
        for (n, word) in words() {
            let Err(Some(slot)) = get(&memo, &word) else { panic!("{word} is not new") };
            memo.put(slot, [n].into_iter());
        }
        let known: Vec<_> = words().filter_map(|(n, word)| Some((n, get(&memo, &word).ok()?[0]))).collect();
        assert!(known.len() > ENTRIES / 2 && known.iter().all(|(n, token)| n == token));
    }
}
