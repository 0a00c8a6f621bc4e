//! The tokens that consist only of given characters.
//!
//! They depend on nothing but the characters, so they are computed once per vocabulary. What remains is where tokens
//! continue with another character.

use std::sync::{Arc, OnceLock};

use verdigris_logits::{TokenId, TokenSet};

use super::character_set::CharacterSet;
use super::remainders::Remainders;
use super::tree::Tree;

/// The tokens that consist only of given characters, and the nodes at which tokens leave these characters.
#[derive(Debug)]
pub(crate) struct ClassTokens {
    /// The tokens by length in characters; a last character that is completed by another token counts.
    tokens: Vec<Vec<TokenId>>,
    /// By length, the tokens of at most that many characters; the last set has all of them.
    sets: Box<[OnceLock<Arc<TokenSet>>]>,
    vocabulary: usize,
    /// For each other ASCII byte, the nodes that it leads to, with the number of given characters before it, in
    /// ascending order of that number.
    pub(crate) leaving: Vec<Vec<(u32, u32)>>,
    /// The nodes at which another character beyond ASCII, or a byte that is not UTF-8, becomes certain, in ascending
    /// order of the characters before it.
    pub(crate) strangers: Vec<Stranger>,
    /// The nodes where one of the characters ends and tokens continue, with the number of characters so far.
    pub(crate) nodes: Vec<(u32, u32)>,
    /// The bytes with which one of the characters, or any beyond ASCII, may begin.
    inside: [u64; 4],
    remainders: OnceLock<Remainders>,
}

/// A node at which another character beyond ASCII has begun, or a byte that is not UTF-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stranger {
    /// The number of characters before it.
    pub(crate) count: u32,
    pub(crate) node: u32,
    bytes: [u8; 4],
    length: u8,
}

impl Stranger {
    /// The bytes after the given characters, up to the node.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The position of a walk along characters.
#[derive(Clone, Copy, Default)]
struct CharacterWalk {
    /// The number of characters so far, including an incomplete one.
    count: u32,
    /// The bits so far of the code point of the last character beyond ASCII.
    code: u32,
    /// The number of its bytes so far, and in total.
    length: u8,
    total: u8,
}

impl CharacterWalk {
    fn is_between(self) -> bool {
        self.length == self.total
    }

    /// The position after one more byte of a character beyond ASCII; `None` if it is not valid UTF-8 (Unicode 17, table
    /// 3-7).
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
        // Overlong encodings, surrogates and code points past the last are excluded from the second byte on.
        let is_valid = match (self.length, self.total) {
            (2, 3) => self.code >= 0x20 && !(0x360..0x380).contains(&self.code),
            (2, 4) => (0x10..0x110).contains(&self.code),
            _ => true,
        };
        is_valid.then_some(self)
    }

    /// The node of a byte that is not UTF-8 here, such as the first of a control token.
    fn broken(self, byte: u8, node: u32) -> Stranger {
        let begun = if self.is_between() { 0 } else { self.length };
        let mut bytes = if begun == 0 { [0; 4] } else { self.bytes() };
        bytes[usize::from(begun)] = byte;
        Stranger { count: self.count - u32::from(begun > 0), node, bytes, length: begun + 1 }
    }

