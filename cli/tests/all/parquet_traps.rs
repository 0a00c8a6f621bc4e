//! Parquet files, most of a few hundred bytes, that would take gigabytes or hours: each is refused within seconds, in
//! one line that gives the cause and the cure, and the next file is judged.

// Other systems do not limit the memory of a process.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Folder, detection};
use parquet::basic::Compression;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

const REQUIRED: &str = "message texts { required binary text (UTF8); }";
const OPTIONAL: &str = "message texts { optional binary text (UTF8); }";

/// Ids of encodings.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DELTA_LENGTH: i32 = 6;
const DELTA_STRINGS: i32 = 7;
const BY_DICTIONARY: i32 = 8;

/// The cause, if a file exceeds the memory or the time of its reader, and the cure.
const TOO_MUCH: &str = "the file is damaged, or reading it takes more than 1 GiB of memory or ";
const CURE: &str = "s of processor time: write it again with smaller pages";

/// Much longer than the processor time that such a file may take, since other tests run too, and shorter than the
/// library takes for some of them.
const SOON: Duration = Duration::from_secs(60);

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Consecutive fields of a struct, with one number each.
fn numbers(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|&n| [vec![0x15], varint(((n << 1) ^ (n >> 31)) as u32 as u64)].concat()).collect()
}

/// A data page that claims to have `values` values and to unpack to `unpacked` bytes.
fn page(values: i32, encoding: i32, unpacked: i32, body: &[u8]) -> Vec<u8> {
    let data = numbers(&[values, encoding, RLE, RLE]);
    [numbers(&[0, unpacked, body.len() as i32]), vec![0x2c], data, vec![0, 0], body.to_vec()].concat()
}

/// An uncompressed data page.
fn plain_page(values: i32, encoding: i32, body: &[u8]) -> Vec<u8> {
    page(values, encoding, body.len() as i32, body)
}

fn dictionary(values: i32, body: &[u8]) -> Vec<u8> {
    let sizes = numbers(&[2, body.len() as i32, body.len() as i32]);
    [sizes, vec![0x4c], numbers(&[values, PLAIN]), vec![0, 0], body.to_vec()].concat()
}

/// A delta encoding of `count` equal numbers.
fn same_numbers(count: i32) -> Vec<u8> {
    // One block as long as all of them, with one miniblock of differences of 0 bits.
    [varint(1 << 31), varint(1), varint(count as u64), vec![0, 0, 0]].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A file of one column with these pages, which all row groups share. `groups` has the number of rows of each group.
fn file(schema: &str, compression: Compression, pages: &[u8], groups: &[i64]) -> Vec<u8> {
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(schema).unwrap())));
    let group = |&rows: &i64| {
        let chunk = ColumnChunkMetaData::builder(schema.column(0))
            .set_compression(compression)
            .set_data_page_offset(4)
            .set_total_compressed_size(pages.len() as i64)
            .set_total_uncompressed_size(pages.len() as i64)
            .set_num_values(rows)
            .build()
            .unwrap();
        RowGroupMetaData::builder(schema.clone()).set_num_rows(rows).add_column_metadata(chunk).build().unwrap()
    };
    let rows = FileMetaData::new(2, groups.iter().sum(), None, None, schema.clone(), None);
    let metadata = ParquetMetaData::new(rows, groups.iter().map(group).collect());
    let mut bytes = [b"PAR1", pages].concat();
    let mut end = Vec::new();
    ParquetMetaDataWriter::new(&mut end, &metadata).finish().unwrap();
    bytes.append(&mut end);
    bytes
}

/// An unknown field: a list of `count` booleans, for which the library reads no bytes.
fn booleans(count: u64) -> Vec<u8> {
    [vec![0x99, 0xf1], varint(count)].concat()
}

/// A file that has only a schema, whose elements have these numbers of children, and the fields `more`.
fn file_of_schema(children: &[i32], more: &[u8]) -> Vec<u8> {
    let mut metadata = [numbers(&[2]), vec![0x19, 0xfc], varint(children.len() as u64)].concat();
    for &children in children {
        // The element is required and has a name.
        metadata.extend([&[0x35, 0, 0x18, 1, b'n'][..], &numbers(&[children]), &[0]].concat());
    }
    metadata.extend([0x16, 0, 0x19, 0x0c]);
    metadata.extend([more, &[0]].concat());
    let length = metadata.len() as u32;
    [b"PAR1", &metadata[..], &length.to_le_bytes(), b"PAR1"].concat()
}

/// The lines about a file that contain `said`.
fn lines<'r>(out: &'r str, file: &str, said: &str) -> Vec<&'r str> {
    out.lines().filter(|line| line.contains(file) && line.contains(said)).collect()
}

