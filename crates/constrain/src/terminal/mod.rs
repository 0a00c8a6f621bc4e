//! Terminals, which read one segment of a text byte by byte.

pub(crate) mod any_string;
pub(crate) mod characters;
pub(crate) mod content;
pub(crate) mod distinct;
pub(crate) mod escape;
pub(crate) mod fresh;
mod json_text;
pub(crate) mod language;
pub(crate) mod memory_counter;
pub(crate) mod names;
mod names_so_far;
pub(crate) mod nested;
pub(crate) mod quoted;
pub(crate) mod string_content;
mod value;
mod value_search;

use self::distinct::Distinct;
use self::fresh::Fresh;
use self::language::Language;
use self::names::Names;
use self::quoted::Quoted;
use self::string_content::StringContent;
use crate::automata::automaton::Automaton;
use crate::automata::lazy::Lazy;
use crate::automata::self_loop::{SelfLoop, self_loop_characters};
use crate::automata::spelled::Spelled;

/// A language of segments.
///
/// States are numbers, and every state has a way to the end of the segment.
#[derive(Debug)]
pub(crate) enum Terminal {
    /// Any language, by a table.
    Table(Box<Automaton>),
    /// Any language, by a table that is built while it is used.
    Lazy(Box<Lazy>),
    /// Texts, by an automaton over classes of characters.
    Spelled(Box<Spelled>),
    /// JSON strings.
    Text(Quoted<StringContent>),
    /// Names of properties; what follows depends on the name, and distances extend to the end of the object.
    Names(Quoted<Names>),
    /// Items that differ from earlier ones; what follows depends on the item, and distances extend to the end of the
    /// array.
    Fresh(Box<Fresh<Self>>),
    /// Like `Fresh`, for items of any types, which are compared as values.
    Distinct(Box<Distinct>),
}

/// The bound on distances of terminals without one.
const FAR: u64 = 1 << 40;

impl Language for Terminal {
    fn start(&self) -> u32 {
        match self {
            Self::Table(_) => Automaton::START,
            Self::Lazy(_) => 0,
            Self::Spelled(_) => Spelled::START,
            Self::Text(text) => text.start(),
            Self::Names(names) => names.start(),
            Self::Fresh(_) | Self::Distinct(_) => 0,
        }
    }

    #[inline(always)]
    fn next(&self, state: u32, byte: u8) -> Option<u32> {
        match self {
            Self::Table(automaton) => automaton.next(state, byte),
            Self::Lazy(lazy) => lazy.next(state, byte),
            Self::Spelled(spelled) => spelled.next(state, byte),
            Self::Text(text) => text.next(state, byte),
            Self::Names(names) => names.next(state, byte),
            Self::Fresh(fresh) => fresh.next(state, byte),
            Self::Distinct(distinct) => distinct.next(state, byte),
        }
    }

    #[inline(always)]
    fn accepts(&self, state: u32) -> bool {
        match self {
            Self::Table(automaton) => automaton.accepts(state),
            Self::Lazy(lazy) => lazy.accepts(state),
            Self::Spelled(spelled) => spelled.accepts(state),
            Self::Text(text) => text.accepts(state),
            Self::Names(names) => names.accepts(state),
            Self::Fresh(fresh) => fresh.accepts(state),
            Self::Distinct(distinct) => distinct.accepts(state),
        }
    }

    #[inline(always)]
    fn goes_on(&self, state: u32) -> bool {
        match self {
            Self::Table(automaton) => automaton.goes_on(state),
            Self::Lazy(lazy) => lazy.goes_on(state),
            Self::Spelled(spelled) => spelled.goes_on(state),
            // A complete string cannot continue.
            Self::Text(text) => !text.accepts(state),
            Self::Names(names) => !names.accepts(state),
            Self::Fresh(fresh) => fresh.goes_on(state),
            Self::Distinct(distinct) => distinct.goes_on(state),
        }
    }

    fn to_end(&self, state: u32) -> u64 {
        match self {
            Self::Table(automaton) => automaton.to_end(state).into(),
            Self::Lazy(lazy) => lazy.to_end(state),
            Self::Spelled(spelled) => spelled.to_end(state),
            Self::Text(text) => text.to_end(state),
            Self::Names(names) => names.to_end(state),
            Self::Fresh(fresh) => fresh.to_end(state),
            Self::Distinct(distinct) => distinct.to_end(state),
        }
    }

