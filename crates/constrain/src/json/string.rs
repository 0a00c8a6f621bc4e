//! JSON strings whose contents obey something.
//!
//! Every character has one way to be written here: as itself, or escaped where JSON demands that (in the short
//! form if there is one). So a content stands for one string, and a string for one content.

use std::hash::Hash;

use crate::automaton::{Automaton, Begun, NoAutomaton};
use crate::regex::{BadRegex, Dfa, check};

/// What the contents of a string must be, as a walk over their UTF-8 bytes.
trait Content {
    type State: Clone + Eq + Hash;
    fn start(&self) -> Self::State;
    fn class(&self, byte: u8) -> u32;
    fn next(&self, state: &Self::State, byte: u8) -> Option<Self::State>;
    fn accepts(&self, state: &Self::State) -> bool;
}

/// Why there is no such string.
#[derive(Debug)]
pub(crate) enum NoString {
    Regex(BadRegex),
    Automaton(NoAutomaton),
}

impl From<BadRegex> for NoString {
    fn from(fault: BadRegex) -> Self {
        Self::Regex(fault)
    }
}

impl From<NoAutomaton> for NoString {
    fn from(fault: NoAutomaton) -> Self {
        Self::Automaton(fault)
    }
}

/// Strings in which `pattern` (in the syntax of the `regex` crate) matches somewhere, of `least` to `most`
/// characters.
pub(crate) fn string(pattern: Option<&str>, least: u64, most: Option<u64>) -> Result<Automaton, NoString> {
    let dfa = match pattern {
        None => Dfa::new("(?s:.*)")?,
        Some(pattern) => {
            check(pattern)?;
            Dfa::new(&format!("(?s:.*)(?:{pattern})(?s:.*)"))?
        }
    };
    Ok(quoted(&Matching { dfa, least, most })?)
}

/// All strings but these.
pub(crate) fn string_except(names: &[&str]) -> Result<Automaton, NoString> {
    let mut names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(quoted(&Except { dfa: Dfa::new("(?s:.*)")?, names })?)
}

/// A pattern, and the number of characters.
struct Matching {
    dfa: Dfa,
    least: u64,
    most: Option<u64>,
}

impl Content for Matching {
    type State = (regex_automata::util::primitives::StateID, u64);

    fn start(&self) -> Self::State {
        (self.dfa.start(), 0)
    }

    fn class(&self, byte: u8) -> u32 {
        u32::from(self.dfa.class(byte)) << 1 | u32::from(begins_character(byte))
    }

    fn next(&self, &(state, length): &Self::State, byte: u8) -> Option<Self::State> {
        let next = self.dfa.next(state, byte)?;
        if !begins_character(byte) {
            return Some((next, length));
        }
        match self.most {
            Some(most) => (length < most).then_some((next, length + 1)),
            // Past the least all lengths are alike.
            None => Some((next, (length + 1).min(self.least))),
        }
    }

    fn accepts(&self, &(state, length): &Self::State) -> bool {
        length >= self.least && self.dfa.accepts(state)
    }
}

fn begins_character(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// Anything, as long as it is none of a sorted list.
struct Except {
    dfa: Dfa,
    names: Vec<Vec<u8>>,
}

impl Content for Except {
    /// Beside the pattern's state: which names begin with the bytes so far.
    type State = (regex_automata::util::primitives::StateID, Option<Begun>);

    fn start(&self) -> Self::State {
        (self.dfa.start(), Some(Begun::all(&self.names)))
    }

    fn class(&self, byte: u8) -> u32 {
        match self.names.iter().any(|name| name.contains(&byte)) {
            true => 256 + u32::from(byte),
            false => u32::from(self.dfa.class(byte)),
        }
    }

    fn next(&self, &(state, names): &Self::State, byte: u8) -> Option<Self::State> {
        let next = self.dfa.next(state, byte)?;
        let names = names.and_then(|begun| begun.next(&self.names, byte));
        Some((next, names))
    }

    fn accepts(&self, &(state, names): &Self::State) -> bool {
        let is_name = names.is_some_and(|begun| begun.is_whole(&self.names));
        !is_name && self.dfa.accepts(state)
    }
}

/// Where a string stands: the content so far, and what of an escape has been read.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place<S> {
    Open,
    Inside(S),
    Backslash(S),
    /// After `\u` and this many of its digits, the first three of which are `00` and `0` or `1`.
    Unicode(S, u8, u8),
    Closed,
}

