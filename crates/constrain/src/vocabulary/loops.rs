//! Tokens that leave an automaton where it is.
//!
//! Under `[a-z0-9-]+` most of what may come next keeps the state: tokens of those signs alone. Which those are depends on the
//! signs and on nothing else, so it is worked out once for a vocabulary; what is left is where tokens go on with another
//! character. `\w{1,20}` is like it: each character leads to the next state of a row.

use std::sync::{Arc, LazyLock, OnceLock};

use verdigris_logits::{TokenId, TokenSet};

use crate::automata::automaton::Automaton;
use crate::vocabulary::trie::Tree;

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signs {
    ascii: [u64; 2],
    /// The code points beyond ASCII, as ranges in order, both ends included.
    beyond: Arc<[(u32, u32)]>,
}

/// A state that some characters keep.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) kept_by: Signs,
    /// How many of them may come.
    pub(crate) most: u32,
    /// Whether other characters beyond ASCII may come after some of them.
    pub(crate) strangers: bool,
}

/// The tokens that are made of some characters alone, and where others leave them.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The tokens by their lengths in characters. A character that ends in another token counts.
    tokens: Vec<Vec<TokenId>>,
    /// Those of at most so many characters; the last are all of them.
    sets: Box<[OnceLock<Arc<TokenSet>>]>,
    vocabulary: usize,
    /// The nodes of other bytes of ASCII after none or some of the characters, and how many, fewer ones first; by byte.
    pub(crate) leaving: Vec<Vec<(u32, u32)>>,
    /// The nodes where it is clear that another character beyond ASCII comes, fewer ones before it first.
    pub(crate) strangers: Vec<Stranger>,
    /// The nodes where a character of these ends and tokens go on, and how many there are.
    pub(crate) nodes: Vec<(u32, u32)>,
}

/// Where another character beyond ASCII begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    /// How many characters come before it.
    pub(crate) count: u32,
    pub(crate) node: u32,
    bytes: [u8; 4],
    length: u8,
}

impl Stranger {
    /// Its bytes up to its node.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Signs {
    /// Those of some ranges of code points.
    pub(crate) fn of_ranges(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let in_ascii = |byte: u8| ranges.iter().any(|&(from, to)| from <= byte.into() && u32::from(byte) <= to);
        let ascii = bits(in_ascii);
        let mut beyond: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges.into_iter().filter(|range| range.1 >= 128) {
            match beyond.last_mut() {
                Some(last) if last.1 + 1 >= from => last.1 = last.1.max(to),
                _ => beyond.push((from.max(128), to)),
            }
        }
        Self { ascii, beyond: beyond.into() }
    }

    /// The characters that lead from a state of an automaton back to it, but those beyond ASCII only where all of them do.
    pub(crate) fn that_keep(automaton: &Automaton, state: u32, is_in: impl Fn(u8) -> bool) -> Self {
        let is_kept = |byte| is_in(byte) && automaton.next(state, byte) == Some(state);
        let all: &[(u32, u32)] = &[(0x80, 0xd7ff), (0xe000, 0x10_ffff)];
        let beyond = if keeps_beyond(automaton, state) { all } else { &[] };
        Self { ascii: bits(is_kept), beyond: beyond.into() }
    }

