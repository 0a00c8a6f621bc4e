//! Runs the program as users do, on files in all formats.

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use verdigris_detector::watermark::VocabularyId;
use verdigris_detector::{Key, Marking};

use common::{SECRET, judged_by_program, key, marked, plain, write_parquet};

/// A folder with a key, in which the program is run.
struct Lake {
    folder: tempfile::TempDir,
}

impl Lake {
    /// The parts that a scan wrote to a folder, in the order of their names; none if the folder does not exist.
    fn parts(&self, folder: &str) -> Vec<String> {
        let entries = self.path(folder).read_dir().into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut parts: Vec<String> = names.filter(|name| name.starts_with("part-")).collect();
        parts.sort();
        parts
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        key("mine").save(&folder.path().join("my.key")).unwrap();
        std::fs::create_dir(folder.path().join("lake")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), contents).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verdigris-scan"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(&[arguments, &["--key", "my.key"]].concat()).output().unwrap()
    }

    /// The lines that a successful run prints.
    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let done = self.run(arguments);
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        let out = String::from_utf8(done.stdout).unwrap();
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one line that a failed run prints.
    fn fault(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{told}");
        assert_eq!(told.trim_end().lines().count(), 1, "one line: {told}");
        assert!(!told.contains(SECRET));
        told
    }
}

fn some(texts: impl IntoIterator<Item = String>) -> Vec<Option<String>> {
    texts.into_iter().map(Some).collect()
}

/// All rows of a folder of parts, in order.
fn rows(folder: &Path) -> Vec<RecordBatch> {
    let mut parts: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    parts.retain(|part| part.extension().is_some_and(|kind| kind == "parquet"));
    parts.sort();
    let read = |part: &PathBuf| ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(part).unwrap()).unwrap();
    let all = parts.iter().flat_map(|part| read(part).with_batch_size(1 << 20).build().unwrap());
    all.map(Result::unwrap).collect()
}

/// Rows as one table.
fn table(folder: &Path) -> RecordBatch {
    let rows = rows(folder);
    datafusion::arrow::compute::concat_batches(&rows[0].schema(), &rows).unwrap()
}

#[test]
fn every_format_gives_what_the_main_program_gives_to_the_last_digit() {
    let lake = Lake::new();
    let mut texts: Vec<String> = marked(&lake.path("my.key"), 5).into_iter().chain((0..15).map(plain)).collect();
    texts.push("with \"quotes\",\nlines, and caf\u{65}\u{301}".into());
    let want = judged_by_program(&lake.path("my.key"), &texts);
    let json: String =
        texts.iter().map(|text| serde_json::json!({"text": text, "n": 1.5}).to_string() + "\n").collect();
    let csv: String = texts.iter().map(|text| format!("1,\"{}\"\n", text.replace('"', "\"\""))).collect();
    let csv = format!("id,text\n{csv}");
    write_parquet(&lake.path("lake/a.parquet"), &some(texts.clone()), 7);
    lake.write("lake/b.jsonl", &json);
    lake.write("lake/c.csv", &csv);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    lake.write("lake/d.jsonl.gz", gzip.finish().unwrap());
    lake.write("lake/e.ndjson.zst", zstd::encode_all(json.as_bytes(), 1).unwrap());
    let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip.write_all(csv.as_bytes()).unwrap();
    lake.write("lake/f.csv.bz2", bzip.finish().unwrap());
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(json.as_bytes()).unwrap();
    lake.write("lake/g.json.xz", xz.finish().unwrap());
    lake.write("lake/h.tsv", format!("text\tid\n\"{}\"\t5\n", texts[0].replace('"', "\"\"")));
    lake.write("lake/notes.txt", "not a document");
    lake.write("lake/_manifest.json", "{}");
    let names = ["a.parquet", "b.jsonl", "c.csv", "d.jsonl.gz", "e.ndjson.zst", "f.csv.bz2", "g.json.xz"];
    let found = lake.lines(&["lake", "--json", "--quiet"]);
    assert_eq!(found.len(), 7 * texts.len() + 1);
    for (file, found) in names.iter().zip(found.chunks(texts.len())) {
        for ((text, want), found) in texts.iter().zip(&want).zip(found) {
            assert_eq!(found["text"], text.as_str());
            assert!(found["file"].as_str().unwrap().ends_with(file));
            for field in [
                "p", "log10_p", "z", "tokens", "scored", "score", "expected", "looks", "key_id", "dialect", "verdict",
                "error",
            ] {
                assert_eq!(found[field], want[field], "{field} of {text:?} in {file}");
            }
        }
    }
    // A pattern selects a part of the lake, and no file is read twice.
    let some = lake.lines(&["lake/*.csv", "lake/c.csv", "lake/b.jsonl", "--json", "--quiet"]);
    assert_eq!(some.len(), 2 * texts.len());
    // In a query all files are one table, whatever columns each has.
    let sql = "SELECT count(*) AS documents, count(DISTINCT file) AS files, count(n) AS n, \
               sum(CASE WHEN verdigris_p(text, 'mine') <= 1e-5 THEN 1 ELSE 0 END) AS marked FROM documents";
    let counted = lake.lines(&["lake", "--json", "--quiet", "--sql", sql]);
    let marked = want.iter().filter(|line| line["verdict"] == "marked").count();
    let documents = 7 * texts.len() + 1;
    assert_eq!(
        counted[0],
        serde_json::json!({"documents": documents, "files": 8, "n": 4 * texts.len(),
                                              "marked": 7 * marked + 1})
    );
}

