//! Text in which anything may occur except a marker.
//!
//! A model that may call tools writes freely until it begins a call: `<tool_call>`. From there on it is constrained.

use verdigris_text::Vocabulary;

use crate::automata::automaton::Automaton;
use crate::automata::search::Marks;
use crate::grammar::Grammar;

/// Whether a byte begins or ends a control token.
fn is_control(byte: u8) -> bool {
    Vocabulary::CONTROL.contains(&byte)
}

/// Whether the bytes of a marker so far end inside a control token.
fn is_inside(found: &[u8]) -> bool {
    let [begin, _] = Vocabulary::CONTROL;
    found.iter().rev().find(|&&byte| is_control(byte)) == Some(&begin)
}

/// Markers as bytes; `None` if there are none, or one is empty.
fn marks<T: AsRef<[u8]>>(marks: &[T]) -> Option<Vec<&[u8]>> {
    let marks: Vec<&[u8]> = marks.iter().map(AsRef::as_ref).collect();
    (!marks.is_empty() && marks.iter().all(|mark| !mark.is_empty())).then_some(marks)
}

impl Grammar {
    /// Creates the grammar of any texts without control tokens, of any other bytes, that do not contain a marker.
    /// `None` if the marker is empty.
    pub fn free_of(mark: impl AsRef<[u8]>) -> Option<Self> {
        Self::free_of_any(&[mark])
    }

    /// Like [`Grammar::free_of`], for several markers. `None` if there are none, or one is empty.
    pub fn free_of_any<T: AsRef<[u8]>>(of: &[T]) -> Option<Self> {
        searched(Marks(&marks(of)?), |whole| whole.is_none()).map(Self::of)
    }

    /// Creates the grammar of any texts, of any bytes, that end with a marker and do not contain it earlier, nor any
    /// control token but those of the marker. `None` if the marker is empty.
    pub fn up_to(mark: impl AsRef<[u8]>) -> Option<Self> {
        Self::up_to_one(&[mark], 0)
    }

    /// Like [`Grammar::up_to`], for texts that end with one of several markers, and contain none of them earlier.
    /// `None` if a marker is empty, or no text ends with this one first.
    pub(crate) fn up_to_one<T: AsRef<[u8]>>(of: &[T], which: usize) -> Option<Self> {
        searched(Marks(&marks(of)?), |whole| whole == Some(which)).map(Self::of)
    }

    /// Creates the grammar of any texts without control tokens, of any other bytes, that do not begin with a marker.
    /// `None` if the marker is empty.
    pub fn not_beginning(mark: impl AsRef<[u8]>) -> Option<Self> {
        Self::not_beginning_any(&[mark])
    }

    /// Like [`Grammar::not_beginning`], for several markers. `None` if there are none, or one is empty.
    pub fn not_beginning_any<T: AsRef<[u8]>>(of: &[T]) -> Option<Self> {
        let marks = &marks(of)?;
        let marks = Marks(marks);
        // The text if it is a prefix of a marker, else `None`.
        let automaton = Automaton::explore(
            Some(&marks.0[0][..0]),
            |byte| (marks.class(byte), is_control(byte)),
            |begun, byte| match begun.and_then(|begun| marks.longer(begun, byte)) {
                Some(longer) => marks.0.iter().all(|mark| *mark != longer).then_some(Some(longer)),
                None if begun.is_some_and(is_inside) => None,
                None => (!is_control(byte)).then_some(None),
            },
            |begun| !begun.is_some_and(is_inside),
        );
        automaton.ok().map(Self::of)
    }
}

/// The texts that contain markers only at their end; `accepts` judges the index of the marker there.
fn searched(marks: Marks<'_>, accepts: impl Fn(Option<usize>) -> bool) -> Option<Automaton> {
    let whole = |found: &[u8]| marks.whole(found).filter(|_| !is_inside(found));
    let automaton = Automaton::explore(
        &marks.0[0][..0],
        |byte| (marks.class(byte), is_control(byte)),
        |&found, byte| {
            let next = whole(found).is_none().then(|| marks.next(found, byte))?;
            let is_free = !is_control(byte) && !is_inside(found);
            let is_begun = !next.is_empty() && !is_inside(found);
            (is_free || next.len() == found.len() + 1 || is_begun).then_some(next)
        },
        |&found| !is_inside(found) && accepts(whole(found)),
    );
    // It has at most as many states as the markers have bytes.
    automaton.ok()
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

    /// Free text is not steered: every token with bytes is allowed, even parts of characters. Only bytes that UTF-8
    /// does not have are not. What many masks need is computed once it has been needed some times.
    #[test]
    fn free_text_is_free() {
        let vocabulary = LEXICON.tokenizer().vocabulary();
        for text in ["A text <tool_", "", "A text"].repeat(9) {
            let free = machine_of(Grammar::free_of("<tool_call>").unwrap());
            let state = free.next(free.start(), text.as_bytes());
            let mask = free.mask(state);
            assert!(mask.accepts);
            for token in 0..vocabulary.size() as u32 {
                let bytes = vocabulary.bytes(token);
                let is_text = !bytes.is_empty() && !bytes.iter().any(|&byte| is_control(byte));
                let expected = is_text && !(text.ends_with("tool_") && bytes.starts_with(b"call>"));
                assert_eq!(mask.tokens.contains(token), expected, "{text:?}: {}", bytes.escape_ascii());
            }
        }
    }

    /// The control token that begins a marker is allowed wherever the marker may begin, and no other.
    #[test]
    fn a_control_token_may_come_after_any_text() {
        let end = LEXICON.tokenizer().spell("<|endoftext|>");
        for text in ["", "A text", "\u{1F600} <"].repeat(9) {
            let machine = machine_of(Grammar::up_to(&end).unwrap());
            let mask = machine.mask(machine.next(machine.start(), text.as_bytes()));
            assert!(mask.tokens.contains(0) && !mask.accepts, "{text:?}");
            let free = machine_of(Grammar::free_of("<tool_call>").unwrap());
            assert!(!free.mask(free.next(free.start(), text.as_bytes())).tokens.contains(0), "{text:?}");
        }
    }
}