    fn contains_ascii(&self, byte: u8) -> bool {
        self.ascii[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    /// Whether one of them has a code point in a range beyond ASCII.
    fn meets(&self, (from, to): (u32, u32)) -> bool {
        let first = self.beyond.partition_point(|range| range.1 < from);
        self.beyond.get(first).is_some_and(|range| range.0 <= to)
    }

    /// How many of ASCII they are.
    pub(crate) fn len(&self) -> u32 {
        self.ascii.iter().map(|word| word.count_ones()).sum()
    }
}

fn bits(is_in: impl Fn(u8) -> bool) -> [u64; 2] {
    let mut ascii = [0; 2];
    (0..128u8).filter(|&byte| is_in(byte)).for_each(|byte| ascii[usize::from(byte / 64)] |= 1 << (byte % 64));
    ascii
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

/// Where a walk along characters stands.
#[derive(Clone, Copy, Default)]
struct Along {
    /// The characters so far, the one that has begun included.
    count: u32,
    /// What is there of the code point of the last one beyond ASCII.
    code: u32,
    /// How many bytes are there, and how many there are when it is whole.
    length: u8,
    total: u8,
}

impl Along {
    fn is_between(self) -> bool {
        self.length == self.total
    }

    /// After one more byte of a character beyond ASCII; `None` if no UTF-8 goes on so (Unicode 17, table 3-7).
    fn beyond(mut self, byte: u8) -> Option<Self> {
        if self.is_between() {
            self.total = match byte {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return None,
            };
            (self.count, self.code, self.length) = (self.count + 1, (byte & (0x7f >> self.total)).into(), 1);
            return Some(self);
        }
        if !matches!(byte, 0x80..=0xbf) {
            return None;
        }
        self.code = self.code << 6 | u32::from(byte & 0x3f);
        self.length += 1;
        // Shorter forms, halves of pairs, and what is beyond the last are out from the second byte on.
        let is_valid = match (self.length, self.total) {
            (2, 3) => self.code >= 0x20 && !(0x360..0x380).contains(&self.code),
            (2, 4) => (0x10..0x110).contains(&self.code),
            _ => true,
        };
        is_valid.then_some(self)
    }

    /// The code points that the last character may still have, the first and the last.
    fn range(self) -> (u32, u32) {
        let left = 6 * (self.total - self.length);
        // Fewer bytes write smaller ones.
        let least = [0x80, 0x800, 0x1_0000][usize::from(self.total - 2)];
        (least.max(self.code << left), ((self.code + 1) << left) - 1)
    }

    /// The bytes so far of the last character.
    fn bytes(self) -> [u8; 4] {
        let mut bytes = [0; 4];
        for (i, byte) in bytes.iter_mut().enumerate().take(self.length.into()) {
            let part = (self.code >> (6 * (usize::from(self.length) - 1 - i))) as u8;
            *byte = if i == 0 { part | !(0xff >> self.total) } else { part & 0x3f | 0x80 };
        }
        bytes
    }
}

impl Kept {
    /// Those below a node of a tree, or of all of it.
    pub(crate) fn new(tree: &Tree, root: Option<u32>, vocabulary: usize, characters: &Signs) -> Self {
        let mut leaving = vec![Vec::new(); 128];
        let (mut nodes, mut strangers, mut tokens) = (Vec::new(), Vec::new(), vec![Vec::new()]);
        let step = |along: Along, byte: u8, node: u32| {
            if byte < 128 && along.is_between() {
                if !characters.contains_ascii(byte) {
                    leaving[usize::from(byte)].push((node, along.count));
                    return None;
                }
                let along = Along { count: along.count + 1, ..along };
                nodes.extend(tree.goes_on(node).then_some((node, along.count)));
                return Some(along);
            }
            let along = along.beyond(byte)?;
            if !characters.meets(along.range()) {
                let (bytes, length) = (along.bytes(), along.length);
                strangers.push(Stranger { count: along.count - 1, node, bytes, length });
                return None;
            }
            if along.is_between() && tree.goes_on(node) {
                nodes.push((node, along.count));
            }
            Some(along)
        };
        let found = |token, along: Along| {
            let length = along.count as usize;
            if tokens.len() <= length {
                tokens.resize_with(length + 1, Vec::new);
            }
            tokens[length].push(token);
        };
        match root {
            None => tree.walk(Along::default(), step, found),
            Some(root) => tree.walk_below([root], Along::default(), step, found),
        }
        strangers.sort_by_key(|stranger| stranger.count);
        leaving.iter_mut().for_each(|nodes: &mut Vec<(u32, u32)>| nodes.sort_by_key(|&(_, count)| count));
        let sets = tokens.iter().map(|_: &Vec<TokenId>| OnceLock::new()).collect();
        Self { tokens, sets, vocabulary, leaving, strangers, nodes }
    }

    /// About how many bytes all that takes, with the sets that are made when they are asked for.
    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.tokens.iter().map(|tokens| size_of_val(&tokens[..])).sum();
        let leaving: usize = self.leaving.iter().map(|nodes| size_of_val(&nodes[..])).sum();
        let sets = self.sets.len() * self.vocabulary.div_ceil(8);
        lists + leaving + sets + size_of_val(&self.strangers[..]) + size_of_val(&self.nodes[..])
    }

    /// The tokens of at most so many characters.
    pub(crate) fn up_to(&self, most: u32) -> &Arc<TokenSet> {
        let most = (most as usize).min(self.sets.len() - 1);
        self.sets[most].get_or_init(|| {
            let mut set = TokenSet::new(self.vocabulary);
            self.tokens[..=most].iter().flatten().for_each(|&token| set.insert(token));
            Arc::new(set)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte as the table of UTF-8 has it, and back.
    #[test]
    fn characters_are_followed_byte_by_byte() {
        let mut open = vec![(Along::default(), Automaton::START, Vec::new())];
        while let Some((along, valid, bytes)) = open.pop() {
            for byte in 0x80..=0xff {
                let (next, expected) = (along.beyond(byte), UTF8.next(valid, byte));
                assert_eq!(next.is_some(), expected.is_some(), "{bytes:x?} {byte:x}");
                let (Some(next), Some(valid)) = (next, expected) else { continue };
                let bytes = [&bytes[..], &[byte]].concat();
                assert_eq!(&next.bytes()[..usize::from(next.length)], bytes);
                let (from, to) = next.range();
                let begins =
                    |code| char::from_u32(code).unwrap().encode_utf8(&mut [0; 4]).as_bytes().starts_with(&bytes);
                assert!(begins(from) && (to > 0x10_ffff || (0xd800..0xe000).contains(&to) || begins(to)), "{bytes:x?}");
                match next.is_between() {
                    true => assert_eq!(from, to),
                    false => open.push((next, valid, bytes)),
                }
            }
        }
    }

    #[test]
    fn sets_of_characters_are_ranges() {
        let signs = Signs::of_ranges(vec![(0x90, 0x95), (0x61, 0x63), (0x96, 0x99), (0x7e, 0x85)]);
        assert_eq!(signs, Signs::of_ranges(vec![(0x61, 0x62), (0x63, 0x63), (0x7e, 0x85), (0x90, 0x99)]));
        assert_eq!((signs.len(), signs.contains_ascii(b'b'), signs.contains_ascii(b'd')), (5, true, false));
        assert!(signs.meets((0x80, 0x80)) && signs.meets((0x99, 0x200)) && !signs.meets((0x86, 0x8f)));
    }
}
