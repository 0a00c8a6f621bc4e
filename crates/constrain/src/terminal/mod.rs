//! What one step of a grammar reads: a piece of the text, byte by byte.

pub(crate) mod escape;
pub(crate) mod fresh;
pub(crate) mod names;
pub(crate) mod quoted;
pub(crate) mod text;

use crate::automata::automaton::Automaton;
use crate::automata::lazy::Lazy;
use crate::automata::spelled::Spelled;
use crate::machine::piece::Free;
use crate::terminal::fresh::Fresh;
use crate::terminal::names::Names;
use crate::terminal::quoted::Quoted;
use crate::terminal::text::Text;
use crate::vocabulary::loops::{Loop, Signs};

/// A language of pieces.
///
/// States are numbers. There is no state without a way to the end of the piece.
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
}

impl Terminal {
    /// The state before any byte.
    pub(crate) fn start(&self) -> u32 {
        match self {
            Self::Table(_) => Automaton::START,
            Self::Lazy(_) => 0,
            Self::Spelled(_) => Spelled::START,
            Self::Text(text) => text.start(),
            Self::Names(names) => names.start(),
            Self::Fresh(_) => 0,
        }
    }

    /// The state after one more byte, if a piece can go on so.
    #[inline(always)]
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        match self {
            Self::Table(automaton) => automaton.next(state, byte),
            Self::Lazy(lazy) => lazy.next(state, byte),
            Self::Spelled(spelled) => spelled.next(state, byte),
            Self::Text(text) => text.next(state, byte),
            Self::Names(names) => names.next(state, byte),
            Self::Fresh(fresh) => fresh.next(state, byte),
        }
    }

    /// Adds the bytes that may come next.
    pub(crate) fn first(&self, state: u32, first: &mut [u64; 4]) {
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

    /// Whether the piece so far is whole.
    #[inline(always)]
    pub(crate) fn accepts(&self, state: u32) -> bool {
        match self {
            Self::Table(automaton) => automaton.accepts(state),
            Self::Lazy(lazy) => lazy.accepts(state),
            Self::Spelled(spelled) => spelled.accepts(state),
            Self::Text(text) => text.accepts(state),
            Self::Names(names) => names.accepts(state),
            Self::Fresh(fresh) => fresh.accepts(state),
        }
    }

    /// Whether the piece so far can go on.
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
        }
    }

    /// The fewest bytes that make the piece whole.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        match self {
            Self::Table(automaton) => automaton.to_end(state).into(),
            Self::Lazy(lazy) => lazy.to_end(state),
            Self::Spelled(spelled) => spelled.to_end(state),
            Self::Text(text) => text.to_end(state),
            Self::Names(names) => names.to_end(state),
            Self::Fresh(fresh) => fresh.to_end(state),
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
        }
    }

    /// A state that stands for this one and others: whatever a token of up to `reach` characters does, it does from each.
    pub(crate) fn alike(&self, state: u32, reach: u32) -> u32 {
        match self {
            Self::Text(text) if text.is_open(state) == Some(false) => {
                text.inside_at(text.content.alike(text.content_state(state), reach))
            }
            _ => state,
        }
    }

    /// Where characters keep a state, which, and how many of them may come; no token has more than `reach`.
    pub(crate) fn kept(&self, state: u32, reach: u32) -> Option<Loop> {
        match self {
            Self::Table(automaton) => {
                let kept_by = Signs::that_keep(automaton, state, |_| true);
                Some(Loop { kept_by, most: u32::MAX, strangers: true })
            }
            Self::Spelled(spelled) => spelled.kept(state, reach),
            Self::Text(text) if text.is_open(state) == Some(false) && text.free(state).is_none() => {
                text.content.kept(text.content_state(state))
            }
            _ => None,
        }
    }

    /// The state after some characters that keep it.
    pub(crate) fn after_kept(&self, state: u32, characters: u32) -> u32 {
        match self {
            Self::Text(text) => text.inside_at(text.content.after_kept(text.content_state(state), characters)),
            Self::Spelled(spelled) => spelled.after_kept(state, characters),
            _ => state,
        }
    }

    /// Up to how many characters that stand for themselves in JSON strings, whichever they are, may come next.
    pub(crate) fn free(&self, state: u32) -> Option<u32> {
        match self {
            Self::Table(_) | Self::Lazy(_) | Self::Spelled(_) | Self::Fresh(_) => None,
            Self::Text(text) => text.free(state),
            Self::Names(names) => names.free(state),
        }
    }

    /// What a string's state is, for one that holds anything, or names that may be anything but for those of the schema;
    /// `reach` is the most characters that a token has.
    pub(crate) fn free_key(&self, state: u32, reach: u32) -> Option<Free> {
        let ((most, missing), open, escapes) = match self {
            Self::Table(_) | Self::Lazy(_) | Self::Spelled(_) | Self::Fresh(_) => return None,
            Self::Text(text) => {
                let open = text.is_open(state)?;
                (text.content.free_count(text.content_state(state))?, open, text.escapes())
            }
            Self::Names(names) => {
                let any = names.content.is_any(names.content_state(state)).then_some((u32::MAX, 0));
                (any?, names.is_open(state)?, names.escapes())
            }
        };
        Some(Free { most: most.min(reach), missing: missing.min(reach), open, escapes })
    }

    /// The same without what has been made as texts came to it; `None` where nothing is made so.
    pub(crate) fn renewed(&self) -> Option<Self> {
        match self {
            Self::Lazy(lazy) => Some(Self::Lazy(Box::new(lazy.renewed()))),
            Self::Spelled(spelled) => Some(Self::Spelled(Box::new(spelled.renewed()?))),
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

    /// About how many bytes that takes.
    pub(crate) fn made_bytes(&self) -> usize {
        self.lazy().map_or(0, Lazy::made_bytes)
    }

    /// About how many bytes it takes itself, where it is made as a text comes to it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Names(names) => names.content.bytes(),
            // With the places of a text inside an item.
            Self::Fresh(_) => 2048,
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