/// Manifests are counted, in texts that were judged before too; they are not verified.
#[test]
fn manifests_are_counted() {
    let lake = Lake::new();
    let block = "# -----BEGIN C2PA MANIFEST----- https://example.com/a.c2pa -----END C2PA MANIFEST-----\n";
    // A wrapper of invisible characters: its mark, its magic number, and no more than that.
    let selector = |byte: u8| char::from_u32(if byte < 16 { 0xfe00 } else { 0xe0100 - 16 } + u32::from(byte)).unwrap();
    let wrapper: String = std::iter::once('\u{feff}').chain(b"C2PATXT\0\x01\0\0\0\0".map(selector)).collect();
    let texts = [
        Some(plain(1)),
        Some(format!("{block}{}", plain(2))),
        Some(format!("{}{wrapper}", plain(3))),
        Some(format!("{block}{}{wrapper}", plain(4))),
        None,
    ];
    let counts = [Some(0), Some(1), Some(1), Some(2), None];
    write_parquet(&lake.path("lake/a.parquet"), &texts, 7);
    let all: Vec<String> = texts.iter().flatten().cloned().collect();
    let want = judged_by_program(&lake.path("my.key"), &all);
    let found = lake.lines(&["lake", "--json", "--quiet"]);
    for (row, count) in found.iter().zip(counts) {
        assert_eq!(row["manifests"].as_u64(), count, "{row}");
    }
    for (row, want) in found.iter().zip(&want) {
        let listed = want["manifests"].as_array().map_or(0, Vec::len) as u64;
        assert_eq!((row["manifests"].as_u64(), &row["p"]), (Some(listed), &want["p"]));
    }
    for resumed in [0, 5] {
        let summary = &lake.lines(&["lake", "--json", "--quiet", "-o", "out"])[0];
        assert_eq!((&summary["with_manifests"], &summary["resumed"]), (&3.into(), &resumed.into()), "{summary}");
    }
    let words = String::from_utf8(lake.run(&["lake", "-o", "out"]).stdout).unwrap();
    assert!(words.contains("3 with C2PA manifests, which are not verified here"), "{words}");
    // A column of the documents keeps its name.
    lake.write("other/a.jsonl", "{\"text\": \"The captain\", \"manifests\": \"none\"}\n");
    let row = &lake.lines(&["other", "--json", "--quiet"])[0];
    assert_eq!((&row["manifests"], &row["verdigris_manifests"]), (&"none".into(), &0.into()));
}