    fn farthest(&self) -> u64 {
        // An escape that has begun has at most eleven more bytes.
        match self {
            Self::Table(automaton) => automaton.farthest().into(),
            Self::Lazy(lazy) => lazy.farthest(),
            Self::Spelled(spelled) => spelled.farthest(),
            Self::Text(text) => text.content.farthest() + 12,
            Self::Names(names) => names.content.farthest().saturating_add(12),
            Self::Fresh(fresh) => fresh.farthest(),
            Self::Distinct(_) => FAR,
        }
    }
}

impl Terminal {
    /// Adds the bytes that may come next to a set.
    pub(crate) fn first(&self, state: u32, first: &mut [u64; 4]) {
        if let Self::Distinct(distinct) = self {
            let ways = distinct.first(state);
            return first.iter_mut().zip(ways).for_each(|(first, ways)| *first |= ways);
        }
        let mut add = |byte: u8| first[usize::from(byte) / 64] |= 1 << (byte % 64);
        let is_open = match self {
            Self::Text(text) => text.is_open(state),
            Self::Names(names) => names.is_open(state),
            _ => None,
        };
        if is_open == Some(true) {
            return add(b'"');
        }
        (0..=255).filter(|&byte| self.next(state, byte).is_some()).for_each(add);
    }

    /// A state that is equivalent to this one for all tokens of up to `max_token_chars` characters.
    pub(crate) fn representative(&self, state: u32, max_token_chars: u32) -> u32 {
        match self {
            Self::Text(text) if text.is_open(state) == Some(false) => {
                text.inside_at(text.content.representative(text.content_state(state), max_token_chars))
            }
            _ => state,
        }
    }

    /// The characters that keep a state, and how many of them may come; no token has more than `max_token_chars`.
    pub(crate) fn self_loop(&self, state: u32, max_token_chars: u32) -> Option<SelfLoop> {
        match self {
            Self::Table(automaton) => {
                let characters = self_loop_characters(automaton, state, |_| true);
                Some(SelfLoop { characters, most: u32::MAX, strangers: true })
            }
            Self::Spelled(spelled) => spelled.self_loop(state, max_token_chars),
            Self::Text(text) if text.is_open(state) == Some(false) && text.free(state).is_none() => {
                text.content.self_loop(text.content_state(state))
            }
            _ => None,
        }
    }

    /// The state after `characters` characters of the loop at `state`.
    pub(crate) fn after_loop(&self, state: u32, characters: u32) -> u32 {
        match self {
            Self::Text(text) => text.inside_at(text.content.after_loop(text.content_state(state), characters)),
            Self::Spelled(spelled) => spelled.after_loop(state, characters),
            _ => state,
        }
    }

    /// The number of characters that may come next, whichever they are, among those that need no escape in JSON
    /// strings.
    pub(crate) fn free(&self, state: u32) -> Option<u32> {
        match self {
            Self::Table(_) | Self::Lazy(_) | Self::Spelled(_) | Self::Fresh(_) | Self::Distinct(_) => None,
            Self::Text(text) => text.free(state),
            Self::Names(names) => names.free(state),
        }
    }

    /// The same without the states created by texts; `None` if texts create none.
    pub(crate) fn renewed(&self) -> Option<Self> {
        match self {
            Self::Lazy(lazy) => Some(Self::Lazy(Box::new(lazy.renewed()))),
            Self::Spelled(spelled) => Some(Self::Spelled(Box::new(spelled.renewed()?))),
            Self::Text(text) => text.renewed().map(Self::Text),
            _ => None,
        }
    }

    /// The automaton whose states are created as texts reach them, if the terminal has one.
    pub(crate) fn lazy(&self) -> Option<&Lazy> {
        match self {
            Self::Lazy(lazy) => Some(lazy),
            Self::Spelled(spelled) => spelled.lazy_words(),
            _ => None,
        }
    }

    /// The approximate number of bytes of the states created by texts.
    pub(crate) fn made_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.made_bytes(),
            _ => self.lazy().map_or(0, Lazy::made_bytes),
        }
    }

    /// The approximate number of bytes of the terminal itself, if it was created for a text.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Names(names) => names.content.bytes(),
            Self::Fresh(fresh) => size_of_val(&**fresh) + 512,
            Self::Distinct(distinct) => size_of_val(&**distinct) + 512,
            _ => 0,
        }
    }

    /// The number of table cells.
    pub(crate) fn cells(&self) -> usize {
        match self {
            Self::Table(automaton) => automaton.cells(),
            Self::Spelled(spelled) => spelled.cells(),
            _ => 0,
        }
    }
}