    /// The first and last code point that the last character may still have.
    fn range(self) -> (u32, u32) {
        let left = 6 * (self.total - self.length);
        // Smaller code points have shorter encodings.
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

impl ClassTokens {
    /// Finds the tokens below a node of a tree, or in all of it.
    pub(crate) fn new(tree: &Tree, root: Option<u32>, vocabulary: usize, characters: &CharacterSet) -> Self {
        let lookup = characters.lookup();
        let mut leaving = vec![Vec::new(); 128];
        let (mut nodes, mut strangers, mut tokens) = (Vec::new(), Vec::new(), vec![Vec::new()]);
        let step = |along: CharacterWalk, byte: u8, node: u32| {
            if byte < 128 && along.is_between() {
                if !characters.contains_ascii(byte) {
                    leaving[usize::from(byte)].push((node, along.count));
                    return None;
                }
                let along = CharacterWalk { count: along.count + 1, ..along };
                nodes.extend(tree.goes_on(node).then_some((node, along.count)));
                return Some(along);
            }
            let Some(along) = along.beyond(byte) else {
                strangers.push(along.broken(byte, node));
                return None;
            };
            if !lookup.meets(along.range()) {
                let (bytes, length) = (along.bytes(), along.length);
                strangers.push(Stranger { count: along.count - 1, node, bytes, length });
                return None;
            }
            if along.is_between() && tree.goes_on(node) {
                nodes.push((node, along.count));
            }
            Some(along)
        };
        let found = |token, along: CharacterWalk| {
            let length = along.count as usize;
            if tokens.len() <= length {
                tokens.resize_with(length + 1, Vec::new);
            }
            tokens[length].push(token);
        };
        match root {
            None => tree.walk(CharacterWalk::default(), step, found),
            Some(root) => tree.walk_below([root], CharacterWalk::default(), step, found),
        }
        strangers.sort_by_key(|stranger| stranger.count);
        leaving.iter_mut().for_each(|nodes: &mut Vec<(u32, u32)>| nodes.sort_by_key(|&(_, count)| count));
        let sets = tokens.iter().map(|_: &Vec<TokenId>| OnceLock::new()).collect();
        let mut inside = [0, 0, u64::MAX, u64::MAX];
        (0..128u8).filter(|&byte| characters.contains_ascii(byte)).for_each(|byte| {
            inside[usize::from(byte / 64)] |= 1 << (byte % 64);
        });
        let remainders = OnceLock::new();
        Self { tokens, sets, vocabulary, leaving, strangers, nodes, inside, remainders }
    }

    /// Whether one of the characters, or any beyond ASCII, may begin with one of some bytes.
    pub(crate) fn may_begin(&self, bytes: [u64; 4]) -> bool {
        self.inside.iter().zip(bytes).any(|(inside, bytes)| inside & bytes != 0)
    }

    /// The nodes after one of the characters, at most `most` of them, at which tokens continue.
    pub(crate) fn nodes_up_to(&self, most: u32) -> impl Iterator<Item = u32> {
        self.nodes.iter().filter(move |&&(_, count)| count <= most).map(|&(node, _)| node)
    }

    /// The remainders of tokens that continue with another ASCII character after one or more of these.
    pub(crate) fn remainders(&self, all: &Tree) -> &Remainders {
        self.remainders.get_or_init(|| {
            Remainders::new(all, self.leaving.iter().flatten().copied().filter(|&(_, count)| count > 0))
        })
    }

    /// The approximate number of bytes, including the sets that are built on demand.
    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.tokens.iter().map(|tokens| size_of_val(&tokens[..])).sum();
        let leaving: usize = self.leaving.iter().map(|nodes| size_of_val(&nodes[..])).sum();
        let sets = self.sets.len() * self.vocabulary.div_ceil(8);
        let remainders = self.remainders.get().map_or(0, Remainders::bytes);
        lists + leaving + sets + remainders + size_of_val(&self.strangers[..]) + size_of_val(&self.nodes[..])
    }

    /// The tokens of at most `most` characters.
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

    /// Compares with the standard library's UTF-8 decoder, byte by byte, and encodes back.
    #[test]
    fn characters_are_followed_byte_by_byte() {
        let mut open = vec![(CharacterWalk::default(), Vec::new())];
        while let Some((walk, bytes)) = open.pop() {
            for byte in 0x80..=0xff {
                let bytes = [&bytes[..], &[byte]].concat();
                let begins_text =
                    std::str::from_utf8(&bytes).map_or_else(|error| error.error_len().is_none(), |_| true);
                let next = walk.beyond(byte);
                assert_eq!(next.is_some(), begins_text, "{bytes:x?}");
                let Some(next) = next else { continue };
                assert_eq!(&next.bytes()[..usize::from(next.length)], bytes);
                let (from, to) = next.range();
                let begins =
                    |code| char::from_u32(code).unwrap().encode_utf8(&mut [0; 4]).as_bytes().starts_with(&bytes);
                assert!(begins(from) && (to > 0x10_ffff || (0xd800..0xe000).contains(&to) || begins(to)), "{bytes:x?}");
                match next.is_between() {
                    true => assert_eq!(from, to),
                    false => open.push((next, bytes)),
                }
            }
        }
    }
}