#[test]
fn names_of_files_are_taken_as_they_are() {
    let lake = Lake::new();
    for name in ["a b.jsonl", "c[1].jsonl", "d%20é.jsonl", "e#?.jsonl"] {
        lake.write(&format!("lake/{name}"), format!("{{\"text\": \"{name}\"}}\n"));
        let found = lake.lines(&[&format!("lake/{name}"), "--json", "--quiet"]);
        assert_eq!(found[0]["text"], name);
        assert!(found[0]["file"].as_str().unwrap().ends_with(name), "{found:?}");
    }
    assert_eq!(lake.lines(&["lake/", "--json", "--quiet"]).len(), 4);
}

/// A part that was removed from a finished scan.
#[test]
fn a_part_that_is_missing_is_written_again() {
    let lake = Lake::new();
    write_parquet(&lake.path("lake/a.parquet"), &some((0..40_000).map(plain)), 10_000);
    lake.lines(&["lake", "--json", "-o", "out"]);
    let before = table(&lake.path("out"));
    let names = lake.parts("out");
    assert_eq!(names.len(), 3, "{names:?}");
    std::fs::remove_file(lake.path("out").join(&names[1])).unwrap();
    let again = lake.lines(&["lake", "--json", "-o", "out"]);
    assert!(again[0]["resumed"].as_u64().unwrap() < 40_000, "{again:?}");
    assert_eq!(lake.parts("out"), names);
    assert_eq!(table(&lake.path("out")), before);
}

#[test]
fn a_scan_that_is_killed_goes_on_without_a_doubled_or_lost_row() {
    let lake = Lake::new();
    let marked = marked(&lake.path("my.key"), 3);
    let texts: Vec<Option<String>> = (0..50_000)
        .map(|i| match i {
            _ if i % 5000 == 17 => Some(marked[i % 3].clone()),
            _ if i % 700 == 1 => None,
            _ => Some(plain(i)),
        })
        .collect();
    write_parquet(&lake.path("lake/a.parquet"), &texts[..40_000], 10_000);
    write_parquet(&lake.path("lake/b.parquet"), &texts[40_000..], 3000);
    let whole = lake.lines(&["lake", "--json", "-o", "whole"]);
    assert_eq!((&whole[0]["documents"], &whole[0]["resumed"]), (&50_000.into(), &0.into()));
    assert_eq!(whole[0]["marked_at_level"], 10);

    let arguments = ["lake", "--key", "my.key", "--quiet", "-o", "killed"];
    let mut kills = 0;
    for wanted in [1, 2] {
        let mut child = lake.command(&arguments).spawn().unwrap();
        let began = Instant::now();
        while lake.parts("killed").len() < wanted && began.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        kills += usize::from(!child.wait().unwrap().success());
        assert!(lake.parts("killed").len() >= wanted);
    }
    assert_eq!(kills, 2, "the program was running both times when it was killed");
    assert!(lake.parts("killed").len() < 4, "the program was killed before it was almost done");
    // A file that a kill in the middle of writing leaves.
    lake.write("killed/.tmp-1-part-000000-000001.parquet", "half a part");
    let rest = lake.lines(&["lake", "--json", "-o", "killed"]);
    assert!(rest[0]["resumed"].as_u64().unwrap() >= 16_384, "{rest:?}");
    for same in ["documents", "judged", "missing", "marked_at_fdr", "p_at_fdr", "marked_at_level"] {
        assert_eq!(rest[0][same], whole[0][same], "{same}");
    }
    let (killed, whole) = (table(&lake.path("killed")), table(&lake.path("whole")));
    assert_eq!(killed, whole, "row for row");
    let ids = whole.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    assert!(ids.values().iter().copied().eq((0..40_000).chain(0..10_000)));
    let texts_there = whole.column_by_name("text").unwrap().as_string::<i32>();
    assert!(texts_there.iter().eq(texts.iter().map(Option::as_deref)));
    assert!(!std::fs::exists(lake.path("killed/.tmp-1-part-000000-000001.parquet")).unwrap());

    // Run again, nothing is left to do. With any argument changed, the command is refused.
    let again = lake.lines(&["lake", "--json", "-o", "killed"]);
    assert_eq!(again[0]["resumed"], 50_000);
    assert!(
        lake.fault(&["lake", "-o", "killed", "--level", "1e-3"]).contains("holds another scan: its --level is 0.00001")
    );
    assert!(lake.fault(&["lake/a.parquet", "-o", "killed"]).contains("b.parquet has changed since, or is no longer"));
    write_parquet(&lake.path("lake/b.parquet"), &texts[..10], 10);
    assert!(lake.fault(&["lake", "-o", "killed"]).contains("b.parquet has changed since"));
    lake.write("full/a", "");
    assert!(lake.fault(&["lake", "-o", "full"]).contains("is not the folder of a scan, and it is not empty"));
}

