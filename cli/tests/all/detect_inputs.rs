//! The texts that `detect` reads: in every format, or refused by their kind, in bounded memory.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support::Folder;
use crate::support::detection::{PLAIN, detect, marked, verdicts};
use serde_json::{Value, json};

/// UTF-16 and byte order marks do not change the result.
#[test]
fn utf16_and_byte_order_marks_are_read() {
    let folder = Folder::with_key();
    let text = marked(&folder);
    folder.write("text.txt", &text);
    let plain = detect(&folder, &["text.txt"]);
    assert_eq!(plain.status, 0, "{plain:?}");
    let units = |order: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(order).collect() };
    for bytes in [
        [&b"\xff\xfe"[..], &units(u16::to_le_bytes)].concat(),
        [&b"\xfe\xff"[..], &units(u16::to_be_bytes)].concat(),
        [b"\xef\xbb\xbf", text.as_bytes()].concat(),
    ] {
        fs::write(folder.path("other.txt"), bytes).unwrap();
        assert_eq!(detect(&folder, &["other.txt"]).out, plain.out);
        assert_eq!(folder.run_with(&["detect", "--key", "my.key"], "other.txt").out, plain.out);
    }
}

/// Input that is not text is refused with its file type and advice: alone, among other files, and by other commands.
#[test]
fn what_is_no_text_is_refused_by_name() {
    let folder = Folder::with_key();
    folder.write("good.txt", &PLAIN.repeat(5));
    let unmarked: Vec<u8> = PLAIN.repeat(5).encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, said) in [
        (&b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"[..], "it is a PDF document: extract its text first"),
        (b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0word/document.xml", "it is a Word document: save it as plain text"),
        (b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0data.csv", "it is a ZIP archive: unpack it first"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "it is compressed with gzip: unpack it first: `gzip -dc"),
        (b"\x28\xb5\x2f\xfd\x24\x00", "it is compressed with zstd"),
        (b"\x7fELF\x02\x01\x01\0", "it is a program"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is a PNG image"),
        (&unmarked, "it looks like UTF-16LE without a byte order mark: convert it first: `iconv -f UTF-16LE -t UTF-8"),
        (b"Some words, and then\0 a zero byte", "byte 20 is zero: it is not a text file"),
        (b"caf\xe9 au lait", "byte 3 is not valid UTF-8"),
    ] {
        fs::write(folder.path("odd.txt"), bytes).unwrap();
        detect(&folder, &["odd.txt"]).fails(&format!("odd.txt: {said}"));
        folder.run_with(&["detect", "--key", "my.key"], "odd.txt").fails(&format!("standard input: {said}"));
        folder.run(&["identify", "odd.txt", "--key", "my.key"]).fails(&format!("odd.txt: {said}"));
        let run = detect(&folder, &["odd.txt", "good.txt", "--json"]);
        let found = run.lines();
        assert_eq!((verdicts(&run), run.status), (vec!["error".into(), "not marked".into()], 1), "{run:?}");
        assert!(found[0]["error"].as_str().unwrap().starts_with(said), "{run:?}");
    }
}

/// JSON lines and arrays can also come from standard input or from a file with another ending.
#[test]
fn a_format_is_said_where_a_name_does_not_say_it() {
    let folder = Folder::with_key();
    let text = marked(&folder);
    let jsonl = [json!({"text": text, "id": "one"}), json!({"text": PLAIN.repeat(5), "id": 2}), json!("Short.")]
        .map(|line| line.to_string() + "\r\n")
        .concat();
    folder.write("log", &format!("\u{feff}{jsonl}"));
    let expected = ["marked", "not marked", "too short"];
    let run = folder.run_with(&["detect", "--key", "my.key", "--format", "jsonl", "--json"], "log");
    assert_eq!((verdicts(&run), run.status), (expected.map(String::from).to_vec(), 0), "{run:?}");
    let ids: Vec<Value> = run.lines().iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, [json!("one"), json!(2), Value::Null]);
    assert_eq!(run.lines()[1]["name"], "standard input:2");
    let run = detect(&folder, &["log", "--format", "jsonl", "--json", "--id-field", "text"]);
    assert_eq!(run.lines()[0]["name"], "log:1");

    let array = json!([{"text": text, "key": {"a": 1}}, PLAIN.repeat(5)]).to_string();
    folder.write("all.json", &format!(" \n{array}\n"));
    let run = detect(&folder, &["all.json", "--json", "--id-field", "key"]);
    assert_eq!((verdicts(&run), run.status), (expected[..2].iter().map(|v| v.to_string()).collect(), 0), "{run:?}");
    assert_eq!(run.lines()[0]["id"], json!({"a": 1}));
    for text in [json!({"answer": text}), json!([{"answer": text}]), json!([text])] {
        folder.write("one.json", &text.to_string());
        let run = detect(&folder, &["one.json", "--json"]);
        assert_eq!(verdicts(&run), ["marked"], "JSON may be a text itself: {run:?}");
    }
    let run = detect(&folder, &["one.json", "--json", "--format", "json"]);
    assert_eq!(run.lines()[0]["name"], "one.json:1");

    // `-` in a list of files is standard input, allowed once.
    folder.write("plain.txt", &PLAIN.repeat(5));
    folder.write("text.txt", &text);
    let run = folder.run_with(&["detect", "-", "plain.txt", "--key", "my.key", "--json"], "text.txt");
    assert_eq!((verdicts(&run), run.status), (expected[..2].iter().map(|v| v.to_string()).collect(), 0), "{run:?}");
    assert_eq!(run.lines()[0]["name"], "standard input");
    detect(&folder, &["-", "-"]).fails("standard input can only be read once");

    // Without `--format` the file is one text, and a hint says so.
    let run = folder.run_with(&["detect", "--key", "my.key"], "log");
    assert!(run.out.contains("--format jsonl") || run.out.contains("verdict   marked"), "{run:?}");
    folder.write("plain-log", &json!({"text": PLAIN.repeat(5)}).to_string());
    let run = folder.run_with(&["detect", "--key", "my.key"], "plain-log");
    assert!(run.status == 1 && run.out.contains("hint      the text looks like JSON lines: --format jsonl"), "{run:?}");
}

/// Line numbers in names count all lines of the file, including empty ones.
#[test]
fn a_bad_line_is_named_and_the_others_are_judged() {
    let folder = Folder::with_key();
    let good = json!({"text": PLAIN.repeat(5)}).to_string();
    let mut bytes = format!("{good}\n\n{{\"text\": \"cut\n").into_bytes();
    bytes.extend_from_slice(b"{\"text\": \"\xff\"}\n");
    bytes.extend_from_slice(format!("7\n{good}").as_bytes());
    fs::write(folder.path("a.jsonl"), bytes).unwrap();
    let run = detect(&folder, &["a.jsonl", "--json"]);
    assert_eq!(run.status, 1);
    assert_eq!(verdicts(&run), ["not marked", "error", "error", "error", "not marked"], "{run:?}");
    let found = run.lines();
    let said = |i: usize| (found[i]["name"].as_str().unwrap(), found[i]["error"].as_str().unwrap());
    assert_eq!(said(1), ("a.jsonl:3", "the line is not JSON: EOF while parsing a string at column 13"));
    assert!(said(2).0 == "a.jsonl:4" && said(2).1.contains("the line is not JSON"), "{run:?}");
    assert!(said(3).0 == "a.jsonl:5" && said(3).1.contains("expected an object"), "{run:?}");
    assert!(!run.out.contains("at line"), "{run:?}");
}

fn parquet(folder: &Folder, name: &str, texts: &[&str], properties: parquet::file::properties::WriterProperties) {
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    let schema = "message m { required binary text (UTF8); required int64 id; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let file = fs::File::create(folder.path(name)).unwrap();
    let mut writer = parquet::file::writer::SerializedFileWriter::new(file, schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts: Vec<ByteArray> = texts.iter().map(|&text| ByteArray::from(text)).collect();
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let ids: Vec<i64> = (10..).take(texts.len()).collect();
    column.typed::<Int64Type>().write_batch(&ids, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_through_a_pipe() {
    let folder = Folder::with_key();
    let (text, plain) = (marked(&folder), PLAIN.repeat(5));
    parquet(&folder, "odd", &[&text, &plain], Default::default());
    detect(&folder, &["odd"]).fails("it is a Parquet file: `verdigris detect --format parquet`");
    let mut command = folder.command(&["detect", "--key", "my.key", "--format", "parquet", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&fs::read(folder.path("odd")).unwrap()).unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let found: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&found[0]["verdict"], &found[1]["verdict"]), (&json!("marked"), &json!("not marked")));
    assert_eq!((&found[0]["id"], &found[1]["id"]), (&json!(10), &json!(11)));
}

/// Files skipped in a folder are counted, and a note names files whose markup or JSON is judged as part of the text.
#[test]
fn what_is_not_read_is_said() {
    let folder = Folder::with_key();
    let text = PLAIN.repeat(5);
    fs::create_dir_all(folder.path("texts/in")).unwrap();
    for file in ["a.txt", "b.html", "in/c.html", "d.rst", "e", ".hidden", "in/.git"] {
        folder.write(&format!("texts/{file}"), &text);
    }
    let note = "note: skipped 4 files (2 .html, 1 .rst, 1 without an extension): in folders only .txt, .md, .text, \
                .jsonl, .ndjson, .parquet files are read; name others to read them; 2 hidden entries\n";
    for rest in [&[][..], &["--json"]] {
        let run = detect(&folder, &[&["texts"], rest].concat());
        assert_eq!((run.status, &*run.err), (1, note), "{run:?}");
    }
    fs::remove_file(folder.path("texts/a.txt")).unwrap();
    detect(&folder, &["texts"])
        .fails("holds no .txt, .md, .text, .jsonl, .ndjson, .parquet file; skipped 4 files (2 .html");
    let object = json!({"text": marked(&folder), "id": 7}).to_string();
    folder.write("one.json", &object);
    let run = detect(&folder, &["one.json", "--json"]);
    assert!(run.err.contains("note: one.json is judged as one text, with its JSON syntax: --format json"), "{run:?}");
    let raw = run.lines().remove(0);
    for rest in [&["--format", "json"][..], &["--column", "text"]] {
        let run = detect(&folder, &[&["one.json", "--json"], rest].concat());
        let line = run.lines().remove(0);
        assert_eq!((&line["id"], &*run.err), (&json!(7), ""), "{run:?}");
        assert!(line["log10_p"].as_f64() < raw["log10_p"].as_f64(), "{line} {raw}");
    }
    for (file, said) in [("t.csv", "with its separators: `verdigris scan`"), ("t.html", "with its markup: `pandoc")] {
        folder.write(file, &text);
        assert!(detect(&folder, &[file]).err.contains(said));
        assert_eq!(detect(&folder, &[file, "--format", "text"]).err, "");
    }
}

/// A named pipe in a folder is an error and is not waited for.
#[cfg(unix)]
#[test]
fn a_pipe_in_a_folder_is_not_waited_for() {
    let folder = Folder::with_key();
    fs::create_dir(folder.path("texts")).unwrap();
    folder.write("texts/b.txt", &PLAIN.repeat(5));
    let pipe = |name: &str| std::process::Command::new("mkfifo").arg(folder.path(name)).status().unwrap().success();
    assert!(pipe("texts/a.txt") && pipe("texts/c.jsonl") && pipe("named"));
    let run = detect(&folder, &["texts", "--json"]);
    assert_eq!((verdicts(&run), run.status), (vec!["error".into(), "not marked".into(), "error".into()], 1), "{run:?}");
    assert!(run.lines()[0]["error"].as_str().unwrap().contains("a pipe or a device"), "{run:?}");
    // A pipe that is given by name is read.
    let mut command = folder.command(&["detect", "named", "--key", "my.key"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    fs::write(folder.path("named"), PLAIN.repeat(5)).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    detect(&folder, &["/dev/zero"]).fails("/dev/zero: byte 0 is zero");
}

/// README promises that a text of any length takes under 200 MiB.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_texts() {
    let folder = Folder::with_key();
    let mut text = String::new();
    let mut state = 1u32;
    while text.len() < 9_000_000 {
        // The order of the words does not repeat, so that every context is different.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let words = ["the", "captain", "river", "stood", "and", "of", "night", "old", "went", "house", "far", "sea"];
        text += &format!("{} {} ", words[(state >> 8) as usize % words.len()], state >> 16);
    }
    folder.write("long.txt", &text);
    let long = folder.peak(&["detect", "long.txt", "--key", "my.key", "--json"]);
    assert!(long < 200, "{long} MiB for one text");
    // A file of a few kilobytes whose rows are all the same long text.
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_dictionary_page_size_limit(64 << 20)
        .set_compression(parquet::basic::Compression::ZSTD(Default::default()))
        .build();
    let row = &"A row that is long. ".repeat(75_000)[..];
    parquet(&folder, "bomb.parquet", &vec![row; 400], properties);
    assert!(fs::metadata(folder.path("bomb.parquet")).unwrap().len() < 20_000);
    let bomb = folder.peak(&["detect", "bomb.parquet", "--key", "my.key", "--json"]);
    assert!(bomb < 200, "{bomb} MiB for rows of 1.5 MB");
}

#[test]
fn no_texts_are_an_error() {
    let folder = Folder::with_key();
    folder.write("none.jsonl", "");
    folder.run(&["detect", "none.jsonl", "--key", "my.key", "--json"]).fails("the input has no text");
}
