//! Searches for marks in a text, and texts that end with one.

use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;

/// Texts to search for. The state of a search is how much of a mark the text ends with: the longest suffix of the text
/// that is a prefix of some mark (Aho, Corasick: Efficient String Matching, 1975).
#[derive(Clone, Copy)]
pub(crate) struct Marks<'m>(pub(crate) &'m [&'m [u8]]);

impl<'m> Marks<'m> {
    /// Bytes that occur in marks are distinguished.
    pub(crate) fn class(self, byte: u8) -> Option<u8> {
        self.0.iter().any(|mark| mark.contains(&byte)).then_some(byte)
    }

    /// The state after one more byte.
    pub(crate) fn next(self, found: &[u8], byte: u8) -> &'m [u8] {
        let text = [found, &[byte]].concat();
        let begun = |from: usize| {
            let mark = self.0.iter().find(|mark| mark.starts_with(&text[from..]))?;
            Some(&mark[..text.len() - from])
        };
        (0..text.len()).find_map(begun).unwrap_or_default()
    }

    /// The state after one more byte of a text that begins with `begun` and must begin with some mark, if it may.
    pub(crate) fn longer(self, begun: &[u8], byte: u8) -> Option<&'m [u8]> {
        let length = begun.len();
        let mark = self.0.iter().find(|mark| mark.starts_with(begun) && mark.get(length) == Some(&byte))?;
        Some(&mark[..=length])
    }

    /// The index of a mark that a text in this state ends with.
    pub(crate) fn whole(self, found: &[u8]) -> Option<usize> {
        self.0.iter().position(|mark| found.ends_with(mark))
    }
}

impl Automaton {
    /// The texts of this automaton, each followed by a mark that the whole contains only at its end. `mark` must not be
    /// empty.
    pub(crate) fn closed_by(&self, budget: &Budget, mark: &[u8]) -> Result<Self, NoAutomaton> {
        let marks = Marks(&[mark]);
        Self::explore_within(
            budget,
            // The state after all bytes that are not part of the mark found so far.
            (Self::START, &mark[..0]),
            |byte| (self.class(byte), marks.class(byte)),
            |&(state, found), byte| {
                let next = (found.len() < mark.len()).then(|| marks.next(found, byte))?;
                let read = found.iter().chain([&byte]).take(found.len() + 1 - next.len());
                let state = read.copied().try_fold(state, |state, byte| self.next(state, byte))?;
                Some((state, &mark[..next.len()]))
            },
            |&(state, found)| found.len() == mark.len() && self.accepts(state),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_the_first_mark() {
        let budget = Budget::without_end();
        let texts = Automaton::literals(["", "x", "a", "ab", "xab", "aab"]).unwrap();
        for (mark, yes, no) in [
            ("\n<", &["\n<", "x\n<", "xab\n<"][..], &["", "x", "y\n<", "\n<\n<", "x\n"][..]),
            // After `ab`, the mark would begin too early.
            ("aba", &["aba", "xaba", "aaba"], &["ababa", "xababa", "aabab"]),
            ("aaa", &["aaa", "xaaa"], &["aaaa", "abaaa "]),
        ] {
            let closed = texts.closed_by(&budget, mark.as_bytes()).unwrap();
            yes.iter().for_each(|text| assert!(closed.matches(text.as_bytes()), "{text:?} {mark:?}"));
            no.iter().for_each(|text| assert!(!closed.matches(text.as_bytes()), "{text:?} {mark:?}"));
        }
    }
}
