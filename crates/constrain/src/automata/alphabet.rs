//! Classes of characters that an expression does not distinguish.
//!
//! `\w` has 140,000 characters, and their UTF-8 takes hundreds of states wherever it occurs. But an expression has few
//! *classes* of characters. Each is a letter of its automaton, and one table maps UTF-8 to letters.

use foldhash::{HashMap, HashMapExt};

/// The number of a class of characters.
pub(crate) type Letter = u8;

/// Ranges of code points, both ends included.
pub(crate) type Ranges = Vec<(u32, u32)>;

/// The letter of characters that are in no class.
const NO_LETTER: Letter = Letter::MAX;

/// The maximum number of ranges of code points in an alphabet.
const MAX_RUNS: usize = 1 << 14;

const NONE: u32 = u32::MAX;

/// The letters of characters, by UTF-8.
#[derive(Debug)]
pub(crate) struct Alphabet {
    ascii: [Letter; 128],
    /// The node after each first byte of a longer character, from 0xc0 on.
    leads: [u32; 64],
    nodes: Vec<Node>,
    /// The code points of each letter.
    ranges: Vec<Ranges>,
}

/// A position inside a character.
#[derive(Debug)]
struct Node {
    /// The number of bytes left in the character.
    left: u8,
    /// The letters that it may become.
    letters: Letters,
    /// By the next byte: the letter if this is the last byte, else the next node.
    next: [u32; 64],
}

/// A set of letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Letters([u64; 4]);

impl Letters {
    pub(crate) fn insert(&mut self, letter: Letter) {
        self.0[usize::from(letter) / 64] |= 1 << (letter % 64);
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Letter> {
        [0, 64, 128, 192].into_iter().zip(self.0).flat_map(|(first, mut word): (Letter, u64)| {
            std::iter::from_fn(move || {
                let letter = (word != 0).then(|| first + word.trailing_zeros() as Letter);
                word &= word.wrapping_sub(1);
                letter
            })
        })
    }
}

/// The result of reading one byte of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The character is complete and has this letter.
    Whole(Letter),
    /// The character has more bytes; this is the position inside it.
    Inside(u32),
}

/// Runs of code points that share a letter, as the first code point of each; the first run begins at 0.
type Runs = Vec<(u32, Letter)>;

impl Alphabet {
    /// The position between characters. Positions inside a character have larger numbers.
    pub(crate) const BETWEEN: u32 = 0;

    /// Returns the alphabet that distinguishes the given classes, and the letters of each class; `None` if there would
    /// be too many letters or ranges.
    pub(crate) fn new(classes: &[Ranges]) -> Option<(Self, Vec<Vec<Letter>>)> {
        let mut bounds: Vec<(u32, usize)> = Vec::new();
        for (class, ranges) in classes.iter().enumerate() {
            for &(from, to) in ranges {
                // Surrogates of UTF-16 are not characters.
                let parts = [(from, to.min(0xd7ff)), (from.max(0xe000), to)];
                let parts = parts.into_iter().filter(|(from, to)| from <= to);
                parts.for_each(|(from, to)| bounds.extend([(from, class), (to + 1, class)]));
            }
        }
        bounds.sort_unstable();
        let mut member = vec![0u64; classes.len().div_ceil(64)];
        let mut numbers: HashMap<Vec<u64>, Letter> = HashMap::from_iter([(member.clone(), NO_LETTER)]);
        let mut runs: Runs = vec![(0, NO_LETTER)];
        for same in bounds.chunk_by(|a, b| a.0 == b.0) {
            same.iter().for_each(|&(_, class)| member[class / 64] ^= 1 << (class % 64));
            let next = numbers.len() as Letter - 1;
            let letter = *numbers.entry(member.clone()).or_insert(next);
            if numbers.len() > usize::from(NO_LETTER) || runs.len() == MAX_RUNS {
                return None;
            }
            runs.push((same[0].0, letter));
        }
        let mut ranges: Vec<Ranges> = vec![Vec::new(); numbers.len() - 1];
        for pair in runs.windows(2).filter(|pair| pair[0].1 != NO_LETTER && pair[0].0 < pair[1].0) {
            let of_letter = &mut ranges[usize::from(pair[0].1)];
            match of_letter.last_mut() {
                Some(last) if last.1 + 1 == pair[0].0 => last.1 = pair[1].0 - 1,
                _ => of_letter.push((pair[0].0, pair[1].0 - 1)),
            }
        }
        let mut letters = vec![Vec::new(); classes.len()];
        for (member, letter) in numbers {
            for (class, of_class) in letters.iter_mut().enumerate() {
                if member[class / 64] >> (class % 64) & 1 == 1 {
                    of_class.push(letter);
                }
            }
        }
        Some((Self::of_runs(&runs, ranges), letters))
    }