#[test]
fn false_finds_are_bounded_and_counted_over_all_documents() {
    let lake = Lake::new();
    let marked = marked(&lake.path("my.key"), 8);
    let texts = (0..2000).map(|i| if i < 8 { marked[i].clone() } else { plain(i) });
    write_parquet(&lake.path("lake/a.parquet"), &some(texts), 500);
    let summary = lake.lines(&["lake", "--json", "-o", "out", "--fdr", "0.1"]).remove(0);
    let p = table(&lake.path("out"));
    let mut p: Vec<f64> = p.column_by_name("p").unwrap().as_primitive::<Float64Type>().values().to_vec();
    assert!(p[..8].iter().all(|&p| p < 1e-5));
    p.sort_by(f64::total_cmp);
    let finds = (1..=p.len()).rev().find(|&k| p[k - 1] <= 0.1 * k as f64 / p.len() as f64).unwrap();
    assert_eq!((&summary["marked_at_fdr"], &summary["p_at_fdr"]), (&finds.into(), &p[finds - 1].into()));
    assert!(finds >= 8);
    let kept: Value = serde_json::from_slice(&std::fs::read(lake.path("out/_summary.json")).unwrap()).unwrap();
    assert_eq!(kept, summary);
}

#[test]
fn a_damaged_page_loses_nothing_before_it_and_nothing_else() {
    let lake = Lake::new();
    write_parquet(&lake.path("lake/a.parquet"), &some((0..40_000).map(plain)), 4000);
    write_parquet(&lake.path("lake/b.parquet"), &some((0..50).map(plain)), 50);
    let mut bytes = std::fs::read(lake.path("lake/a.parquet")).unwrap();
    let end = bytes.len() * 8 / 10;
    bytes[end - 60_000..end].fill(0xff);
    lake.write("lake/a.parquet", &bytes);
    let done = lake.run(&["lake", "--json", "-o", "out"]);
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2));
    let line = told.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("a.parquet cannot be read beyond its first ") && line.contains("; repair it, and scan it"));
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    let before = summary["unreadable"][0]["documents"].as_u64().unwrap();
    assert!((24_000..36_000).contains(&before), "{before}");
    assert_eq!(summary["documents"], before + 50);
    let all = table(&lake.path("out"));
    assert_eq!(all.num_rows() as u64, before + 50);
    let told = lake.fault(&["lake", "--sql", "SELECT max(verdigris_p(text, 'mine')) FROM documents"]);
    assert!(told.starts_with("error: "), "{told}");
    // A file that is not Parquet at all.
    lake.write("lake/a.parquet", "not Parquet at all, whatever its name says");
    let done = lake.run(&["lake", "--json", "-o", "out2"]);
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((done.status.code(), &summary["documents"]), (Some(2), &50.into()));
    assert!(summary["unreadable"][0]["error"].as_str().unwrap().contains("cannot read"));
}

