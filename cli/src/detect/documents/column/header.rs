//! Page headers.

use super::thrift::{Reader, Struct, Value};

use Value::{Bool, Number};

/// The fields of `PageHeader`, and the ids of the two that hold sizes.
const PAGE: Struct = Struct(&[
    (1, Number),
    (UNPACKED, Number),
    (PACKED, Number),
    (4, Number),
    (5, Value::Struct(&Struct(&[(1, Number), (2, Number), (3, Number), (4, Number)]))),
    (6, Value::Struct(&Struct(&[]))),
    (7, Value::Struct(&Struct(&[(1, Number), (2, Number), (3, Bool)]))),
    (8, Value::Struct(&DATA_V2)),
]);
const UNPACKED: i16 = 2;
const PACKED: i16 = 3;

const DATA_V2: Struct =
    Struct(&[(1, Number), (2, Number), (3, Number), (4, Number), (5, Number), (6, Number), (7, Bool)]);

/// The sizes in a page header, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The length of the header itself.
    pub(super) length: u64,
    /// The length of the page in the file, and unpacked.
    pub(super) packed: u64,
    pub(super) unpacked: u64,
}

impl Header {
    /// The header at the beginning of `data`; `None` if it is damaged, or longer than `data`.
    pub(super) fn of(data: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        reader.known(&PAGE)?;
        let length = reader.at as u64;
        let (mut packed, mut unpacked) = (None, None);
        Reader::new(data).fields(|reader, field, kind| {
            match field {
                UNPACKED => unpacked = Reader::number(&mut reader.clone()),
                PACKED => packed = Reader::number(&mut reader.clone()),
                _ => {}
            }
            reader.skip(kind, usize::MAX)
        })?;
        let bytes = |size: Option<i64>| u64::try_from(size?).ok();
        Some(Self { length, packed: bytes(packed)?, unpacked: bytes(unpacked)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stand_in_the_second_and_the_third_field() {
        let data = [0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
        let header = [&[0x15, 0, 0x15, 80, 0x15, 40][..], &data, &[1, 2]].concat();
        assert_eq!(Header::of(&header), Some(Header { length: 17, packed: 20, unpacked: 40 }));
        // In another order.
        let header = [&[0x15, 0, 0x25, 40, 0x05, 4, 80][..], &[0x0c, 10], &data[1..]].concat();
        assert_eq!(Header::of(&header), Some(Header { length: 19, packed: 20, unpacked: 40 }));
        assert_eq!(Header::of(&[0x15, 0, 0x15, 79, 0x15, 40, 0]), None, "less than nothing");
        assert_eq!(Header::of(&[0x15, 0, 0x15, 80, 0]), None, "no size");
        // The library would skip the booleans one by one.
        let booleans = [0x99, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(Header::of(&[&header[..18], &booleans, &[0]].concat()), None);
    }
}
