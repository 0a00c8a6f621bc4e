//! Tokens that leave an automaton where it is.
//!
//! Under `[a-z0-9-]+` most of what may come next keeps the state: tokens of those signs alone. Which those are depends on the
//! signs and on nothing else, so it is worked out once for a vocabulary; what is left is where tokens go on with another
//! byte.

use std::sync::{Arc, LazyLock};

use verdigris_logits::{TokenId, TokenSet};

use crate::automaton::Automaton;
use crate::trie::Tree;

/// A set of characters: some of ASCII, and all others or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Signs {
    ascii: [u64; 2],
    beyond: bool,
}

/// A state that some characters keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loop {
    pub(crate) kept_by: Signs,
    /// How many of them may come.
    pub(crate) most: u32,
}

/// The tokens that are made of some characters alone, and where others leave them.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The tokens with their lengths in characters, shorter ones first. A character that ends in another token counts.
    tokens: Vec<(u32, TokenId)>,
    all: Arc<TokenSet>,
    /// The nodes of other bytes after none or some of the characters, and how many, fewer ones first; by byte.
    pub(crate) leaving: Vec<Vec<(u32, u32)>>,
    /// The nodes where a character of these ends, and how many there are.
    pub(crate) nodes: Vec<(u32, u32)>,
}

impl Signs {
    /// Those for which `is_in` says so, and all beyond ASCII if `beyond`.
    pub(crate) fn of(is_in: impl Fn(u8) -> bool, beyond: bool) -> Self {
        let mut ascii = [0; 2];
        (0..128u8).filter(|&byte| is_in(byte)).for_each(|byte| ascii[usize::from(byte / 64)] |= 1 << (byte % 64));
        Self { ascii, beyond }
    }

    /// The characters that lead from a state of an automaton back to it.
    pub(crate) fn that_keep(automaton: &Automaton, state: u32, is_in: impl Fn(u8) -> bool) -> Self {
        let is_kept = |byte| is_in(byte) && automaton.next(state, byte) == Some(state);
        Self::of(is_kept, keeps_beyond(automaton, state))
    }

    /// Whether a byte that begins a character is one of them, or begins one.
    pub(crate) fn contains(self, byte: u8) -> bool {
        match byte {
            0..128 => self.ascii[usize::from(byte / 64)] >> (byte % 64) & 1 == 1,
            _ => self.beyond,
        }
    }

    /// How many of ASCII they are.
    pub(crate) fn len(self) -> u32 {
        self.ascii.iter().map(|word| word.count_ones()).sum()
    }
}

/// Whether every character beyond ASCII leads back to a state.
fn keeps_beyond(automaton: &Automaton, state: u32) -> bool {
    let mut pairs = vec![(state, Automaton::START)];
    let mut at = 0;
    while let Some(&(inner, valid)) = pairs.get(at) {
        for byte in 0x80..=0xff {
            let Some(valid) = UTF8.next(valid, byte) else { continue };
            match automaton.next(inner, byte) {
                Some(next) if UTF8.accepts(valid) && next != state => return false,
                Some(next) if !pairs.contains(&(next, valid)) => pairs.push((next, valid)),
                Some(_) => {}
                None => return false,
            }
        }
        at += 1;
        if at > 64 {
            return false;
        }
    }
    true
}

static UTF8: LazyLock<Automaton> = LazyLock::new(Automaton::utf8);

impl Kept {
    pub(crate) fn new(tree: &Tree, vocabulary: usize, characters: Signs) -> Self {
        let (mut leaving, mut nodes, mut tokens) = (vec![Vec::new(); 256], Vec::new(), Vec::new());
        let step = |(valid, count): (u32, u32), byte, node| {
            let begins = UTF8.accepts(valid);
            if begins && !characters.contains(byte) {
                leaving[usize::from(byte)].push((node, count));
                return None;
            }
            let (valid, count) = (UTF8.next(valid, byte)?, count + u32::from(begins));
            if UTF8.accepts(valid) {
                nodes.push((node, count));
            }
            Some((valid, count))
        };
        tree.walk((Automaton::START, 0), step, |token, (_, count)| tokens.push((count, token)));
        tokens.sort_unstable_by_key(|&(count, _)| count);
        leaving.iter_mut().for_each(|nodes: &mut Vec<(u32, u32)>| nodes.sort_by_key(|&(_, count)| count));
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
