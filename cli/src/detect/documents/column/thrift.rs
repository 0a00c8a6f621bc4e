//! Thrift's compact protocol, which the library reads with less care: a list of two billion booleans takes it seconds,
//! and the file five bytes. <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>
//!
//! This module reads the same bytes as the library, or refuses them. The library trusts the kinds of the fields that it
//! knows, so these are all listed here ([`Struct`]), and a field of another kind is refused.

use super::varint::varint;

/// The greatest depth of nested values, as in the library.
const DEEPEST: usize = 64;

/// The fields that the library knows, by their ids; it skips all others.
#[derive(Debug)]
pub(super) struct Struct(pub(super) &'static [(i16, Value)]);

/// The type that the library reads a field as.
#[derive(Debug)]
pub(super) enum Value {
    /// The value is in the kind of the field.
    Bool,
    Byte,
    /// Of 16, 32 or 64 bits, which have the same encoding.
    Number,
    Double,
    Bytes,
    /// Of values other than structs, whose kind the library checks.
    List,
    Structs(&'static Struct),
    Struct(&'static Struct),
}

const STRUCT: u8 = 12;
const LIST: u8 = 9;

impl Value {
    fn is(&self, kind: u8) -> bool {
        match self {
            Self::Bool => matches!(kind, 1 | 2),
            Self::Byte => kind == 3,
            Self::Number => matches!(kind, 4..=6),
            Self::Double => kind == 7,
            Self::Bytes => kind == 8,
            Self::List | Self::Structs(_) => kind == LIST,
            Self::Struct(_) => kind == STRUCT,
        }
    }
}

/// A position in some bytes. All reads return `None` if the bytes are damaged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    data: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    /// Begins before the first byte.
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.at = self.at.checked_add(usize::try_from(count).ok()?).filter(|&at| at <= self.data.len())?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        varint(self.data, &mut self.at)
    }

    /// A signed number.
    pub(super) fn number(&mut self) -> Option<i64> {
        self.varint().map(|bits| (bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// The length of a list, and the kind of its values.
    pub(super) fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((length, head & 15))
    }

    /// Visits the fields of a struct; `each` reads the value of a field, given its id and kind.
    pub(super) fn fields(&mut self, mut each: impl FnMut(&mut Self, i16, u8) -> Option<()>) -> Option<()> {
        let mut field = 0i16;
        loop {
            let head = self.byte()?;
            if head & 15 == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => self.number()? as i16,
                more => field.checked_add(more.into())?,
            };
            each(self, field, head & 15)?;
        }
    }

    /// Skips a struct whose fields the library knows, and checks their kinds.
    pub(super) fn known(&mut self, of: &Struct) -> Option<()> {
        self.fields(|reader, field, kind| match of.0.iter().find(|(known, _)| *known == field) {
            None => reader.skip(kind, DEEPEST),
            Some((_, value)) if !value.is(kind) => None,
            Some((_, Value::Struct(of))) => reader.known(of),
            Some((_, Value::Structs(of))) => {
                let (length, kind) = reader.list()?;
                (length == 0 || kind == STRUCT).then_some(())?;
                (0..length).try_for_each(|_| reader.known(of))
            }
            Some(_) => reader.skip(kind, DEEPEST),
        })
    }

    /// Skips a value of a kind.
    pub(super) fn skip(&mut self, kind: u8, deepest: usize) -> Option<()> {
        let deeper = deepest.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.varint().map(drop),
            7 => self.bytes(8),
            8 => self.varint().and_then(|length| self.bytes(length)),
            LIST | 10 => {
                let (length, kind) = self.list()?;
                self.values(length, [kind], deeper)
            }
            11 => match self.varint()? {
                0 => Some(()),
                length => {
                    let kinds = self.byte()?;
                    self.values(length, [kinds >> 4, kinds & 15], deeper)
                }
            },
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind, deeper)),
            _ => None,
        }
    }

    /// Skips the values of a list or a map, each of which takes at least one byte. Booleans are refused: Parquet has no
    /// list of them here, and the library skips them without taking a byte.
    fn values<const KINDS: usize>(&mut self, length: u64, kinds: [u8; KINDS], deepest: usize) -> Option<()> {
        if length > 0 && kinds.iter().any(|kind| matches!(kind, 1 | 2)) {
            return None;
        }
        (0..length).try_for_each(|_| kinds.iter().try_for_each(|&kind| self.skip(kind, deepest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: Struct = Struct(&[(1, Value::Number)]);
    const OUTER: Struct = Struct(&[(1, Value::Bytes), (2, Value::Structs(&INNER)), (4, Value::Bool)]);

    fn ends_at(data: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(data);
        reader.known(&OUTER).map(|()| reader.at)
    }

    #[test]
    fn what_is_known_has_its_kind() {
        // A name, two structs of a number, a boolean, a list of doubles, a map of bytes to numbers, and more after it.
        let whole = [
            &[0x18, 2, b'a', b'b', 0x19, 0x2c, 0x15, 8, 0, 0x16, 0, 0][..],
            &[0x22, 0x19, 0x17],
            &[0; 8],
            &[0x1b, 1, 0x35, 9, 4, 0, 7, 7],
        ]
        .concat();
        assert_eq!(ends_at(&whole), Some(whole.len() - 2));
        assert!((0..whole.len() - 2).all(|end| ends_at(&whole[..end]).is_none()));
        assert_eq!(ends_at(&[0x15, 2, 0]), None, "a number instead of bytes");
        assert_eq!(ends_at(&[0x29, 0x15, 2, 0]), None, "numbers instead of structs");
        assert_eq!(ends_at(&[0x29, 0x1c, 0x18, 0, 0, 0]), None, "bytes instead of a number");
        assert_eq!(ends_at(&[0x40]), Some(1), "the end, whatever its high bits");
    }

    #[test]
    fn what_takes_no_byte_is_no_value() {
        let many = [0xff, 0xff, 0xff, 0xff, 0x07];
        for kind in [1, 2, 3, 5, 7, 8, LIST, 11, STRUCT] {
            assert_eq!(ends_at(&[&[0x59, 0xf0 | kind][..], &many, &[0; 9]].concat()), None, "{kind}");
        }
        assert_eq!(ends_at(&[&[0x5b][..], &many, &[0x12, 0]].concat()), None);
        assert_eq!(ends_at(&[0x59, 0x01, 0]), Some(3), "none of them");
        let deep = |levels: usize| [&[0x59][..], &vec![0x19; levels], &[0x05, 0]].concat();
        assert_eq!(ends_at(&deep(62)), Some(65));
        assert_eq!(ends_at(&deep(64)), None);
    }
}
