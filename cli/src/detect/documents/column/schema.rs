//! Checks that the metadata of a file can be read in time and memory proportional to its length. The library follows a
//! schema to any depth, and allocates for all children that an element declares.

use super::thrift::{Reader, Struct, Value};

use Value::{Bool, Byte, Bytes, Double, List, Number};

/// The greatest depth of a schema.
const DEEPEST: usize = 64;

/// `FileMetaData` and its parts, from `parquet.thrift` of <https://github.com/apache/parquet-format>.
const FILE: Struct = Struct(&[
    (1, Number),
    (SCHEMA, Value::Structs(&ELEMENT)),
    (3, Number),
    (4, Value::Structs(&GROUP)),
    (5, Value::Structs(&KEY_VALUE)),
    (6, Bytes),
    (7, Value::Structs(&Struct(&[(1, Value::Struct(&EMPTY)), (2, Value::Struct(&EMPTY))]))),
]);
const SCHEMA: i16 = 2;

const ELEMENT: Struct = Struct(&[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Bytes),
    (CHILDREN, Number),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, Value::Struct(&LOGICAL_TYPE)),
]);
const CHILDREN: i16 = 5;

const LOGICAL_TYPE: Struct = Struct(&[
    (1, Value::Struct(&EMPTY)),
    (2, Value::Struct(&EMPTY)),
    (3, Value::Struct(&EMPTY)),
    (4, Value::Struct(&EMPTY)),
    (5, Value::Struct(&Struct(&[(1, Number), (2, Number)]))),
    (6, Value::Struct(&EMPTY)),
    (7, Value::Struct(&TIME)),
    (8, Value::Struct(&TIME)),
    (10, Value::Struct(&Struct(&[(1, Byte), (2, Bool)]))),
    (11, Value::Struct(&EMPTY)),
    (12, Value::Struct(&EMPTY)),
    (13, Value::Struct(&EMPTY)),
    (14, Value::Struct(&EMPTY)),
    (15, Value::Struct(&EMPTY)),
    (16, Value::Struct(&Struct(&[(1, Byte)]))),
    (17, Value::Struct(&Struct(&[(1, Bytes)]))),
    (18, Value::Struct(&Struct(&[(1, Bytes), (2, Number)]))),
]);

const TIME: Struct = Struct(&[(1, Bool), (2, Value::Struct(&UNIT))]);

const UNIT: Struct = Struct(&[(1, Value::Struct(&EMPTY)), (2, Value::Struct(&EMPTY)), (3, Value::Struct(&EMPTY))]);

const EMPTY: Struct = Struct(&[]);

const KEY_VALUE: Struct = Struct(&[(1, Bytes), (2, Bytes)]);

const GROUP: Struct = Struct(&[
    (1, Value::Structs(&CHUNK)),
    (2, Number),
    (3, Number),
    (4, Value::Structs(&Struct(&[(1, Number), (2, Bool), (3, Bool)]))),
    (5, Number),
    (6, Number),
    (7, Number),
]);

const CHUNK: Struct = Struct(&[
    (1, Bytes),
    (2, Number),
    (3, Value::Struct(&COLUMN)),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (9, Bytes),
]);

const COLUMN: Struct = Struct(&[
    (1, Number),
    (2, List),
    (3, List),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, Value::Structs(&KEY_VALUE)),
    (9, Number),
    (10, Number),
    (11, Number),
    (12, Value::Struct(&STATISTICS)),
    (13, Value::Structs(&Struct(&[(1, Number), (2, Number), (3, Number)]))),
    (14, Number),
    (15, Number),
    (16, Value::Struct(&Struct(&[(1, Number), (2, List), (3, List)]))),
    (17, Value::Struct(&Struct(&[(1, Value::Struct(&BOX)), (2, List)]))),
]);

const STATISTICS: Struct = Struct(&[
    (1, Bytes),
    (2, Bytes),
    (3, Number),
    (4, Number),
    (5, Bytes),
    (6, Bytes),
    (7, Bool),
    (8, Bool),
    (9, Number),
]);

const BOX: Struct =
    Struct(&[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)]);

/// Whether metadata has a schema whose elements have the children that they declare and are not too deep, and nothing
/// that would keep the library busy. It may have other faults.
pub(super) fn is_sound(metadata: &[u8]) -> bool {
    let mut sound = None;
    let whole = Reader::new(metadata).known(&FILE).and_then(|()| {
        Reader::new(metadata).fields(|reader, field, kind| {
            if field == SCHEMA {
                sound = sound.is_none().then(|| tree(&mut reader.clone())).flatten();
                sound?;
            }
            reader.skip(kind, usize::MAX)
        })
    });
    whole.is_some() && sound.is_some()
}

/// Skips the elements of a schema, each of which comes before its children. `None` if they are not a tree, or one that
/// is too deep.
fn tree(reader: &mut Reader<'_>) -> Option<()> {
    let (elements, _) = reader.list()?;
    // For each ancestor of the next element, the number of children still to come.
    let mut around: Vec<u64> = Vec::new();
    for element in 0..elements {
        match around.last_mut() {
            Some(left) => *left -= 1,
            None if element > 0 => return None,
            None => {}
        }
        let mut children = 0;
        reader.fields(|reader, field, kind| {
            if field == CHILDREN {
                children = Reader::number(&mut reader.clone())?;
            }
            reader.skip(kind, usize::MAX)
        })?;
        around.push(u64::try_from(children).ok().filter(|&children| children < elements)?);
        while around.pop_if(|left| *left == 0).is_some() {}
        if around.len() > DEEPEST {
            return None;
        }
    }
    (elements > 0 && around.is_empty()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata with a number, and a schema whose elements have the given numbers of children.
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
            // A name, and the number of children.
            bytes.extend([0x48, 1, b'n', 0x15]);
            number(&mut bytes, ((count << 1) ^ (count >> 31)) as u32 as u64);
            bytes.push(0);
        }
        // A list of structs, one of them with a map, a double and a boolean; and the end.
        bytes.extend([0x99, 0x2c, 0, 0x1b, 1, 0x55, 3, 4, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0, 0]);
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
