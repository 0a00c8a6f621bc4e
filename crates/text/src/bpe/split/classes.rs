//! Classes of characters that a pattern treats alike.

use std::collections::{BTreeMap, HashMap};

use regex_syntax::hir::ClassUnicode;

/// The number of characters of a block of the table.
const BLOCK: usize = 256;

/// The maximum number of sets and of classes.
const MOST: usize = 128;

/// The class of every character. Two characters are in one class if each set of a pattern has both or neither.
pub(super) struct Classes {
    ascii: [u8; 128],
    /// The index of each block of characters in `blocks`.
    index: Vec<u16>,
    /// Blocks, each different from the others.
    blocks: Vec<[u8; BLOCK]>,
    /// For each class, the sets that its characters belong to, one bit each.
    sets: Vec<u128>,
}

impl Classes {
    /// Creates the classes for some sets of characters; `None` if there are too many.
    pub(super) fn of(sets: &[ClassUnicode]) -> Option<Self> {
        if sets.len() > MOST {
            return None;
        }
        // The sets that begin or end at a character.
        let mut changes: BTreeMap<u32, u128> = BTreeMap::from([(0, 0)]);
        for (bit, set) in sets.iter().enumerate() {
            for range in set.ranges() {
                *changes.entry(range.start() as u32).or_default() ^= 1 << bit;
                *changes.entry(range.end() as u32 + 1).or_default() ^= 1 << bit;
            }
        }
        let (mut members, mut known) = (0u128, HashMap::new());
        let mut table = vec![0u8; char::MAX as usize + 1];
        let starts: Vec<(u32, u128)> = changes.into_iter().collect();
        for (at, &(start, change)) in starts.iter().enumerate() {
            members ^= change;
            let count = known.len();
            let class = *known.entry(members).or_insert(count);
            let end = starts.get(at + 1).map_or(table.len(), |(next, _)| *next as usize);
            if class > 0 {
                table[(start as usize).min(end)..end].fill(u8::try_from(class).ok()?);
            }
        }
        if known.len() > MOST {
            return None;
        }
        let (mut index, mut blocks, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
        for block in table.as_chunks::<BLOCK>().0 {
            let number = *numbers.entry(*block).or_insert_with(|| {
                blocks.push(*block);
                blocks.len() as u16 - 1
            });
            index.push(number);
        }
        let mut sets = vec![0; known.len()];
        known.into_iter().for_each(|(members, class)| sets[class] = members);
        let ascii = std::array::from_fn(|byte| table[byte]);
        Some(Self { ascii, index, blocks, sets })
    }

    /// The number of classes.
    pub(super) fn count(&self) -> usize {
        self.sets.len()
    }

    /// The classes whose characters are in a set, given by its number.
    pub(super) fn in_set(&self, set: usize) -> impl Iterator<Item = u8> {
        self.sets.iter().enumerate().filter(move |(_, sets)| **sets >> set & 1 == 1).map(|(class, _)| class as u8)
    }

    /// The class of a byte below 128.
    #[inline]
    pub(super) fn of_ascii(&self, byte: u8) -> u8 {
        self.ascii[usize::from(byte & 0x7f)]
    }

    /// The class of a character.
    #[inline]
    pub(super) fn of_char(&self, c: char) -> u8 {
        let code = c as usize;
        self.blocks[usize::from(self.index[code / BLOCK])][code % BLOCK]
    }
}
