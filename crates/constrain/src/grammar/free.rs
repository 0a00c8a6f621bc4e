//! Text in which anything may occur except a marker.
//!
//! A model that may call tools writes freely until it begins a call: `<tool_call>`. From there on it is constrained.

use verdigris_text::Vocabulary;

use crate::automata::automaton::Automaton;
use crate::grammar::Grammar;

/// A marker, which may have control tokens in it.
struct Marker<'m>(&'m [u8]);

impl Marker<'_> {
    /// Bytes that the marker and the search for it treat alike.
    fn class(&self, byte: u8) -> (Option<usize>, bool) {
        (self.0.iter().position(|of_mark| *of_mark == byte), is_control(byte))
    }

    /// Whether the first bytes of the marker end inside a control token.
    fn is_inside(&self, found: usize) -> bool {
        let [begin, end] = Vocabulary::CONTROL;
        self.0[..found].iter().rev().find(|&&byte| byte == begin || byte == end) == Some(&begin)
    }
}

/// Whether a byte begins or ends a control token.
fn is_control(byte: u8) -> bool {
    Vocabulary::CONTROL.contains(&byte)
}

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
    /// Creates the grammar of any texts without control tokens, of any other bytes, that do not contain a marker.
    /// `None` if the marker is empty.
    pub fn free_of(mark: impl AsRef<[u8]>) -> Option<Self> {
        Self::searched(mark.as_ref(), |found, whole| found < whole)
    }

    /// Creates the grammar of any texts, of any bytes, that end with a marker and do not contain it earlier, nor any
    /// control token but those of the marker. `None` if the marker is empty.
    pub fn up_to(mark: impl AsRef<[u8]>) -> Option<Self> {
        Self::searched(mark.as_ref(), |found, whole| found == whole)
    }

    fn searched(mark: &[u8], accepts: impl Fn(usize, usize) -> bool) -> Option<Self> {
        let (search, whole) = (Some(mark).filter(|mark| !mark.is_empty()).map(Search::new)?, mark.len());
        let marker = Marker(mark);
        let automaton = Automaton::explore(
            0,
            |byte| marker.class(byte),
            |&found, byte| {
                let next = (found < whole).then(|| search.next(found, byte))?;
                let is_free = !is_control(byte) && !marker.is_inside(found);
                (is_free || next == found + 1 || next > 0 && !marker.is_inside(found)).then_some(next)
            },
            |&found| !marker.is_inside(found) && accepts(found, whole),
        );
        // It has at most one state more than the marker has bytes.
        automaton.ok().map(Self::of)
    }

    /// Creates the grammar of any texts without control tokens, of any other bytes, that do not begin with a marker.
    /// `None` if the marker is empty.
    pub fn not_beginning(mark: impl AsRef<[u8]>) -> Option<Self> {
        let mark = mark.as_ref();
        let marker = Marker(mark);
        // The length of the text if it is a prefix of the marker, else `None`.
        let automaton = Automaton::explore(
            Some(0),
            |byte| marker.class(byte),
            |begun, byte| match begun.map(|begun: usize| (begun + 1, mark.get(begun) == Some(&byte))) {
                Some((begun, true)) => (begun < mark.len()).then_some(Some(begun)),
                Some((begun, false)) if marker.is_inside(begun - 1) => None,
                _ => (!is_control(byte)).then_some(None),
            },
            |begun| !begun.is_some_and(|begun| marker.is_inside(begun)),
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

    /// Control tokens are part of a text only where the marker has them.
    #[test]
    fn a_mark_may_have_control_tokens() {
        let spell = |text: &str| [b"\xff", text.as_bytes(), b"\xfe"].concat();
        let (end, other) = (spell("<|end|>"), spell("<|else|>"));
        let mark = [&b"a"[..], &end, b"b", &end].concat();
        let [free, up_to] =
            [Grammar::free_of(&mark), Grammar::up_to(&mark)].map(|grammar| machine_of(grammar.unwrap()));
        let beginning = machine_of(Grammar::not_beginning(&mark).unwrap());
        let of = |parts: &[&[u8]]| parts.concat();
        for (text, is_free, is_up_to, is_other) in [
            (of(&[b"text"]), true, false, true),
            (of(&[&mark]), false, true, false),
            (of(&[b"text ", &mark]), false, true, false),
            (of(&[b"a", &end, b"a", &end, b"b", &end]), false, true, false),
            (of(&[b"a", &end, b"b"]), true, false, true),
            (of(&[b"a", &end, b"bb"]), true, false, true),
            (of(&[b"a", &end, b"c"]), true, false, true),
            (of(&[b"a", &end, &end]), false, false, false),
            (of(&[b"a", &end[..4]]), false, false, false),
            (of(&[&end]), false, false, false),
            (of(&[b"a", &other]), false, false, false),
            (of(&[b"text", &other, &mark]), false, false, false),
        ] {
            for (machine, expected, name) in
                [(&free, is_free, "free"), (&up_to, is_up_to, "up to"), (&beginning, is_other, "not beginning")]
            {
                let accepted = machine.accepts(machine.next(machine.start(), &text));
                assert_eq!(accepted, expected, "{name}: {}", text.escape_ascii());
            }
        }
    }

    /// Free text is not steered: every token with bytes is allowed, even parts of characters. Only bytes that UTF-8 does
    /// not have are not.
    #[test]
    fn free_text_is_free() {
        let vocabulary = LEXICON.tokenizer().vocabulary();
        let free = machine_of(Grammar::free_of("<tool_call>").unwrap());
        let state = free.next(free.start(), b"A text <tool_");
        let mask = free.mask(state);
        assert!(mask.accepts);
        for token in 0..vocabulary.size() as u32 {
            let bytes = vocabulary.bytes(token);
            let is_text = !bytes.is_empty() && !bytes.iter().any(|&byte| is_control(byte));
            let expected = is_text && !bytes.starts_with(b"call>");
            assert_eq!(mask.tokens.contains(token), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
