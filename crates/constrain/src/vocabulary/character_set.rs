//! Sets of characters, by ASCII and by ranges beyond it.

use std::sync::Arc;

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CharacterSet {
    ascii: [u64; 2],
    /// The code points beyond ASCII, as ranges in order, both ends included.
    beyond: Arc<[(u32, u32)]>,
}

impl CharacterSet {
    /// The characters of ASCII that `is_in` says, and all beyond it or none.
    pub(crate) fn of_ascii(is_in: impl Fn(u8) -> bool, all_beyond: bool) -> Self {
        let all: &[(u32, u32)] = &[(0x80, 0xd7ff), (0xe000, 0x10_ffff)];
        Self { ascii: bits(is_in), beyond: if all_beyond { all } else { &[] }.into() }
    }

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

    pub(super) fn contains_ascii(&self, byte: u8) -> bool {
        self.ascii[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }

    /// Whether one of them has a code point in a range beyond ASCII.
    pub(super) fn meets(&self, (from, to): (u32, u32)) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_characters_are_ranges() {
        let signs = CharacterSet::of_ranges(vec![(0x90, 0x95), (0x61, 0x63), (0x96, 0x99), (0x7e, 0x85)]);
        assert_eq!(signs, CharacterSet::of_ranges(vec![(0x61, 0x62), (0x63, 0x63), (0x7e, 0x85), (0x90, 0x99)]));
        assert_eq!((signs.len(), signs.contains_ascii(b'b'), signs.contains_ascii(b'd')), (5, true, false));
        assert!(signs.meets((0x80, 0x80)) && signs.meets((0x99, 0x200)) && !signs.meets((0x86, 0x8f)));
    }
}
