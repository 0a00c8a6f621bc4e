//! Escapes of JSON strings: which are allowed, and those of four digits.
//!
//! `\u00e9` is `é`, and `\ud83d\ude00` is one character beyond the first 65,536. There are too many positions inside
//! such escapes to encode in a state, so those that texts reach are numbered.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::content::Content;

/// The escapes in strings and names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Escapes {
    /// Only where JSON requires one, in its short form if there is one. So each string has one spelling.
    #[default]
    Minimal,
    /// Any that JSON has: `\u00e9` for `é`, surrogate pairs for characters beyond the first 65,536, `\/` for `/`.
    Any,
}

/// A position inside an escape that has begun with `\u`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Escape {
    /// The state of the content before the escape.
    pub(crate) content: u32,
    /// The high surrogate of a pair (RFC 8259, section 7), if it has been read.
    high: Option<u16>,
    at: EscapePoint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum EscapePoint {
    /// After this many digits, with their value.
    Digits(u8, u32),
    /// Before the backslash of the low surrogate.
    Half,
    /// After that backslash.
    Backslash,
}

/// The result of reading one byte of an escape.
pub(crate) enum Next<T> {
    Inside(T),
    /// The escape is complete and leads to this state of the content.
    Whole(u32),
}

/// The ranges of high and low surrogates.
const HIGH: std::ops::Range<u32> = 0xd800..0xdc00;
const LOW: std::ops::Range<u32> = 0xdc00..0xe000;

impl Escape {
    /// The position after `\u`.
    pub(crate) fn new(content: u32) -> Self {
        Self { content, high: None, at: EscapePoint::Digits(0, 0) }
    }

    /// The position after one more byte, which may be a dead end.
    fn next<C: Content>(self, of: &C, byte: u8) -> Option<Next<Self>> {
        let inside = |at| Some(Next::Inside(Self { at, ..self }));
        match (self.at, byte) {
            (EscapePoint::Half, b'\\') => inside(EscapePoint::Backslash),
            (EscapePoint::Backslash, b'u') => inside(EscapePoint::Digits(0, 0)),
            (EscapePoint::Digits(count, so_far), _) => {
                let code = so_far << 4 | char::from(byte).to_digit(16)?;
                match (count, self.high) {
                    (0..3, _) => inside(EscapePoint::Digits(count + 1, code)),
                    (_, None) if HIGH.contains(&code) => {
                        Some(Next::Inside(Self { high: Some(code as u16), at: EscapePoint::Half, ..self }))
                    }
                    (_, None) => Some(Next::Whole(after(of, self.content, char::from_u32(code)?)?)),
                    (_, Some(high)) if LOW.contains(&code) => {
                        let code = 0x1_0000 + ((u32::from(high) - HIGH.start) << 10) + code - LOW.start;
                        Some(Next::Whole(after(of, self.content, char::from_u32(code)?)?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A character that the escape may become, the same one until the digits rule it out, and the number of bytes that
    /// complete the escape.
    fn some<C: Content>(self, of: &C) -> Option<(char, u64)> {
        let (digits, so_far) = match self.at {
            EscapePoint::Digits(count, so_far) => (4 - u64::from(count), so_far),
            EscapePoint::Half => (6, 0),
            EscapePoint::Backslash => (5, 0),
        };
        let shift = 4 * digits.min(4);
        let (from, to) = (so_far << shift, (so_far + 1) << shift);
        let pair = |high: u32, low: u32| 0x1_0000 + ((high - HIGH.start) << 10) + low - LOW.start;
        let part = |of: std::ops::Range<u32>| (from.max(of.start), to.min(of.end));
        if let Some(high) = self.high {
            let (from, to) = part(LOW);
            let high = high.into();
            return first(of, self.content, if from < to { pair(high, from)..pair(high, to) } else { 0..0 })
                .map(|c| (c, digits));
        }
        let (before, behind) = (from..to.min(HIGH.start), from.max(LOW.end)..to);
        let whole = first(of, self.content, before).or_else(|| first(of, self.content, behind));
        whole.map(|c| (c, digits)).or_else(|| {
            let (from, to) = part(HIGH);
            let all = if from < to { pair(from, LOW.start)..pair(to, LOW.start) } else { 0..0 };
            first(of, self.content, all).map(|c| (c, digits + 6))
        })
    }
}

/// The state of a content after a character.
fn after<C: Content>(of: &C, content: u32, c: char) -> Option<u32> {
    c.encode_utf8(&mut [0; 4]).bytes().try_fold(content, |state, byte| of.next(state, byte))
}

/// The first character of a range of code points that the content may continue with. The range has no surrogates.
fn first<C: Content>(of: &C, content: u32, range: std::ops::Range<u32>) -> Option<char> {
    let mut code = range.start;
    while code < range.end {
        let c = char::from_u32(code)?;
        let mut buffer = [0; 4];
        let bytes = c.encode_utf8(&mut buffer).as_bytes();
        let mut state = content;
        let Some(refused) = bytes.iter().position(|&byte| match of.next(state, byte) {
            Some(next) => {
                state = next;
                false
            }
            None => true,
        }) else {
            return Some(c);
        };
        // All characters with this prefix are refused.
        let same = 1 << (6 * (bytes.len() - 1 - refused));
        code = (code / same + 1) * same;
    }
    None
}

/// The positions inside escapes that texts have reached.
#[derive(Debug, Default)]
pub(crate) struct Long(Mutex<EscapeTable>);

#[derive(Debug, Default)]
struct EscapeTable {
    /// Each with a bound on the bytes to the end of the content.
    positions: Vec<(Escape, u64)>,
    numbers: HashMap<Escape, Option<u32>>,
}

impl Long {
    fn made(&self) -> MutexGuard<'_, EscapeTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The approximate number of bytes used.
    pub(super) fn bytes(&self) -> usize {
        let made = self.made();
        size_of::<(Escape, u64)>() * made.positions.len() + size_of::<(Escape, Option<u32>)>() * made.numbers.len()
    }

    /// The number of a position, if the text can continue from there.
    pub(crate) fn number<C: Content>(&self, of: &C, escape: Escape) -> Option<u32> {
        if let Some(&known) = self.made().numbers.get(&escape) {
            return known;
        }
        let to_end = escape.some(of).map(|(c, left)| {
            let state = after(of, escape.content, c).expect("it may come next");
            of.to_end(state).saturating_add(left)
        });
        let made = &mut *self.made();
        let number = to_end.map(|to_end| {
            made.positions.push((escape, to_end));
            made.positions.len() as u32 - 1
        });
        *made.numbers.entry(escape).or_insert(number)
    }

    /// The position with the given number.
    pub(crate) fn position(&self, number: u32) -> Escape {
        self.made().positions[number as usize].0
    }

    /// The bytes from a position to the end of the content on some path, whose first byte leads one nearer.
    pub(crate) fn to_end(&self, number: u32) -> u64 {
        self.made().positions[number as usize].1
    }

    /// The position after one more byte, from the position with the given number.
    pub(crate) fn next<C: Content>(&self, of: &C, number: u32, byte: u8) -> Option<Next<u32>> {
        match self.position(number).next(of, byte)? {
            Next::Inside(escape) => self.number(of, escape).map(Next::Inside),
            Next::Whole(content) => Some(Next::Whole(content)),
        }
    }
}