#[test]
fn what_cannot_be_judged_is_told_in_its_row() {
    let lake = Lake::new();
    let texts = vec![None, Some(plain(1)), Some("a ".repeat(9 << 20)), Some(String::new()), None];
    write_parquet(&lake.path("lake/a.parquet"), &texts, 2);
    let found = lake.lines(&["lake", "--json", "--quiet"]);
    let verdicts: Vec<&Value> = found.iter().map(|row| &row["verdict"]).collect();
    assert_eq!(verdicts, [&Value::Null, &"not marked".into(), &"too short".into(), &"too short".into(), &Value::Null]);
    let summary = lake.lines(&["lake", "--json", "-o", "out"]).remove(0);
    let counts = ["documents", "judged", "missing", "faulty"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(counts, [5, 3, 2, 0]);
}

#[test]
fn what_is_asked_wrongly_is_told_with_its_cure() {
    let lake = Lake::new();
    write_parquet(&lake.path("lake/a.parquet"), &some((0..5).map(plain)), 5);
    lake.write("other.jsonl", "{\"text\": 7}\n");
    let other = VocabularyId::new(9, "other").unwrap();
    Key::generate(Default::default(), other).save(&lake.path("foreign.key")).unwrap();
    let exact: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        ("no file of documents at nowhere/*.parquet: names end in .parquet", vec!["nowhere/*.parquet"]),
        ("no file of documents at my.key", vec!["my.key"]),
        (
            "has no column \"body\": name one of its columns with --text-column (id, text)",
            vec!["lake", "--text-column", "body"],
        ),
        ("column \"id\": a scan judges texts, but this column is of type Int64", vec!["lake", "--text-column", "id"]),
        ("column \"text\": a scan judges texts, but this column is of type Int64", vec!["other.jsonl"]),
        ("foreign.key: the key", vec!["lake", "--key", "foreign.key"]),
        ("cannot read nothing.json: No such file", vec!["lake", "--tokenizer", "nothing.json"]),
        (
            "there is no key with the id \"his\" here: there is \"mine\"",
            vec!["lake", "--sql", "SELECT verdigris_p(text, 'his') FROM documents"],
        ),
        ("--fdr is 1.5, but must be above 0 and below 1", vec!["lake", "--fdr", "1.5"]),
        ("DDL not supported", vec!["lake", "--sql", "CREATE TABLE x AS SELECT 1"]),
        ("DML not supported", vec!["lake", "--sql", "COPY documents TO 'x.csv'"]),
        ("is a file, but a scan is written to a folder", vec!["lake", "-o", "my.key"]),
        ("my.key exists already", vec!["lake", "-o", "my.key", "--sql", "SELECT 1"]),
    ]);
    for (want, arguments) in exact {
        let told = lake.fault(&arguments);
        assert!(told.contains(want), "{want}\n{told}");
    }
    assert!(lake.fault(&["lake", "--sql", "SELECT * FROM documents WHERE"]).contains("error"));
}

#[test]
fn columns_keep_their_names_and_a_query_is_written_whole() {
    let lake = Lake::new();
    lake.write("lake/a.jsonl", format!("{{\"p\": 1, \"file\": \"x\", \"text\": {:?}}}\n", plain(1)));
    let found = lake.lines(&["lake", "--json", "--quiet"]).remove(0);
    assert_eq!((&found["p"], &found["file"]), (&1.into(), &"x".into()));
    assert!(found["verdigris_p"].as_f64().unwrap() > 1e-4);
    assert!(found["verdigris_file"].as_str().unwrap().ends_with("a.jsonl"));
    lake.lines(&["lake", "-o", "out", "--quiet"]);
    assert_eq!(lake.lines(&["lake", "-o", "out", "--json"])[0]["resumed"], 1);
    let sql = "SELECT file, verdigris_detect(text, 'mine') AS found FROM documents";
    lake.lines(&["lake", "-o", "answer.parquet", "--sql", sql, "--quiet"]);
    let read = lake.lines(&["answer.parquet", "--json", "--quiet", "--sql", "SELECT found['p'] AS p FROM documents"]);
    assert_eq!(read[0]["p"], found["verdigris_p"]);
    // A printed table has a line per document and the summary.
    let done = lake.run(&["lake"]);
    let out = String::from_utf8(done.stdout).unwrap();
    assert!(out.contains("verdict        document") && out.contains("a.jsonl:1"), "{out}");
    assert!(out.contains("1 documents: 1 judged, 0 without a text, 0 faulty"), "{out}");
}

