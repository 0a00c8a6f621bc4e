//! Parquet files damaged in hundreds of ways: each is read or refused, and the program continues with the next.

use std::fs;
use std::sync::Arc;

use crate::support::Folder;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// A Parquet file with eight texts in two row groups.
fn texts(compression: Compression) -> Vec<u8> {
    let schema = Arc::new(parse_message_type("message texts { required binary text (UTF8); }").unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    for words in [1, 3] {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let texts: Vec<ByteArray> = (0..4).map(|i| "a dark night ".repeat(words + i).as_str().into()).collect();
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

/// A pseudorandom number generator with a fixed sequence.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// A copy with some bytes changed, removed or doubled, or with everything removed from some position to the last 8
/// bytes. Half of the changes are in the last 200 bytes, where the metadata is.
fn damaged(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(3) {
        let at = if numbers.below(2) == 0 { numbers.below(bytes.len()) } else { bytes.len() - 1 - numbers.below(200) };
        let end = (at + 1 + numbers.below(8)).min(bytes.len());
        match numbers.below(6) {
            0 => bytes[at] = numbers.below(256) as u8,
            1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, part));
            }
            // The length of the footer and the magic number at the end stay.
            _ => drop(bytes.drain(at..bytes.len().saturating_sub(8).max(at))),
        }
        if bytes.len() < 300 {
            break;
        }
    }
    bytes
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = Folder::with_key();
    fs::create_dir(folder.path("texts")).unwrap();
    let mut numbers = Numbers(11);
    let kinds = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
        Compression::GZIP(Default::default()),
        Compression::LZ4_RAW,
    ];
    for (kind, compression) in kinds.into_iter().enumerate() {
        let whole = texts(compression);
        for n in 0..150 {
            let bytes = if n == 0 { whole.clone() } else { damaged(&whole, &mut numbers) };
            fs::write(folder.path(&format!("texts/{kind}-{n:03}.parquet")), bytes).unwrap();
        }
    }
    let run = folder.run(&["detect", "texts", "--key", "my.key", "--json"]);
    assert!([0, 1, 2].contains(&run.status) && !run.err.contains("panicked"), "{}: {}", run.status, run.err);
    // All rows of the undamaged files are reported, and each damaged file is named.
    let all = run.out + &run.err;
    for kind in 0..kinds.len() {
        assert!((1..=8).all(|row| all.contains(&format!("{kind}-000.parquet:{row}"))), "{all}");
        assert!((1..150).all(|n| all.contains(&format!("{kind}-{n:03}.parquet"))), "{all}");
    }
}

/// A file that makes the Parquet library fail an internal assertion, of which the user sees one line.
#[test]
fn a_fault_of_the_library_is_one_of_the_file() {
    let folder = Folder::with_key();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parquet/offsets-beyond-the-page.parquet");
    let run = folder.run(&["detect", file, "--key", "my.key"]);
    assert_eq!((run.status, &*run.err), (2, ""), "{run:?}");
    let said = ".parquet:1: the file is damaged, or reading it takes more than 1 GiB of memory or 4 s of processor \
                time: write it again with smaller pages\n";
    assert!(run.out.contains(said) && run.out.contains("1 faulty"), "{run:?}");
}
