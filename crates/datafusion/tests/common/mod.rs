//! Shared code of the tests: a key, texts that the main program marked with it, and that program as the judge.
#![allow(dead_code, unreachable_pub, reason = "each test is a separate crate, and none needs all of it")]

pub mod verdicts;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use verdigris_detector::{Key, Marking, Reader, Tokenizer};

/// The digits of the secret, which must not appear anywhere.
pub const SECRET: &str = "5a5a5a5a";

pub fn reader() -> Reader {
    let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
    Reader::new(Tokenizer::from_json(json).unwrap())
}

pub fn key(id: &str) -> Key {
    Key::from_secret([0x5a; 32], id, Marking::lists(), reader().vocabulary()).unwrap()
}

/// Runs a test in the kind of runtime that the program uses for queries.
pub fn on_two_threads<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(test)
}

/// Runs the main program with texts on its standard input. The variable is set by `tests/scripts/scan`.
pub fn verdigris(arguments: &[&str], input: &str) -> String {
    let program = std::env::var("VERDIGRIS_PROGRAM")
        .expect("VERDIGRIS_PROGRAM names the main program, which is the judge: run tests/scripts/scan");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let feeding = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let done = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    assert_ne!(done.status.code(), Some(2), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Marked texts of some 100 tokens each.
pub fn marked(key: &Path, texts: usize) -> Vec<String> {
    let count = texts.to_string();
    let key = key.to_str().unwrap();
    let options = ["generate", "The captain", "--key", key, "--texts", &count, "--max-tokens", "110", "--seed", "1"];
    let lines = verdigris(&[&options[..], &["--json"]].concat(), "");
    lines.lines().map(|line| field(line, "text").as_str().unwrap().to_owned()).collect()
}

pub fn field(line: &str, name: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(line).unwrap()[name].clone()
}

/// An unmarked text, different for each seed.
pub fn plain(seed: usize) -> String {
    let words = [
        "the captain",
        "a red sail",
        "the quiet sea",
        "an old map",
        "the crew",
        "a small boat",
        "the morning",
        "gold",
        "went to",
        "saw",
        "found",
        "asked for",
        "spoke of",
        "left",
        "kept",
        "lost",
        "and then",
        "but",
        "so",
        "because of",
    ];
    let mut state = seed as u64 + 1;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words[(state >> 33) as usize % words.len()]
    };
    (0..40).map(|_| word()).collect::<Vec<_>>().join(" ") + "."
}

/// The main program's verdicts on texts, one JSON object each.
pub fn judged_by_program(key: &Path, texts: &[String]) -> Vec<serde_json::Value> {
    let lines: String = texts.iter().map(|text| serde_json::json!({ "text": text }).to_string() + "\n").collect();
    let found = verdigris(&["detect", "--format", "jsonl", "--key", key.to_str().unwrap(), "--json"], &lines);
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes numbered texts as Parquet, in row groups of `group` rows.
pub fn write_parquet(path: &Path, texts: &[Option<String>], group: usize) {
    write_numbered(path, texts, group, 0);
}

/// Like `write_parquet`, with numbers from `first`.
pub fn write_numbered(path: &Path, texts: &[Option<String>], group: usize, first: i64) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((first..).take(texts.len())));
    let texts: ArrayRef = Arc::new(texts.iter().collect::<StringArray>());
    let batch = RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("text", texts, true)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}
