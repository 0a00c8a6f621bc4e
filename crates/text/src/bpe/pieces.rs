//! Words as characters, with `▁` for a space and tokens of bytes for unknown characters, as in SentencePiece.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use verdigris_logits::TokenId;

use super::merges::{Merges, Queue};
use super::names::{Names, Part};

/// The character of a space in the names of tokens.
pub(super) const SPACE: char = '▁';

/// The encoder of words of pieces.
pub(super) struct Pieces {
    /// The tokens of single characters.
    characters: HashMap<char, TokenId, FixedState>,
    bytes: [TokenId; 256],
    ignore_merges: bool,
    /// Whether each space begins a new word.
    splits: bool,
    joints: Joints,
}

/// The pairs of characters between which tokens are merged: a token that ends with the first one, and a token that
/// begins with the second. Between all other characters a text can be cut without changing its tokens.
#[derive(Default)]
struct Joints {
    /// For each ASCII character (and for [`SPACE`], as number 0) the ASCII characters that may follow.
    ascii: Box<[u128]>,
    others: HashSet<(char, char), FixedState>,
}

impl Joints {
    fn add(&mut self, pair: (char, char)) {
        self.others.insert(pair);
        if let (Some(first), Some(second)) = (number(pair.0), number(pair.1)) {
            self.ascii[first] |= 1 << second;
        }
    }

    fn has(&self, pair: (char, char)) -> bool {
        match (number(pair.0), number(pair.1)) {
            (Some(first), Some(second)) => self.ascii[first] >> second & 1 == 1,
            _ => self.others.contains(&pair),
        }
    }
}

/// The number of a frequent character.
fn number(c: char) -> Option<usize> {
    match c {
        SPACE => Some(0),
        '\x01'..='\x7f' => Some(c as usize),
        _ => None,
    }
}

impl Pieces {
    /// `None` if a byte has no token, or if tokens of bytes are merged.
    pub(super) fn new(names: &Names, merges: &Merges, ignore_merges: bool, splits: bool) -> Option<Self> {
        let mut bytes = [0; 256];
        for (byte, token) in (0..=255u8).zip(&mut bytes) {
            *token = names.id(&format!("<0x{byte:02X}>"))?;
        }
        let mut characters = HashMap::with_hasher(FixedState::default());
        let mut ends = vec![None; names.iter().map(|(id, _)| id as usize + 1).max()?];
        for (id, name) in names.iter() {
            let mut chars = name.chars();
            let first = chars.next()?;
            let last = chars.next_back();
            if last.is_none() {
                characters.insert(first, id);
            }
            ends[id as usize] = Some((first, last.unwrap_or(first)));
        }
        bytes.iter().for_each(|&id| ends[id as usize] = None);
        let mut joints = Joints { ascii: [0; 128].into(), ..Joints::default() };
        match merges {
            Merges::Listed(listed) => {
                for (first, second) in listed.pairs() {
                    joints.add((ends[first as usize]?.1, ends[second as usize]?.0));
                }
            }
            Merges::Scored(scored) => {
                if bytes.iter().any(|&id| scored.merges(id)) {
                    return None;
                }
                // Some of these may be inside tokens that no pair becomes.
                for (_, name) in names.iter().filter(|&(id, _)| scored.merges(id)) {
                    name.chars().zip(name.chars().skip(1)).for_each(|pair| joints.add(pair));
                }
            }
        }
        Some(Self { characters, bytes, ignore_merges, splits, joints })
    }

    /// The length of a character in the names of tokens.
    pub(super) fn length(c: char) -> usize {
        if c == ' ' { SPACE.len_utf8() } else { c.len_utf8() }
    }

    /// Passes the words of a text to `each`: ranges in which all merges are.
    pub(super) fn words(&self, text: &str, mut each: impl FnMut(std::ops::Range<usize>)) {
        // Whether a text is cut before a character. With `ignore_merges` a whole word might be a token.
        let cuts = |before, c| self.splits && c == SPACE || !(self.ignore_merges || self.joints.has((before, c)));
        let (mut start, mut before) = (0, None);
        for (at, c) in text.char_indices() {
            let c = if c == ' ' { SPACE } else { c };
            if before.is_some_and(|before| cuts(before, c)) {
                each(start..at);
                start = at;
            }
            before = Some(c);
        }
        if start < text.len() {
            each(start..text.len());
        }
    }

    /// Replaces `parts` by the tokens of a word, in which a space and [`SPACE`] are the same. Lengths are those of the
    /// names, in which a space has three bytes.
    pub(super) fn encode(&self, word: &str, names: &Names, merges: &Merges, parts: &mut Vec<Part>, queue: &mut Queue) {
        parts.clear();
        let characters = word.chars().map(|c| if c == ' ' { SPACE } else { c });
        if self.ignore_merges
            && let Some(token) = names.whole(characters.clone(), &mut queue.name)
        {
            return parts.push(token);
        }
        for c in characters {
            match self.characters.get(&c) {
                Some(&id) => parts.push(Part { id, length: c.len_utf8() as u32 }),
                None => {
                    let mut utf8 = [0; 4];
                    let bytes = c.encode_utf8(&mut utf8).bytes();
                    parts.extend(bytes.map(|byte| Part { id: self.bytes[usize::from(byte)], length: 1 }));
                }
            }
        }
        merges.merge(names, parts, queue);
    }
}
