//! Merges by the scores of tokens, as in SentencePiece: two neighbours whose names together are that of a token become
//! that token, the one with the highest score first.
//!
//! A list of all such pairs is twice as long as the vocabulary, and takes longer to make than most texts take to read.
//! So pairs are looked up by their names when a word has them.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use verdigris_logits::TokenId;

use super::names::Names;

/// The number of bits of a token's id in the rank of a pair.
const ID_BITS: u32 = 21;

/// The most pairs that are remembered.
const SEEN: usize = 1 << 16;

/// A token that does not take part in merges.
const APART: u32 = u32::MAX;

/// A token of a vocabulary with scores.
#[derive(Clone, Copy, Debug)]
pub struct ScoredToken<'a> {
    /// Its id.
    pub id: TokenId,
    /// Its name, in which `▁` is a space.
    pub name: &'a str,
    /// Its score. Pairs that become tokens of higher scores are merged first.
    pub score: f64,
    /// Whether pairs become it and whether it is part of pairs: not for control tokens and tokens of bytes.
    pub merges: bool,
}

/// Buffers for looking pairs up, which are reused.
#[derive(Default)]
pub(super) struct Lookup {
    /// The name of the token that a pair would become.
    name: String,
    /// Pairs that were looked up before.
    seen: HashMap<(TokenId, TokenId), Option<(u64, TokenId)>, FixedState>,
}

/// The scores of tokens.
pub(super) struct Scored {
    /// For each id, the number of higher scores that tokens have, or [`APART`].
    ranks: Vec<u32>,
    /// The position of each token in the order of the file.
    positions: Vec<u32>,
}

impl Scored {
    /// `None` if there are too many tokens.
    pub(super) fn new(tokens: &[ScoredToken<'_>]) -> Option<Self> {
        let ids = tokens.iter().map(|token| token.id as usize + 1).max()?;
        if ids > 1 << ID_BITS {
            return None;
        }
        let (mut ranks, mut positions) = (vec![APART; ids], vec![0; ids]);
        let mut scores: Vec<f64> = tokens.iter().filter(|token| token.merges).map(|token| token.score).collect();
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        scores.dedup_by(|a, b| a.total_cmp(b).is_eq());
        // In most files scores fall from one token to the next.
        let mut next = 0;
        for (position, token) in (0..).zip(tokens) {
            positions[token.id as usize] = position;
            if token.merges {
                let is_next = scores.get(next).is_some_and(|score| score.total_cmp(&token.score).is_eq());
                let search = || scores.binary_search_by(|score| token.score.total_cmp(score));
                let rank = if is_next { next } else { search().ok()? };
                ranks[token.id as usize] = rank as u32;
                next = rank + 1;
            }
        }
        Some(Self { ranks, positions })
    }

    /// Whether a token takes part in merges.
    pub(super) fn merges(&self, id: TokenId) -> bool {
        self.ranks[id as usize] != APART
    }

    /// The rank of a pair that is merged, and the token that it becomes. Of pairs with equal scores, those with lower
    /// ids come first.
    pub(super) fn get(
        &self,
        names: &Names,
        lookup: &mut Lookup,
        first: TokenId,
        second: TokenId,
    ) -> Option<(u64, TokenId)> {
        if !self.merges(first) || !self.merges(second) {
            return None;
        }
        let Lookup { name, seen } = lookup;
        if let Some(&known) = seen.get(&(first, second)) {
            return known;
        }
        name.clear();
        for id in [first, second] {
            name.push_str(names.name(self.positions[id as usize]));
        }
        let rank = |both: TokenId| {
            u64::from(self.ranks[both as usize]) << (2 * ID_BITS) | u64::from(first) << ID_BITS | u64::from(second)
        };
        let both = names.id(name).filter(|&both| self.merges(both));
        let found = both.map(|both| (rank(both), both));
        if seen.len() == SEEN {
            seen.clear();
        }
        seen.insert((first, second), found);
        found
    }
}
