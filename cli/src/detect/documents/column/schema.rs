//! Whether a file's schema is one that the library can read: it follows a schema as deep as it goes, and makes room for as
//! many children as an element says that it has.
//!
//! Metadata is a struct in Thrift's compact protocol:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>. Of its fields only the schema is
//! read here, and of the schema's elements only the numbers of their children.

use super::varint::varint;

/// The deepest that a schema may be, and anything within the metadata.
const DEEPEST: usize = 64;

/// The fields of `FileMetaData` and `SchemaElement` that count, and the kinds of their values.
const SCHEMA: i64 = 2;
const CHILDREN: i64 = 5;
const I32: u8 = 5;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Whether a schema stands in the metadata of a file, whose elements have as many children as they say and are not too
/// deep. It may have other faults.
pub(super) fn is_sound(metadata: &[u8]) -> bool {
    let mut reader = Reader { data: metadata, at: 0 };
    let mut sound = false;
    let whole = reader.fields(|reader, field, kind| {
        if (field, kind) != (SCHEMA, LIST) {
            return reader.skip(kind, DEEPEST);
        }
        // Of the elements around the next one: how many children are still to come.
        let mut around: Vec<i64> = Vec::new();
        let (elements, kind) = reader.list()?;
        if kind != STRUCT {
            return None;
        }
        for element in 0..elements {
            match around.last_mut() {
                Some(left) => *left -= 1,
                None if element > 0 => return None,
                None => {}
            }
            let mut children = 0;
            reader.fields(|reader, field, kind| match (field, kind) {
                (CHILDREN, I32) => reader.zigzag().map(|number| children = number),
                _ => reader.skip(kind, DEEPEST),
            })?;
            if !(0..=elements as i64).contains(&children) {
                return None;
            }
            around.push(children);
            while around.pop_if(|left| *left == 0).is_some() {}
            if around.len() > DEEPEST {
                return None;
            }
        }
        sound = elements > 0 && around.is_empty();
        Some(())
    });
    whole.is_some() && sound
}

/// A place in the metadata. Whatever is read is `None` where the metadata is damaged.
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reader<'_> {
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

    fn zigzag(&mut self) -> Option<i64> {
        self.varint().map(|bits| (bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    /// The length of a list, and the kind of its values.
    fn list(&mut self) -> Option<(u64, u8)> {
        let head = self.byte()?;
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Some((length, head & 15))
    }

    /// Goes through a struct; `each` reads the value of a field, by its number and kind.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut field = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => self.zigzag()?,
                more => field.checked_add(more.into())?,
            };
            each(self, field, head & 15)?;
        }
    }

    /// Goes past a value of a kind. In a struct, booleans are in the kind itself.
    fn skip(&mut self, kind: u8, deepest: usize) -> Option<()> {
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

    /// Goes past the values of a list or a map, each of which takes a byte at the least.
    fn values<const KINDS: usize>(&mut self, length: u64, kinds: [u8; KINDS], deepest: usize) -> Option<()> {
        for kind in (0..length).flat_map(|_| kinds) {
            match kind {
                1 | 2 => self.bytes(1)?,
                kind => self.skip(kind, deepest)?,
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata with a schema of elements that have so many children, which stand behind a number.
    fn metadata(children: &[i32]) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc];
        let number = |bytes: &mut Vec<u8>, mut number: u64| {
            while number > 127 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        number(&mut bytes, children.len() as u64);
        for &count in children {
            // A name, and the children.
            bytes.extend([0x48, 1, b'n', 0x15]);
            number(&mut bytes, ((count << 1) ^ (count >> 31)) as u32 as u64);
            bytes.push(0);
        }
        // A list of structs, one of them with a map, a double and a boolean; and the end.
        bytes.extend([0x29, 0x2c, 0, 0x1b, 1, 0x55, 3, 4, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 0]);
        bytes
    }

    #[test]
    fn elements_have_the_children_that_they_say() {
        assert!(is_sound(&metadata(&[3, 0, 2, 0, 0, 0])));
        assert!(is_sound(&metadata(&[0])));
        for bad in [&[3, 0, 0][..], &[1, 0, 0], &[2, 0, i32::MAX], &[-1, 0], &[]] {
            assert!(!is_sound(&metadata(bad)), "{bad:?}");
        }
        let whole = metadata(&[1, 0]);
        assert!((0..whole.len()).all(|end| !is_sound(&whole[..end])));
    }

    #[test]
    fn a_schema_has_a_depth() {
        let deep = |levels: usize| [vec![1; levels], vec![0]].concat();
        assert!(is_sound(&metadata(&deep(DEEPEST))));
        assert!(!is_sound(&metadata(&deep(DEEPEST + 1))));
    }
}