/// Columns that a reader would take for numbers, and fields that Parquet does not support.
#[test]
fn columns_are_kept_as_they_are_written() {
    let lake = Lake::new();
    lake.write("zip.csv", format!("zip,id,text\n00501,9007199254740993,\"{0}\"\n10115,7.0,\"{0}\"\n", plain(1)));
    let rows = lake.lines(&["zip.csv", "--json", "--quiet"]);
    let columns: Vec<_> = rows[..2].iter().map(|row| (&row["zip"], &row["id"])).collect();
    let written = [("00501", "9007199254740993"), ("10115", "7.0")].map(|(zip, id)| (zip.into(), id.into()));
    assert_eq!(columns, [(&written[0].0, &written[0].1), (&written[1].0, &written[1].1)] as [(&Value, &Value); 2]);
    // In a query they are numbers.
    let sum = lake.lines(&["zip.csv", "--json", "--quiet", "--sql", "SELECT sum(zip) AS sum FROM documents"]);
    assert_eq!(sum[0]["sum"], 10_616);
    let json = |text: &str| {
        format!("{{\"text\": {text:?}, \"meta\": {{}}, \"all\": [{{}}], \"a\": {{\"b\": {{}}, \"n\": 1}}}}\n")
    };
    lake.write("empty.jsonl", json(&plain(1)) + &json(&plain(2)));
    let done = lake.run(&["empty.jsonl", "--json", "-o", "out"]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("empty.jsonl: left out, since it has only empty objects: meta, all, b"), "{said}");
    assert_eq!(table(&lake.path("out")).num_rows(), 2);
}

/// A folder may be named through a link.
#[cfg(unix)]
#[test]
fn a_link_to_a_folder_is_that_folder() {
    let lake = Lake::new();
    std::os::unix::fs::symlink(lake.path("lake"), lake.path("link")).unwrap();
    write_parquet(&lake.path("lake/a.parquet"), &some((0..5).map(plain)), 5);
    let answer = ["link/a.parquet", "-o", "link/a.parquet", "--force", "--sql", "SELECT 1"];
    assert!(lake.fault(&answer).contains("exists already; --force replaces it if it is not an input"));
    lake.lines(&["link", "-o", "link/out", "--quiet"]);
    assert_eq!(lake.lines(&["link", "-o", "link/out", "--json"])[0]["resumed"], 5);
}

/// A part that a read error ended is written again when the file can be read.
#[test]
fn a_passing_read_error_is_made_good() {
    let lake = Lake::new();
    let file = lake.path("lake/a.parquet");
    write_parquet(&file, &some((0..40_000).map(plain)), 4000);
    let (whole, time) = (std::fs::read(&file).unwrap(), file.metadata().unwrap().modified().unwrap());
    let set = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        std::fs::File::options().append(true).open(&file).unwrap().set_modified(time).unwrap();
    };
    let mut damaged = whole.clone();
    let end = damaged.len() * 8 / 10;
    damaged[end - 60_000..end].fill(0xff);
    set(&damaged);
    assert_eq!(lake.run(&["lake", "--json", "-o", "out"]).status.code(), Some(2));
    let before = table(&lake.path("out")).num_rows() as u64;
    assert!(before < 40_000);
    // Again with the error, and then without it.
    assert_eq!(lake.run(&["lake", "--json", "-o", "out"]).status.code(), Some(2));
    assert_eq!(table(&lake.path("out")).num_rows() as u64, before);
    set(&whole);
    assert_eq!(lake.lines(&["lake", "--json", "-o", "out"])[0]["documents"], 40_000);
    let all = table(&lake.path("out"));
    let ids = all.column_by_name("id").unwrap().as_primitive::<Int64Type>();
    assert!(ids.values().iter().copied().eq(0..40_000));
    assert_eq!(lake.lines(&["lake", "--json", "-o", "out"])[0]["resumed"], 40_000);
}

