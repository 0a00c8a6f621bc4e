//! Sets of characters, stored as bits for ASCII and as ranges beyond it.

use std::sync::Arc;

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CharacterSet {
    ascii: [u64; 2],
    /// The code points beyond ASCII, as ranges in order, both ends included.
    beyond: Arc<[(u32, u32)]>,
}

impl CharacterSet {
    /// The ASCII characters for which `is_in` is true, and all characters beyond ASCII or none.
    pub(crate) fn of_ascii(is_in: impl Fn(u8) -> bool, all_beyond: bool) -> Self {
        let all: &[(u32, u32)] = &[(0x80, 0xd7ff), (0xe000, 0x10_ffff)];
        Self { ascii: bits(is_in), beyond: if all_beyond { all } else { &[] }.into() }
    }

    /// The characters in some ranges of code points.
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

    /// Whether the set has a character in a range beyond ASCII.
    fn meets(&self, (from, to): (u32, u32)) -> bool {
        let first = self.beyond.partition_point(|range| range.1 < from);
        self.beyond.get(first).is_some_and(|range| range.0 <= to)
    }

    /// The same set, prepared for many queries.
    pub(super) fn lookup(&self) -> Lookup<'_> {
        let mut words = vec![0; PLANE as usize / 64];
        for &(from, to) in self.beyond.iter().filter(|range| range.0 < PLANE) {
            let to = to.min(PLANE - 1);
            let (first, last) = (from as usize / 64, to as usize / 64);
            words[first..=last].iter_mut().zip(first..).for_each(|(word, at)| *word |= bits_of(at, from, to));
        }
        Lookup { set: self, words }
    }

    /// The number of ASCII characters in the set.
    pub(crate) fn len(&self) -> u32 {
        self.ascii.iter().map(|word| word.count_ones()).sum()
    }
}

/// A set of characters with a bit for each of the first 65,536 code points. Most characters of a vocabulary beyond
/// ASCII are among them, and a class such as `\w` has hundreds of ranges to search.
pub(super) struct Lookup<'a> {
    set: &'a CharacterSet,
    words: Vec<u64>,
}

/// The number of code points that have bits.
const PLANE: u32 = 1 << 16;

impl Lookup<'_> {
    /// Whether the set has a character in a range beyond ASCII.
    pub(super) fn meets(&self, (from, to): (u32, u32)) -> bool {
        if to >= PLANE {
            return self.set.meets((from, to));
        }
        let (first, last) = (from as usize / 64, to as usize / 64);
        self.words[first..=last].iter().zip(first..).any(|(word, at)| word & bits_of(at, from, to) != 0)
    }
}

/// The bits of a range of code points in the word at an index.
fn bits_of(word: usize, from: u32, to: u32) -> u64 {
    let start = 64 * word as u32;
    let (low, high) = (from.max(start) - start, to.min(start + 63) - start);
    (u64::MAX << low) & (u64::MAX >> (63 - high))
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
        let set = CharacterSet::of_ranges(vec![(0x90, 0x95), (0x61, 0x63), (0x96, 0x99), (0x7e, 0x85)]);
        assert_eq!(set, CharacterSet::of_ranges(vec![(0x61, 0x62), (0x63, 0x63), (0x7e, 0x85), (0x90, 0x99)]));
        assert_eq!((set.len(), set.contains_ascii(b'b'), set.contains_ascii(b'd')), (5, true, false));
        for from in 0x80..0xa8 {
            for to in from..0xa8 {
                assert_eq!(set.lookup().meets((from, to)), set.meets((from, to)), "{from:x} to {to:x}");
            }
        }
        assert!(set.meets((0x80, 0x80)) && set.meets((0x99, 0x200)) && !set.meets((0x86, 0x8f)));
    }
}
