//! Tokens that leave an automaton where it is.
//!
//! Under `[a-z0-9-]+` most of what may come next keeps the state: tokens of those signs alone. Which those are depends on the
//! signs and on nothing else, so it is worked out once for a vocabulary; what is left is where tokens go on with another
//! byte.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use crate::trie::Tree;

/// A set of ASCII characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ascii([u64; 2]);

/// A state that some characters keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) kept_by: Ascii,
    /// How many of them may come.
    pub(crate) most: u32,
}

/// The tokens that are made of some characters alone, and where others leave them.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The tokens, shorter ones first, with their lengths.
    tokens: Vec<(u32, TokenId)>,
    all: Arc<TokenSet>,
    /// The nodes of other bytes after none or some of the characters, by byte.
    pub(crate) leaving: Vec<Vec<u32>>,
    /// The nodes of the characters themselves.
    pub(crate) nodes: Vec<u32>,
}

impl Ascii {
    /// Those for which `is_in` says so.
    pub(crate) fn of(is_in: impl Fn(u8) -> bool) -> Self {
        let mut set = Self::default();
        (0..128u8).filter(|&byte| is_in(byte)).for_each(|byte| set.0[usize::from(byte / 64)] |= 1 << (byte % 64));
        set
    }

    pub(crate) fn contains(self, byte: u8) -> bool {
        byte < 128 && self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    pub(crate) fn len(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

impl Kept {
    pub(crate) fn new(tree: &Tree, vocabulary: usize, characters: Ascii) -> Self {
        let (mut leaving, mut nodes, mut tokens) = (vec![Vec::new(); 256], Vec::new(), Vec::new());
        let step = |depth: u32, byte, node| {
            if !characters.contains(byte) {
                leaving[usize::from(byte)].push(node);
                return None;
            }
            nodes.push(node);
            Some(depth + 1)
        };
        tree.walk(0, step, |token, depth| tokens.push((depth, token)));
        tokens.sort_unstable();
        let mut all = TokenSet::new(vocabulary);
        tokens.iter().for_each(|&(_, token)| all.insert(token));
        Self { tokens, all: Arc::new(all), leaving, nodes }
    }

    /// The tokens of at most so many characters.
    pub(crate) fn up_to(&self, most: u32) -> Arc<TokenSet> {
        if self.tokens.last().is_none_or(|&(length, _)| length <= most) {
            return self.all.clone();
        }
        let mut set = TokenSet::new(self.all.capacity());
        let short = self.tokens.partition_point(|&(length, _)| length <= most);
        self.tokens[..short].iter().for_each(|&(_, token)| set.insert(token));
        Arc::new(set)
    }

    /// Whether a set is the one of all lengths, which all schemas share.
    pub(crate) fn is_all(&self, set: &Arc<TokenSet>) -> bool {
        Arc::ptr_eq(set, &self.all)
    }
}