/// A reader that has enough, such as `head`, is not an error.
#[cfg(unix)]
#[test]
fn an_output_that_is_closed_ends_the_program_quietly() {
    let lake = Lake::new();
    write_parquet(&lake.path("lake/a.parquet"), &some((0..3000).map(plain)), 1000);
    for more in [&[][..], &["--sql", "SELECT text FROM documents"]] {
        let arguments = [&["lake", "--json", "--quiet", "--key", "my.key"][..], more].concat();
        let piped = || std::process::Stdio::piped();
        let mut child = lake.command(&arguments).stdout(piped()).stderr(piped()).spawn().unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        assert_eq!((done.status.code(), &*done.stderr), (Some(141), &b""[..]), "{more:?}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_query_leaves_no_file() {
    let lake = Lake::new();
    write_parquet(&lake.path("lake/a.parquet"), &some((0..2000).map(plain)), 1000);
    let sql = "SELECT a.id FROM documents a, documents b, documents c";
    let arguments = ["lake", "--key", "my.key", "--quiet", "-o", "answer.parquet", "--sql", sql];
    let mut child = lake.command(&arguments).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let is_written = || {
        lake.path("").read_dir().unwrap().any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(".tmp-"))
    };
    let began = Instant::now();
    while !is_written() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(is_written() && child.try_wait().unwrap().is_none());
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!((done.status.code(), &*done.stderr), (Some(2), &b"error: stopped\n"[..]));
    assert!(!lake.path("answer.parquet").exists() && !is_written());
}

#[test]
fn several_keys_are_all_looked_for_and_a_ring_skips_what_is_not_for_it() {
    let lake = Lake::new();
    let ring = lake.path("ring");
    std::fs::create_dir(&ring).unwrap();
    for id in ["mine", "theirs"] {
        key("mine").with_tenant(id).unwrap().with_id(id).unwrap().save(&ring.join(format!("{id}.key"))).unwrap();
    }
    std::fs::write(ring.join("stray.key"), "-----BEGIN PRIVATE KEY-----\n").unwrap();
    std::fs::create_dir(lake.path("foreign")).unwrap();
    for folder in ["ring", "foreign"] {
        let vocabulary = VocabularyId::new(100, "another").unwrap();
        Key::generate(Marking::lists(), vocabulary).save(&lake.path(folder).join("other.key")).unwrap();
    }
    let texts = marked(&ring.join("theirs.key"), 2);
    write_parquet(&lake.path("lake/a.parquet"), &some(texts), 2);
    let done = lake.command(&["lake", "--ring", "ring", "--json"]).output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(told.contains("note: ") && told.contains("stray.key is skipped"), "{told}");
    assert!(told.contains("other.key is skipped: it was made for another tokenizer"), "{told}");
    let out = String::from_utf8(done.stdout).unwrap();
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.iter().all(|row| row["key_id"] == "theirs" && row["looks"] == 2.0 && row["verdict"] == "marked"));
    // A folder without a usable key is an error, even if another key was named.
    let told = lake.fault(&["lake", "--ring", "foreign"]);
    assert!(told.contains("other.key is skipped: it was made for another tokenizer"), "{told}");
}