fn quoted<C: Content>(content: &C) -> Result<Automaton, NoAutomaton> {
    let role = |byte: u8| match byte {
        0..=0x1f => 1,
        b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' | b'u' | b'0'..=b'9' | b'a' | b'c' | b'd' | b'e' => {
            u16::from(byte) + 2
        }
        _ => 0,
    };
    Automaton::explore(
        Place::Open,
        |byte| (role(byte), content.class(byte)),
        |place, byte| match (place, byte) {
            (Place::Open, b'"') => Some(Place::Inside(content.start())),
            (Place::Inside(state), b'"') => content.accepts(state).then_some(Place::Closed),
            (Place::Inside(state), b'\\') => Some(Place::Backslash(state.clone())),
            (Place::Inside(state), 0x20..) => content.next(state, byte).map(Place::Inside),
            (Place::Backslash(state), b'u') => Some(Place::Unicode(state.clone(), 0, 0)),
            (Place::Backslash(state), _) => content.next(state, short_escape(byte)?).map(Place::Inside),
            (Place::Unicode(state, digits @ 0..=1, 0), b'0') => Some(Place::Unicode(state.clone(), digits + 1, 0)),
            (Place::Unicode(state, 2, 0), b'0' | b'1') => Some(Place::Unicode(state.clone(), 3, byte - b'0')),
            (Place::Unicode(state, 3, high), b'0'..=b'9' | b'a'..=b'f') => {
                let low = char::from(byte).to_digit(16)? as u8;
                let control = high << 4 | low;
                let has_short = matches!(control, 0x08 | 0x09 | 0x0a | 0x0c | 0x0d);
                if has_short { None } else { content.next(state, control).map(Place::Inside) }
            }
            _ => None,
        },
        |place| matches!(place, Place::Closed),
    )
}

/// What a backslash and this letter stand for, among the escapes that are needed.
fn short_escape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' => letter,
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 0x0c,
        b'r' => b'\r',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automaton::accepts;

    /// serde_json writes strings in just this way.
    fn write(content: &str) -> String {
        serde_json::to_string(content).unwrap()
    }

    #[test]
    fn every_character_has_one_way_to_be_written() {
        let any = string(None, 0, None).unwrap();
        for c in (0..0x300).chain([0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff]).filter_map(char::from_u32)
        {
            assert!(accepts(&any, &write(&format!("a{c}b"))), "{c:?}");
        }
        for bad in [r#""\/""#, r#""\u0041""#, r#""\u000a""#, r#""\u001F""#, "\"\n\"", r#"""""#, r#"""#, r#""\x""#, ""] {
            assert!(!accepts(&any, bad), "{bad}");
        }
        let broken = b"\"\xc3\"".iter().try_fold(Automaton::START, |state, &byte| any.next(state, byte));
        assert_eq!(broken, None, "half a character");
    }

    #[test]
    fn lengths_count_characters() {
        let some = string(None, 2, Some(3)).unwrap();
        for (content, fits) in [("a", false), ("é😀", true), ("\n\u{1}\"", true), ("abcd", false), ("", false)] {
            assert_eq!(accepts(&some, &write(content)), fits, "{content:?}");
        }
        let long = string(None, 2, None).unwrap();
        assert!(accepts(&long, &write("abcdefgh")) && !accepts(&long, &write("a")));
    }

    #[test]
    fn patterns_match_anywhere_and_lengths_hold_beside_them() {
        let automaton = string(Some("b+$"), 0, Some(3)).unwrap();
        for (content, fits) in [("b", true), ("ab", true), ("ba", false), ("aabb", false), ("\n\nb", true)] {
            assert_eq!(accepts(&automaton, &write(content)), fits, "{content:?}");
        }
        assert!(matches!(string(Some("^a{5}$"), 0, Some(3)), Err(NoString::Automaton(NoAutomaton::Empty))));
        assert!(matches!(string(Some("a{"), 0, None), Err(NoString::Regex(BadRegex::Syntax { character: 2, .. }))));
    }

    #[test]
    fn names_are_left_out_however_they_go_on() {
        let other = string_except(&["age", "ag\"e", "é", ""]).unwrap();
        for (name, other_name) in [
            ("age", false),
            ("ag\"e", false),
            ("é", false),
            ("", false),
            ("ag", true),
            ("ages", true),
            ("è", true),
            ("x", true),
        ] {
            assert_eq!(accepts(&other, &write(name)), other_name, "{name:?}");
        }
    }
}