    fn of_runs(runs: &Runs, ranges: Vec<Ranges>) -> Self {
        let mut builder = Builder { nodes: Vec::new(), numbers: HashMap::new() };
        // Each first byte covers a range of code points. Overlong encodings and code points past the last are left out.
        let leads = std::array::from_fn(|i| match 0xc0 + i as u32 {
            lead @ 0xc2..=0xdf => builder.node(1, window(runs, (lead - 0xc0) << 6, 1 << 6, 0)),
            lead @ 0xe0..=0xef => builder.node(2, window(runs, (lead - 0xe0) << 12, 1 << 12, 0x800)),
            lead @ 0xf0..=0xf4 => builder.node(3, window(runs, (lead - 0xf0) << 18, 1 << 18, 0x1_0000)),
            _ => NONE,
        });
        let ascii = std::array::from_fn(|byte| runs[runs.partition_point(|run| run.0 as usize <= byte) - 1].1);
        Self { ascii, leads, nodes: builder.nodes, ranges }
    }

    /// All letters.
    pub(crate) fn letters(&self) -> impl Iterator<Item = Letter> {
        (0..self.ranges.len()).map(|letter| letter as Letter)
    }

    /// The number of positions, the one between characters included.
    pub(crate) fn positions(&self) -> usize {
        self.nodes.len() + 1
    }

    /// The code points of a letter.
    pub(crate) fn ranges(&self, letter: Letter) -> &[(u32, u32)] {
        &self.ranges[usize::from(letter)]
    }

    /// The number of ASCII characters that have a letter.
    pub(crate) fn of_ascii(&self, letter: Letter) -> u32 {
        self.ranges(letter).iter().take_while(|range| range.0 < 128).map(|&(from, to)| to.min(127) + 1 - from).sum()
    }

    /// The fewest bytes that encode a character of a letter; 0 for an unknown letter.
    pub(crate) fn bytes(&self, letter: Letter) -> u32 {
        let least = self.ranges.get(usize::from(letter)).and_then(|ranges| char::from_u32(ranges.first()?.0));
        least.map_or(0, |c| c.len_utf8() as u32)
    }

    /// The state after one more byte of a character; `None` if no character has that byte here.
    #[inline]
    pub(crate) fn next(&self, position: u32, byte: u8) -> Option<Read> {
        if position == Self::BETWEEN {
            if let Some(&letter) = self.ascii.get(usize::from(byte)) {
                return (letter != NO_LETTER).then_some(Read::Whole(letter));
            }
            let node = *self.leads.get(usize::from(byte).wrapping_sub(0xc0))?;
            return (node != NONE).then(|| Read::Inside(node + 1));
        }
        let node = &self.nodes[position as usize - 1];
        let next = *node.next.get(usize::from(byte).wrapping_sub(0x80))?;
        match (next, node.left) {
            (NONE, _) => None,
            (letter, 1) => Some(Read::Whole(letter as Letter)),
            (node, _) => Some(Read::Inside(node + 1)),
        }
    }

    /// For a position inside a character: the number of bytes left, and the letters that it may become.
    pub(crate) fn inside(&self, position: u32) -> (u8, Letters) {
        let Node { left, letters, .. } = self.nodes[position as usize - 1];
        (left, letters)
    }
}

/// The runs of `width` code points from `from` on, counted from there; those below `least` have no letter.
fn window(runs: &[(u32, Letter)], from: u32, width: u32, least: u32) -> Runs {
    let first = runs.partition_point(|run| run.0 <= from) - 1;
    let mut part: Runs = Vec::new();
    let mut push = |start: u32, letter: Letter| {
        if part.last().is_none_or(|&(_, last)| last != letter) {
            part.push((start, letter));
        }
    };
    if from < least {
        push(0, NO_LETTER);
    }
    for (i, &(start, letter)) in runs[first..].iter().enumerate().take_while(|(_, run)| run.0 < from + width) {
        let end = runs.get(first + i + 1).map_or(u32::MAX, |next| next.0);
        if end > least {
            push(start.max(from).max(least) - from, letter);
        }
    }
    part
}

