//! Text in which anything may occur except a marker.
//!
//! A model that may call tools writes freely until it begins a call: `<tool_call>`. From there on it is constrained.

use crate::automata::automaton::Automaton;
use crate::grammar::Grammar;

/// Finds how much of a marker a text ends with (Knuth, Morris, Pratt: Fast Pattern Matching in Strings, 1977).
struct Search<'m> {
    mark: &'m [u8],
    /// For each `i`, the length of the longest proper prefix of the first `i` bytes of the marker that is also their
    /// suffix.
    borders: Vec<usize>,
}

impl<'m> Search<'m> {
    fn new(mark: &'m [u8]) -> Self {
        let mut search = Self { mark, borders: vec![0; 2] };
        for &byte in &mark[1..] {
            let last = *search.borders.last().expect("it begins with two");
            search.borders.push(search.next(last, byte));
        }
        search
    }

    /// How much of the marker the text ends with after one more byte, if it ended with `found` bytes, not all, before.
    fn next(&self, mut found: usize, byte: u8) -> usize {
        while self.mark[found] != byte {
            if found == 0 {
                return 0;
            }
            found = self.borders[found];
        }
        found + 1
    }
}

impl Grammar {
    /// Creates the grammar of any texts, of any bytes, that do not contain a marker. `None` if the marker is empty.
    pub fn free_of(mark: &str) -> Option<Self> {
        Self::searched(mark, |found, whole| found < whole)
    }

    /// Creates the grammar of any texts, of any bytes, that end with a marker and do not contain it earlier. `None` if
    /// the marker is empty.
    pub fn up_to(mark: &str) -> Option<Self> {
        Self::searched(mark, |found, whole| found == whole)
    }

    fn searched(mark: &str, accepts: impl Fn(usize, usize) -> bool) -> Option<Self> {
        let mark = mark.as_bytes();
        let (search, whole) = (Some(mark).filter(|mark| !mark.is_empty()).map(Search::new)?, mark.len());
        let automaton = Automaton::explore(
            0,
            |byte| mark.iter().position(|of_mark| *of_mark == byte),
            |&found, byte| (found < whole).then(|| search.next(found, byte)),
            |&found| accepts(found, whole),
        );
        // It has at most one state more than the marker has bytes.
        automaton.ok().map(Self::of)
    }

    /// Creates the grammar of any texts, of any bytes, that do not begin with a marker. `None` if the marker is empty.
    pub fn not_beginning(mark: &str) -> Option<Self> {
        let mark = mark.as_bytes();
        // The length of the text if it is a prefix of the marker, else `None`.
        let automaton = Automaton::explore(
            Some(0),
            |byte| mark.iter().position(|of_mark| *of_mark == byte),
            |begun, byte| match begun.map(|begun: usize| (begun + 1, mark.get(begun) == Some(&byte))) {
                Some((begun, true)) => (begun < mark.len()).then_some(Some(begun)),
                _ => Some(None),
            },
            |_| true,
        );
        automaton.ok().filter(|_| !mark.is_empty()).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{LEXICON, accepts, machine_of};

    /// Compares with the definition for all texts of a few letters.
    #[test]
    fn a_mark_is_found_wherever_it_stands() {
        for mark in ["a", "ab", "aab", "abab", "aabaaa", "bbb"] {
            let machine = |grammar: Option<Grammar>| machine_of(grammar.unwrap());
            let free = machine(Grammar::free_of(mark));
            let up_to = machine(Grammar::up_to(mark));
            let other = machine(Grammar::not_beginning(mark));
            let mut texts = vec![String::new()];
            for _ in 0..7 {
                let longer = texts.iter().flat_map(|text| ["a", "b", "é"].map(|letter| format!("{text}{letter}")));
                texts = [String::new()].into_iter().chain(longer).collect();
                texts.sort();
                texts.dedup();
            }
            assert!(texts.len() > 3000);
            for text in &texts {
                assert_eq!(accepts(&free, text), !text.contains(mark), "{text} without {mark}");
                let is_last = text.find(mark).is_some_and(|at| at + mark.len() == text.len());
                assert_eq!(accepts(&up_to, text), is_last, "{text} to {mark}");
                assert_eq!(accepts(&other, text), !text.starts_with(mark), "{text} not from {mark}");
            }
        }
        assert!(Grammar::free_of("").is_none() && Grammar::up_to("").is_none() && Grammar::not_beginning("").is_none());
    }

    /// Free text is not steered: every token with bytes is allowed, even parts of characters.
    #[test]
    fn free_text_is_free() {
        let vocabulary = LEXICON.tokenizer().vocabulary();
        let free = machine_of(Grammar::free_of("<tool_call>").unwrap());
        let state = free.next(free.start(), b"A text <tool_");
        let mask = free.mask(state);
        assert!(mask.accepts);
        for token in 0..vocabulary.size() as u32 {
            let bytes = vocabulary.bytes(token);
            let expected = !bytes.is_empty() && !bytes.starts_with(b"call>");
            assert_eq!(mask.tokens.contains(token), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