/// Asserts that a file is refused soon, in one line with this message, and that the next file is judged.
#[track_caller]
fn refused(file: &[u8], said: &str) {
    let folder = Folder::with_key();
    fs::write(folder.path("trap.parquet"), file).unwrap();
    folder.write("next.txt", &detection::PLAIN.repeat(5));
    let began = Instant::now();
    let run = folder.run(&["detect", "trap.parquet", "next.txt", "--key", "my.key"]);
    let took = began.elapsed();
    let (out, err) = (&run.out[..run.out.len().min(2000)], &run.err[..run.err.len().min(2000)]);
    assert_eq!((run.status, err), (1, ""), "{out}");
    let refusals = lines(&run.out, "trap.parquet:", said);
    assert_eq!(refusals.len(), 1, "{said:?} is not in {out}");
    assert!(said != TOO_MUCH || refusals[0].ends_with(CURE), "{refusals:?}");
    assert_eq!(lines(&run.out, "next.txt", "not marked").len(), 1, "{out}");
    assert!(took < SOON, "{took:?}");
}

#[test]
fn what_is_no_trap_is_read() {
    let folder = Folder::with_key();
    let body = [text("a dark night"), text("")].concat();
    let levels = [&[2, 0, 0, 0, 4, 1][..], &body].concat();
    let same_length =
        [varint(128), varint(4), varint(2), varint(10), vec![0, 0, 0, 0, 0], b"nightnoons".to_vec()].concat();
    for (schema, encoding, body) in
        [(REQUIRED, PLAIN, &body), (OPTIONAL, PLAIN, &levels), (REQUIRED, DELTA_LENGTH, &same_length)]
    {
        fs::write(
            folder.path("a.parquet"),
            file(schema, Compression::UNCOMPRESSED, &plain_page(2, encoding, body), &[2]),
        )
        .unwrap();
        let run = folder.run(&["detect", "a.parquet", "--key", "my.key"]);
        assert!(run.out.contains("a.parquet:2") && !run.out.contains("damaged"), "{run:?}");
    }
}

/// Snappy unpacks less than the header claims, and the library leaves the rest of its buffer empty: page after page.
#[test]
fn pages_that_unpack_to_gigabytes() {
    let body = [&[3, 8][..], b"abc"].concat();
    refused(&file(REQUIRED, Compression::SNAPPY, &page(1, PLAIN, i32::MAX, &body), &[1]), TOO_MUCH);
    let pages = page(1, PLAIN, 600 << 20, &[&[7, 24][..], &text("abc")].concat()).repeat(40);
    refused(&file(REQUIRED, Compression::SNAPPY, &pages, &[40]), TOO_MUCH);
}

/// The memory that a file takes is not the program's.
#[test]
fn memory_is_that_of_another_process() {
    let folder = Folder::with_key();
    let pages = page(1, PLAIN, 600 << 20, &[&[7, 24][..], &text("abc")].concat()).repeat(2);
    fs::write(folder.path("trap.parquet"), file(REQUIRED, Compression::SNAPPY, &pages, &[2])).unwrap();
    let peak = folder.peak(&["detect", "trap.parquet", "--key", "my.key", "--json"]);
    assert!(peak < 200, "{peak} MiB");
}

#[test]
fn a_dictionary_of_two_thousand_million_values() {
    let pages = [dictionary(i32::MAX, &text("abc")), plain_page(1, BY_DICTIONARY, &[0, 2])].concat();
    refused(&file(REQUIRED, Compression::UNCOMPRESSED, &pages, &[1]), TOO_MUCH);
}

#[test]
fn lengths_of_two_thousand_million_strings() {
    let lengths = same_numbers(i32::MAX);
    // A single number has no block.
    let one = same_numbers(1);
    let two = [&one[..one.len() - 2], &lengths].concat();
    for (encoding, body) in [(DELTA_LENGTH, &lengths), (DELTA_STRINGS, &lengths), (DELTA_STRINGS, &two)] {
        for values in [1, i32::MAX] {
            let pages = plain_page(values, encoding, body);
            refused(&file(REQUIRED, Compression::UNCOMPRESSED, &pages, &[1]), TOO_MUCH);
        }
    }
}

#[test]
fn rows_without_end() {
    let null = [&[6, 0, 0, 0][..], &varint((i32::MAX as u64) << 1)].concat();
    // A page with one null, and a page with 2^31 - 1 nulls in one run.
    let one = plain_page(1, PLAIN, &[2, 0, 0, 0, 2, 0]);
    refused(&file(OPTIONAL, Compression::UNCOMPRESSED, &one, &[1 << 62]), "the file is damaged: ");
    let all = plain_page(i32::MAX, PLAIN, &[&null[..], &[0]].concat());
    refused(&file(OPTIONAL, Compression::UNCOMPRESSED, &all, &[1 << 40]), "the file is damaged");
}

#[test]
fn schemas_without_end() {
    refused(&file_of_schema(&[vec![1; 200_000], vec![0]].concat(), &[]), TOO_MUCH);
    refused(&file_of_schema(&[1, i32::MAX, i32::MAX, i32::MAX, 0], &[]), TOO_MUCH);
}

#[test]
fn lists_that_take_no_byte() {
    let many = booleans(i32::MAX as u64).repeat(50);
    refused(&file_of_schema(&[1, 0], &many), TOO_MUCH);
    let mut page = plain_page(1, PLAIN, &text("abc"));
    // After the last field of the header.
    let end = page.len() - text("abc").len() - 1;
    page.splice(end..end, many);
    refused(&file(REQUIRED, Compression::UNCOMPRESSED, &page, &[1]), TOO_MUCH);
}