/// Builds nodes; equal nodes are shared.
struct Builder {
    nodes: Vec<Node>,
    numbers: HashMap<(u8, Runs), u32>,
}

impl Builder {
    fn node(&mut self, left: u8, runs: Runs) -> u32 {
        if runs.iter().all(|&(_, letter)| letter == NO_LETTER) {
            return NONE;
        }
        if let Some(&known) = self.numbers.get(&(left, runs.clone())) {
            return known;
        }
        let width = 1 << (6 * (left - 1));
        let mut letters = Letters::default();
        let next = std::array::from_fn(|i| {
            let part = window(&runs, i as u32 * width, width, 0);
            part.iter().filter(|run| run.1 != NO_LETTER).for_each(|&(_, letter)| letters.insert(letter));
            match (left, part[0].1) {
                (1, NO_LETTER) => NONE,
                (1, letter) => letter.into(),
                _ => self.node(left - 1, part),
            }
        });
        self.nodes.push(Node { left, letters, next });
        self.numbers.insert((left, runs), self.nodes.len() as u32 - 1);
        self.nodes.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(alphabet: &Alphabet, bytes: &[u8]) -> Option<Read> {
        let (last, first) = bytes.split_last()?;
        let position =
            first.iter().try_fold(Alphabet::BETWEEN, |position, &byte| match alphabet.next(position, byte)? {
                Read::Inside(position) => Some(position),
                Read::Whole(_) => None,
            });
        alphabet.next(position?, *last)
    }

    #[test]
    fn every_character_has_the_letter_of_its_classes() {
        let classes: Vec<Ranges> = vec![
            vec![(0x61, 0x7a), (0xe0, 0xff), (0x4e00, 0x9fff), (0x1_f600, 0x1_f64f)],
            vec![(0x20, 0x20), (0x70, 0x1000), (0xd000, 0x10_ffff)],
            vec![(0x62, 0x62)],
        ];
        let (alphabet, letters) = Alphabet::new(&classes).unwrap();
        let mut by_letter = vec![0; alphabet.letters().count()];
        for c in '\0'..=char::MAX {
            let of = |class: &Ranges| class.iter().any(|&(from, to)| (from..=to).contains(&u32::from(c)));
            let is_in: Vec<bool> = classes.iter().map(of).collect();
            match read(&alphabet, c.encode_utf8(&mut [0; 4]).as_bytes()) {
                None => assert!(!is_in.contains(&true), "{c:?}"),
                Some(Read::Whole(letter)) => {
                    let said: Vec<bool> = letters.iter().map(|letters| letters.contains(&letter)).collect();
                    assert_eq!(said, is_in, "{c:?}");
                    assert!(alphabet.ranges(letter).iter().any(|&(a, b)| (a..=b).contains(&u32::from(c))));
                    assert!(alphabet.bytes(letter) <= c.len_utf8() as u32);
                    by_letter[usize::from(letter)] += u32::from(c.is_ascii());
                }
                Some(Read::Inside(_)) => panic!("{c:?} is whole"),
            }
        }
        for (letter, count) in (0..).zip(by_letter) {
            assert_eq!(alphabet.of_ascii(letter), count);
        }
        // Overlong encodings, code points past the last, surrogates.
        for bytes in [&b"\xc1\xa1"[..], b"\xe0\x81\xa1", b"\xf0\x80\x81\xa1", b"\xf4\x90\x80\x80", b"\xed\xa0\x80"] {
            assert_eq!(read(&alphabet, bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_inside_a_character_is_known() {
        let (alphabet, letters) = Alphabet::new(&[vec![(0xe9, 0xe9)], vec![(0xe0, 0xea)]]).unwrap();
        let Some(Read::Inside(position)) = alphabet.next(Alphabet::BETWEEN, 0xc3) else { panic!("it is inside") };
        let (left, inside) = alphabet.inside(position);
        let mut all: Vec<Letter> = letters[1].clone();
        all.sort_unstable();
        assert_eq!((left, inside.iter().collect::<Vec<_>>()), (1, all));
        assert_eq!(letters[0].len(), 1);
        assert_eq!(alphabet.next(Alphabet::BETWEEN, 0xc4), None);
    }

    #[test]
    fn too_many_classes_are_refused() {
        let some = |n: u32| -> Vec<Ranges> { (0..n).map(|i| vec![(0x4e00 + i, 0x4e00 + i)]).collect() };
        assert!(Alphabet::new(&some(254)).is_some() && Alphabet::new(&some(255)).is_none());
    }
}
