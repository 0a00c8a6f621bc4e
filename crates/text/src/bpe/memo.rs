//! The tokens of words that were seen before, in bounded memory.

use verdigris_logits::TokenId;

/// The number of entries, a power of two. An entry is a cache line, so all of them are 1 MiB.
const ENTRIES: usize = 1 << 14;

/// The maximum length of a word in bytes.
const LONGEST: usize = 31;

/// The maximum number of tokens of a word.
const MOST: usize = 7;

/// The bytes of a word, and their number in the last byte.
type Word = [u8; LONGEST + 1];

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

    /// The tokens of a word, if they are known, or where to remember them; neither for a long word.
    pub(super) fn get(&self, word: &[u8]) -> Result<&[TokenId], Option<Slot>> {
        if word.is_empty() || word.len() > LONGEST {
            return Err(None);
        }
        let mut key = [0; LONGEST + 1];
        key[..word.len()].copy_from_slice(word);
        key[LONGEST] = word.len() as u8;
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

    #[test]
    fn words_are_remembered_within_bounds() {
        let mut memo = Memo::new();
        let long = [b'x'; LONGEST + 1];
        assert!(matches!(memo.get(&long), Err(None)) && matches!(memo.get(b""), Err(None)));
        // A word and the same word with zero bytes are two words.
        for (word, tokens) in [(&b"a"[..], &[1, 2, 3][..]), (b"a\0", &[4]), (&long[1..], &[]), (b"b", &[7; MOST])] {
            let Err(Some(slot)) = memo.get(word) else { panic!("{word:?} is not known") };
            memo.put(slot, tokens.iter().copied());
            assert!(memo.get(word).is_ok_and(|known| known == tokens));
        }
        let Err(Some(slot)) = memo.get(b"c") else { panic!("c is not known") };
        memo.put(slot, [8; MOST + 1].into_iter());
        assert!(memo.get(b"c").is_err());
    }

    /// Words that are known are returned with their own tokens, whatever replaced whatever.
    #[test]
    fn entries_are_replaced() {
        let mut memo = Memo::new();
        let words = || (0..4 * ENTRIES as u32).map(|n| (n, n.to_string()));
        for (n, word) in words() {
            let Err(Some(slot)) = memo.get(word.as_bytes()) else { panic!("{word} is not known") };
            memo.put(slot, [n].into_iter());
        }
        let known: Vec<_> = words().filter_map(|(n, word)| Some((n, memo.get(word.as_bytes()).ok()?[0]))).collect();
        assert!(known.len() > ENTRIES / 2 && known.iter().all(|(n, token)| n == token));
    }
}
