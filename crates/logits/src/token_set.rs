//! A set of tokens: one bit per token of a fixed vocabulary.

use crate::TokenId;

/// A bitset over the tokens `0..capacity`. At 128k tokens it takes 16 KiB.
///
/// Bits past the capacity are always zero, so whole words can be counted and combined.
#[doc(alias = "bitmask")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenSet {
    words: Vec<u64>,
    capacity: usize,
}

impl TokenSet {
    /// The empty set over a vocabulary of `capacity` tokens.
    pub fn new(capacity: usize) -> Self {
        Self { words: vec![0; capacity.div_ceil(64)], capacity }
    }

    /// The set of all tokens of a vocabulary of `capacity` tokens.
    pub fn full(capacity: usize) -> Self {
        let mut set = Self::new(capacity);
        set.fill_words(|words| words.fill(u64::MAX));
        set
    }

    /// The number of tokens in the vocabulary, whether in the set or not.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties the set and changes its capacity. Allocates only to grow.
    pub fn reset(&mut self, capacity: usize) {
        self.words.clear();
        self.words.resize(capacity.div_ceil(64), 0);
        self.capacity = capacity;
    }

    /// Makes the set equal to `other`. Allocates only to grow.
    pub fn copy_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
        self.capacity = other.capacity;
    }

    /// Adds a token.
    ///
    /// # Panics
    /// If the token is outside the vocabulary.
    pub fn insert(&mut self, token: TokenId) {
        assert!((token as usize) < self.capacity, "token {token} in a vocabulary of {}", self.capacity);
        self.words[token as usize / 64] |= 1 << (token % 64);
    }

    /// Adds all tokens of another set over the same vocabulary.
    ///
    /// # Panics
    /// If the other set has another capacity.
    pub fn insert_all(&mut self, other: &Self) {
        assert_eq!(self.capacity, other.capacity, "sets over two vocabularies");
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Removes a token, if it is in the set.
    pub fn remove(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token as usize / 64) {
            *word &= !(1 << (token % 64));
        }
    }

    /// Whether the token is in the set. False for a token outside the vocabulary.
    pub fn contains(&self, token: TokenId) -> bool {
        self.words.get(token as usize / 64).is_some_and(|word| word >> (token % 64) & 1 == 1)
    }

    /// The number of tokens in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no tokens.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// The tokens of the set in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| Bits(word).map(move |bit| at as u32 * 64 + bit))
    }

    /// The bits, least significant first: token `t` is bit `t % 64` of word `t / 64`.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Calls `fill` to write all words at once, then clears the bits past the capacity.
    pub fn fill_words(&mut self, fill: impl FnOnce(&mut [u64])) {
        fill(&mut self.words);
        if let (rest @ 1.., Some(last)) = (self.capacity % 64, self.words.last_mut()) {
            *last &= (1 << rest) - 1;
        }
    }
}

struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_set_at_every_boundary() {
        for capacity in [1, 63, 64, 65, 127, 128, 129, 4096] {
            let mut set = TokenSet::new(capacity);
            let tokens: Vec<u32> = (0..capacity as u32).filter(|t| t % 3 == 0).collect();
            tokens.iter().for_each(|&t| set.insert(t));
            assert_eq!(set.iter().collect::<Vec<_>>(), tokens);
            assert_eq!(set.len(), tokens.len());
            assert!((0..capacity as u32 + 100).all(|t| set.contains(t) == tokens.contains(&t)));
            assert_eq!(TokenSet::full(capacity).len(), capacity);
            tokens.iter().for_each(|&t| set.remove(t));
            set.remove(capacity as u32 + 1000);
            assert!(set.is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "token 64 in a vocabulary of 64")]
    fn insert_refuses_a_foreign_token() {
        TokenSet::new(64).insert(64);
    }
}
