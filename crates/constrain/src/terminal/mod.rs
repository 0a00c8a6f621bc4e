//! What one step of a grammar reads: a segment of the text, byte by byte.

pub(crate) mod any_string;
pub(crate) mod characters;
pub(crate) mod content;
pub(crate) mod distinct;
pub(crate) mod escape;
pub(crate) mod fresh;
mod json_text;
pub(crate) mod made;
pub(crate) mod names;
mod names_so_far;
pub(crate) mod nested;
pub(crate) mod quoted;
pub(crate) mod text;
mod value;
mod value_search;

use self::distinct::Distinct;
use self::fresh::Fresh;
use self::names::Names;
use self::quoted::Quoted;
use self::text::Text;
use crate::automata::automaton::Automaton;
use crate::automata::lazy::Lazy;
use crate::automata::self_loop::{SelfLoop, self_loop_characters};
use crate::automata::spelled::Spelled;

/// A language of segments.
///
/// States are numbers. There is no state without a way to the end of the segment.
#[derive(Debug)]
pub(crate) enum Terminal {
    /// Any, by a table.
    Table(Box<Automaton>),
    /// Any, by a table that is made while it is used.
    Lazy(Box<Lazy>),
    /// Texts, by an automaton over classes of their characters.
    Spelled(Box<Spelled>),
    /// JSON strings.
    Text(Quoted<Text>),
    /// Names of properties; what follows depends on the name, and distances reach to the end of the object.
    Names(Quoted<Names>),
    /// Items that have not come yet; what follows depends on the item, and distances reach to the end of the array.
    Fresh(Box<Fresh>),
    /// As those, of any types, where they are told apart as values.
    Distinct(Box<Distinct>),
}

/// A bound on distances where there is none.
const FAR: u64 = 1 << 40;

impl Terminal {
    /// The state before any byte.
    pub(crate) fn start(&self) -> u32 {
        match self {
            Self::Table(_) => Automaton::START,
            Self::Lazy(_) => 0,
            Self::Spelled(_) => Spelled::START,
            Self::Text(text) => text.start(),
            Self::Names(names) => names.start(),
            Self::Fresh(_) | Self::Distinct(_) => 0,
        }
    }

    /// The state after one more byte, if a segment can go on so.
    #[inline(always)]
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
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

    /// Adds the bytes that may come next.
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

    /// Whether the segment so far is whole.
    #[inline(always)]
    pub(crate) fn accepts(&self, state: u32) -> bool {
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

    /// Whether the segment so far can go on.
    #[inline(always)]
    pub(crate) fn goes_on(&self, state: u32) -> bool {
        match self {
            Self::Table(automaton) => automaton.goes_on(state),
            Self::Lazy(lazy) => lazy.goes_on(state),
            Self::Spelled(spelled) => spelled.goes_on(state),
            // A string is at its end where it is whole.
            Self::Text(text) => !text.accepts(state),
            Self::Names(names) => !names.accepts(state),
            Self::Fresh(fresh) => fresh.goes_on(state),
            Self::Distinct(distinct) => distinct.goes_on(state),
        }
    }

    /// The fewest bytes that make the segment whole.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
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

    /// No state is farther from the end than so many bytes.
    pub(crate) fn farthest(&self) -> u64 {
        // An escape that has begun has up to eleven more bytes.
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

    /// A state that stands for this one and others: whatever a token of up to `max_token_chars` characters does, it
    /// does from each.
    pub(crate) fn representative(&self, state: u32, max_token_chars: u32) -> u32 {
        match self {
            Self::Text(text) if text.is_open(state) == Some(false) => {
                text.inside_at(text.content.representative(text.content_state(state), max_token_chars))
            }
            _ => state,
        }
    }

    /// Where characters keep a state, which, and how many of them may come; no token has more than `max_token_chars`.
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

    /// The state after some characters that keep it.
    pub(crate) fn after_loop(&self, state: u32, characters: u32) -> u32 {
        match self {
            Self::Text(text) => text.inside_at(text.content.after_loop(text.content_state(state), characters)),
            Self::Spelled(spelled) => spelled.after_loop(state, characters),
            _ => state,
        }
    }

    /// Up to how many characters that stand for themselves in JSON strings, whichever they are, may come next.
    pub(crate) fn free(&self, state: u32) -> Option<u32> {
        match self {
            Self::Table(_) | Self::Lazy(_) | Self::Spelled(_) | Self::Fresh(_) | Self::Distinct(_) => None,
            Self::Text(text) => text.free(state),
            Self::Names(names) => names.free(state),
        }
    }

    /// The same without what has been made as texts came to it; `None` where nothing is made so.
    pub(crate) fn renewed(&self) -> Option<Self> {
        match self {
            Self::Lazy(lazy) => Some(Self::Lazy(Box::new(lazy.renewed()))),
            Self::Spelled(spelled) => Some(Self::Spelled(Box::new(spelled.renewed()?))),
            Self::Text(text) => text.renewed().map(Self::Text),
            _ => None,
        }
    }

    /// Its automaton, where that is made as texts come to its states.
    pub(crate) fn lazy(&self) -> Option<&Lazy> {
        match self {
            Self::Lazy(lazy) => Some(lazy),
            Self::Spelled(spelled) => spelled.lazy_words(),
            _ => None,
        }
    }

    /// About how many bytes that takes which has been made as texts came to it.
    pub(crate) fn made_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.made_bytes(),
            _ => self.lazy().map_or(0, Lazy::made_bytes),
        }
    }

    /// About how many bytes it takes itself, where it is made as a text comes to it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Names(names) => names.content.bytes(),
            Self::Fresh(fresh) => size_of_val(&**fresh) + 512,
            Self::Distinct(distinct) => size_of_val(&**distinct) + 512,
            _ => 0,
        }
    }

    /// Table cells.
    pub(crate) fn cells(&self) -> usize {
        match self {
            Self::Table(automaton) => automaton.cells(),
            Self::Spelled(spelled) => spelled.cells(),
            _ => 0,
        }
    }
}
