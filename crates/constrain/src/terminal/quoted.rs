//! JSON strings around contents.
//!
//! Unless other escapes are allowed, every character has one spelling: itself, or an escape if JSON requires one (in
//! the short form if there is one). So contents and strings correspond one to one. Nothing is tabulated: the state of a
//! string is the state of its content and a position in an escape.

use super::content::{Content, has_short_escape};
use super::escape::{Escape, Escapes, Long, Next};

/// A string in quotes.
#[derive(Debug)]
pub(crate) struct Quoted<C> {
    pub(crate) content: C,
    /// The positions in escapes of four digits, if any are allowed.
    long: Option<Long>,
}

/// The position in a string: the lowest bits of a state, below the state of the content.
const BITS: u32 = 4;
const INSIDE: u32 = 0;
const BACKSLASH: u32 = 1;
/// After `\u`, `\u0`, `\u00`.
const U: u32 = 2;
const U0: u32 = 3;
const U00: u32 = 4;
const U000: u32 = 5;
const U001: u32 = 6;
const OPEN: u32 = 7;
const CLOSED: u32 = 8;
/// Somewhere after `\u`, if any escapes are allowed: the number of the position is stored instead of the content's
/// state.
const LONG: u32 = 9;

impl<C: Content> Quoted<C> {
    pub(crate) fn new(content: C, escapes: Escapes) -> Self {
        Self { content, long: (escapes == Escapes::Any).then(Long::default) }
    }

    /// The same without the positions in escapes that texts have reached; `None` if positions are not numbered.
    pub(crate) fn renewed(&self) -> Option<Self>
    where
        C: Clone,
    {
        self.long.is_some().then(|| Self { content: self.content.clone(), long: Some(Long::default()) })
    }

    /// The approximate number of bytes of the positions that texts have reached.
    pub(crate) fn made_bytes(&self) -> usize {
        self.long.as_ref().map_or(0, Long::bytes)
    }

    /// The escapes that are allowed.
    pub(crate) fn escapes(&self) -> Escapes {
        if self.long.is_some() { Escapes::Any } else { Escapes::Minimal }
    }

    pub(crate) fn start(&self) -> u32 {
        self.content.start() << BITS | OPEN
    }

    /// The state after one more byte, if any string continues with it.
    #[inline]
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let (content, position) = (state >> BITS, state & ((1 << BITS) - 1));
        if position == INSIDE {
            return match byte {
                b'"' => self.content.accepts(content).then_some(content << BITS | CLOSED),
                b'\\' => self.alive(content << BITS | BACKSLASH),
                0x20.. => self.inside(content, byte),
                _ => None,
            };
        }
        self.outside(content, position, byte)
    }

    fn inside(&self, content: u32, byte: u8) -> Option<u32> {
        Some(self.content.next(content, byte)? << BITS | INSIDE)
    }

    fn outside(&self, content: u32, position: u32, byte: u8) -> Option<u32> {
        let at = |position: u32| self.alive(content << BITS | position);
        match (position, byte) {
            (OPEN, b'"') => Some(content << BITS | INSIDE),
            (BACKSLASH, b'u') => match &self.long {
                None => at(U),
                Some(long) => Some(long.number(&self.content, Escape::new(content))? << BITS | LONG),
            },
            (BACKSLASH, b'/') if self.long.is_some() => self.inside(content, byte),
            (LONG, _) => Some(match self.long.as_ref()?.next(&self.content, content, byte)? {
                Next::Inside(number) => number << BITS | LONG,
                Next::Whole(content) => content << BITS | INSIDE,
            }),
            (BACKSLASH, _) => self.inside(content, short_escape(byte)?),
            (U, b'0') => at(U0),
            (U0, b'0') => at(U00),
            (U00, b'0') => at(U000),
            (U00, b'1') => at(U001),
            (U000 | U001, b'0'..=b'9' | b'a'..=b'f') => {
                let low = char::from(byte).to_digit(16)? as u8;
                let control = if position == U001 { 0x10 | low } else { low };
                if has_short_escape(control) { None } else { self.inside(content, control) }
            }
            _ => None,
        }
    }

    /// The state, if its escape can be completed.
    fn alive(&self, state: u32) -> Option<u32> {
        let content = state >> BITS;
        let goes_on = |byte: u8| self.content.next(content, byte).is_some();
        let rare = |mut range: std::ops::Range<u8>| range.any(|byte| !has_short_escape(byte) && goes_on(byte));
        let alive = match state & ((1 << BITS) - 1) {
            BACKSLASH => match &self.long {
                // Any character may be escaped, and another one must come if the string is not complete.
                Some(long) => long.number(&self.content, Escape::new(content)).is_some(),
                None => b"\"\\\x08\t\n\x0c\r".iter().any(|&byte| goes_on(byte)) || rare(0..0x20),
            },
            U000 => rare(0..0x10),
            U001 => rare(0x10..0x20),
            _ => rare(0..0x20),
        };
        alive.then_some(state)
    }

    /// Whether the string has ended.
    pub(crate) fn accepts(&self, state: u32) -> bool {
        state & ((1 << BITS) - 1) == CLOSED
    }

    /// The state of the content, without the character of an incomplete escape.
    pub(crate) fn content_state(&self, state: u32) -> u32 {
        match (state & ((1 << BITS) - 1), &self.long) {
            (LONG, Some(long)) => long.position(state >> BITS).content,
            _ => state >> BITS,
        }
    }

    /// The state inside a string, at a state of the content.
    pub(crate) fn inside_at(&self, content: u32) -> u32 {
        content << BITS | INSIDE
    }

    /// The state at the end of a string, at a state of the content.
    pub(crate) fn closed(&self, content: u32) -> u32 {
        content << BITS | CLOSED
    }

    /// Whether the opening quote is still to come; `None` in an escape and at the end.
    pub(crate) fn is_open(&self, state: u32) -> Option<bool> {
        match state & ((1 << BITS) - 1) {
            OPEN => Some(true),
            INSIDE => Some(false),
            _ => None,
        }
    }

    /// The fewest bytes to the end of the string.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let content = state >> BITS;
        match state & ((1 << BITS) - 1) {
            CLOSED => 0,
            INSIDE => self.content.to_end(content).saturating_add(1),
            OPEN => self.content.to_end(content).saturating_add(2),
            LONG => self.long.as_ref().map_or(u64::MAX, |long| long.to_end(content).saturating_add(1)),
            _ => {
                let after = |byte: u8| self.next(state, byte).map(|next| self.to_end(next).saturating_add(1));
                let letters = b"\"\\/bfnrtu0123456789abcdef";
                letters.iter().filter_map(|&byte| after(byte)).min().unwrap_or(u64::MAX)
            }
        }
    }

    /// The number of characters that may come next, whichever they are.
    pub(crate) fn free(&self, state: u32) -> Option<u32> {
        if state & ((1 << BITS) - 1) == INSIDE { self.content.free(state >> BITS) } else { None }
    }
}

/// The character of a short escape, among those that are required.
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
