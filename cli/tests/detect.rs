//! The input and output of `detect`: texts in every format, reports, verdicts and exit statuses.

mod support;

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use support::{Folder, Run};

const PLAIN: &str = "Many words stand in this text, and none of them is marked at all. ";

fn marked(folder: &Folder) -> String {
    folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "120"]).out
}

fn detect(folder: &Folder, arguments: &[&str]) -> Run {
    folder.run(&[&["detect", "--key", "my.key"], arguments].concat())
}

fn lines(run: &Run) -> Vec<Value> {
    run.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{run:?}"))).collect()
}

fn verdicts(run: &Run) -> Vec<String> {
    lines(run).iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect()
}

/// A report replaces a file only with `--force`, and never one of the input texts.
#[test]
fn a_report_replaces_nothing_unasked() {
    let folder = Folder::with_key();
    let text = PLAIN.repeat(5);
    folder.write("text.txt", &text);
    fs::create_dir(folder.path("texts")).unwrap();
    folder.write("texts/a.txt", &text);
    for force in [&[][..], &["--force"]] {
        let onto = |rest: &[&str]| detect(&folder, &[rest, force].concat());
        onto(&["text.txt", "--html", "text.txt"]).fails("is a file that is read here");
        onto(&["texts", "--html", "texts/a.txt"]).fails("is a file that is read here");
    }
    assert_eq!(fs::read_to_string(folder.path("text.txt")).unwrap(), text);
    assert_eq!(fs::read_to_string(folder.path("texts/a.txt")).unwrap(), text);
    folder.write("report.html", "mine");
    detect(&folder, &["text.txt", "--html", "report.html"]).fails("report.html exists already; --force replaces it");
    assert_eq!(fs::read_to_string(folder.path("report.html")).unwrap(), "mine");
    assert_eq!(detect(&folder, &["text.txt", "--html", "report.html", "--force"]).status, 1);
    assert!(fs::read_to_string(folder.path("report.html")).unwrap().starts_with("<!doctype html>"));
    let parts = fs::read_dir(folder.path(".")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("part")
    });
    assert_eq!(parts.count(), 0, "no temporary file is left");
}

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

/// A C2PA manifest in a text, invisible or in a comment, is left out of detection.
#[test]
fn manifests_are_left_out() {
    let folder = Folder::with_key();
    let text = marked(&folder);
    let selector = |byte: u8| char::from_u32(u32::from(byte) + if byte < 16 { 0xFE00 } else { 0xE0100 - 16 }).unwrap();
    let framed = [b"C2PATXT\0\x01\0\0\x0f\xa0", &[7; 4000][..]].concat();
    let wrapper: String = std::iter::once('\u{FEFF}').chain(framed.iter().map(|&byte| selector(byte))).collect();
    let reference = format!("data:application/c2pa;base64,{}", "abcd".repeat(1000));
    let comment = format!("<!-- -----BEGIN C2PA MANIFEST----- {reference} -----END C2PA MANIFEST----- -->\n");
    folder.write("text.txt", &text);
    folder.write("wrapped.txt", &format!("{text}{wrapper}"));
    folder.write("structured.md", &format!("{comment}{text}"));
    let plain = detect(&folder, &["text.txt", "--json"]);
    let said = |run: Run| {
        let mut line = lines(&run).remove(0);
        let manifests = line.as_object_mut().unwrap().remove("manifests").unwrap_or_default();
        line.as_object_mut().unwrap().remove("name");
        (line, manifests)
    };
    let (of_plain, none) = said(plain);
    assert_eq!((of_plain["verdict"].as_str(), none), (Some("marked"), Value::Null));
    let (length, wrapped) = (text.len(), text.len() + wrapper.len());
    assert_eq!(said(detect(&folder, &["wrapped.txt", "--json"])), (of_plain.clone(), json!([[length, wrapped]])));
    assert_eq!(said(detect(&folder, &["structured.md", "--json"])), (of_plain, json!([[0, comment.len()]])));
    let told = detect(&folder, &["wrapped.txt"]).out;
    assert!(told.contains(&format!("left out  {} bytes of a C2PA manifest", wrapper.len())), "{told}");
}

/// Input that is not text is refused with its file type and advice: alone, among other files, and by other commands.
#[test]
fn what_is_no_text_is_refused_by_name() {
    let folder = Folder::with_key();
    folder.write("good.txt", &PLAIN.repeat(5));
    let unmarked: Vec<u8> = PLAIN.repeat(5).encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, said) in [
        (&b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"[..], "it is a PDF document: take its text out first"),
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
        let found = lines(&run);
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
    let ids: Vec<Value> = lines(&run).iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, [json!("one"), json!(2), Value::Null]);
    assert_eq!(lines(&run)[1]["name"], "standard input:2");
    let run = detect(&folder, &["log", "--format", "jsonl", "--json", "--id-field", "text"]);
    assert_eq!(lines(&run)[0]["name"], "log:1");

    let array = json!([{"text": text, "key": {"a": 1}}, PLAIN.repeat(5)]).to_string();
    folder.write("all.json", &format!(" \n{array}\n"));
    let run = detect(&folder, &["all.json", "--json", "--id-field", "key"]);
    assert_eq!((verdicts(&run), run.status), (expected[..2].iter().map(|v| v.to_string()).collect(), 0), "{run:?}");
    assert_eq!(lines(&run)[0]["id"], json!({"a": 1}));
    for text in [json!({"answer": text}), json!([{"answer": text}]), json!([text])] {
        folder.write("one.json", &text.to_string());
        let run = detect(&folder, &["one.json", "--json"]);
        assert_eq!(verdicts(&run), ["marked"], "JSON may be a text itself: {run:?}");
    }
    let run = detect(&folder, &["one.json", "--json", "--format", "json"]);
    assert_eq!(lines(&run)[0]["name"], "one.json:1");

    // `-` in a list of files is standard input, allowed once.
    folder.write("plain.txt", &PLAIN.repeat(5));
    folder.write("text.txt", &text);
    let run = folder.run_with(&["detect", "-", "plain.txt", "--key", "my.key", "--json"], "text.txt");
    assert_eq!((verdicts(&run), run.status), (expected[..2].iter().map(|v| v.to_string()).collect(), 0), "{run:?}");
    assert_eq!(lines(&run)[0]["name"], "standard input");
    detect(&folder, &["-", "-"]).fails("standard input can be read once");

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
    let found = lines(&run);
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

/// The status is 0 if any text is marked, else 1 if any is not marked, else 2; every text gets a JSON line.
#[test]
fn no_verdict_is_two() {
    let folder = Folder::with_key();
    folder.write("marked.txt", &marked(&folder));
    folder.write("plain.txt", &PLAIN.repeat(5));
    folder.write("short.txt", "Too short.");
    folder.write("empty.txt", "");
    folder.write("empty.jsonl", "\n\n");
    folder.write("bad.jsonl", "no JSON\n");
    for (texts, status, expected) in [
        (&["marked.txt"][..], 0, &["marked"][..]),
        (&["plain.txt"], 1, &["not marked"]),
        (&["short.txt"], 2, &["too short"]),
        (&["empty.txt"], 2, &["too short"]),
        (&["none.txt"], 2, &["error"]),
        (&["."], 0, &["error", "too short", "marked", "not marked", "too short"]),
        (&["short.txt", "empty.txt"], 2, &["too short", "too short"]),
        (&["short.txt", "none.txt"], 2, &["too short", "error"]),
        (&["short.txt", "plain.txt", "none.txt"], 1, &["too short", "not marked", "error"]),
        (&["none.txt", "plain.txt", "marked.txt"], 0, &["error", "not marked", "marked"]),
        (&["empty.jsonl"], 2, &[]),
        (&["bad.jsonl"], 2, &["error"]),
    ] {
        let run = detect(&folder, &[texts, &["--json"]].concat());
        assert_eq!((run.status, verdicts(&run)), (status, expected.iter().map(|v| v.to_string()).collect()), "{run:?}");
        let is_folder = texts == ["."];
        assert_eq!(run.err.starts_with("note: skipped 1 file (1 .key): "), is_folder, "{run:?}");
        assert_eq!(run.err.lines().count(), usize::from(is_folder), "{run:?}");
        for line in lines(&run) {
            assert_eq!(line["format"], "verdigris-detect-1");
            let judged = ["marked", "not marked"].contains(&line["verdict"].as_str().unwrap());
            assert!(line["name"].is_string() && line["error"].is_string() != judged, "{line}");
        }
        assert_eq!(detect(&folder, texts).status, status, "{texts:?}");
    }
}

/// Every field of a JSON line is described in `docs/json.md`.
#[test]
fn every_field_is_documented() {
    let folder = Folder::with_key();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap();
    let documented = |heading: &str, line: &Value| {
        let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
        for field in line.as_object().unwrap().keys() {
            assert!(section.contains(&format!("`{field}`")), "{field} of {heading} is not in docs/json.md");
        }
    };
    let mut text = marked(&folder);
    folder.write("text.txt", &text);
    text.insert(40, '\u{200b}');
    folder.write("a.jsonl", &json!({"text": text, "id": 1}).to_string());
    folder.write("plain.txt", &PLAIN.to_uppercase().repeat(5));
    for arguments in [&["text.txt", "--windows"][..], &["a.jsonl"], &["plain.txt"], &["none.txt"]] {
        for line in lines(&detect(&folder, &[arguments, &["--json"]].concat())) {
            documented("detect", &line);
        }
    }
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "16"]);
    folder.write("short.txt", "Too short.");
    for text in ["text.txt", "plain.txt", "short.txt", "none.txt"] {
        for (command, arguments) in [
            ("identify", &["identify", text, "--key", "my.key", "--gammas", "0.5"][..]),
            ("payload", &["payload", text, "--key", "numbered.key"]),
            ("attack", &["attack", "deletion", text]),
        ] {
            let run = folder.run(&[arguments, &["--json"]].concat());
            let [line] = &lines(&run)[..] else { panic!("{run:?} should be one line") };
            documented(command, line);
            assert_eq!(line["format"], format!("verdigris-{command}-1"));
            assert_eq!(line["verdict"] == "error", text == "none.txt", "{line}");
            assert_eq!(run.status == 2, line["error"].is_string(), "{run:?}");
        }
    }
    let shown = lines(&folder.run(&["key", "show", "my.key", "--json"])).remove(0);
    documented("key show", &shown);
    assert_eq!(shown["format"], "verdigris-key-show-1");
    let found = &lines(&folder.run(&["identify", "text.txt", "--key", "my.key", "--json"]))[0]["found"];
    let of = (&found["key_id"], &found["gamma"], &found["vocabulary_size"]);
    assert_eq!(of, (&"vg-c0ffee00".into(), &0.25.into(), &4096.into()));
}

/// Colours are used on terminals that support them, and with `--color=always` or `CLICOLOR_FORCE`; otherwise brackets.
/// Control characters in the text are escaped.
#[test]
fn colour_is_for_eyes() {
    let folder = Folder::with_key();
    let text = "Many words stand in this text -- \u{ab}\u{e9}t\u{e9}\u{bb} -- and none is marked at all.\r\n".repeat(3);
    folder.write("text.txt", &format!("{text}\x1b]0;title\x07 \x1b[2J \u{202e}end"));
    let show = |option: &str, variables: &[(&str, &str)]| {
        let mut command = folder.command(&["detect", "text.txt", "--key", "my.key", option]);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let escaped = "\\x1b]0;title\\x07 \\x1b[2J \\u{202e}end";
    let bare = |shown: &str| {
        let mut bare = String::new();
        let mut rest = shown;
        while let Some(at) = rest.find('\x1b') {
            bare.push_str(&rest[..at]);
            rest = &rest[at..];
            let end = rest.find('m').expect("a style ends");
            assert!(rest[1..end].chars().all(|c| "[;0123456789".contains(c)), "{:?}", &rest[..end]);
            rest = &rest[end + 1..];
        }
        bare + rest
    };
    let plain = text.replace('\r', "") + escaped;
    for (option, variables) in
        [("--color=always", &[][..]), ("--color=always", &[("TERM", "dumb")]), ("--color", &[("CLICOLOR_FORCE", "1")])]
    {
        let shown = show(option, variables);
        assert!(shown.contains("\x1b[38;5;33m") && shown.contains("\x1b[38;5;166m"), "{option} {variables:?}: {shown}");
        assert!(bare(&shown).starts_with(&plain), "{shown:?}");
    }
    for (option, variables) in [
        ("--color", &[][..]),
        ("--color", &[("TERM", "dumb")]),
        ("--color", &[("NO_COLOR", "1")]),
        ("--color=auto", &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "0")]),
        ("--color=never", &[("CLICOLOR_FORCE", "1")]),
    ] {
        let shown = show(option, variables);
        assert!(!shown.contains('\x1b') && shown.contains("[in brackets] tokens that the key favours"), "{shown:?}");
        let start = shown.replace(['[', ']'], "");
        assert!(start.starts_with(&plain.replace(['[', ']'], "")), "{shown:?}");
        assert!(shown.matches('[').count() > 5, "{shown:?}");
    }
    assert!(!detect(&folder, &["text.txt"]).out.contains('\x1b'));
    detect(&folder, &["text.txt", "text.txt", "--color"]).fails("--color takes one text");
}

/// Control characters in file names are escaped.
#[cfg(unix)]
#[test]
fn names_are_shown_safely() {
    let folder = Folder::with_key();
    folder.write("a\x1b[31m\nb.txt", &PLAIN.repeat(5));
    folder.write("c\x07.txt", "\0");
    let run = detect(&folder, &["."]);
    assert!(run.out.contains("a\\x1b[31m\\nb.txt") && run.out.contains("c\\x07.txt: byte 0 is zero"), "{run:?}");
    assert!(!run.out.contains(['\x1b', '\x07']), "{run:?}");
    detect(&folder, &["c\x07.txt"]).fails("c\\x07.txt: byte 0 is zero");
    detect(&folder, &["no\x1b.txt"]).fails("cannot open no\\x1b.txt");
}

#[test]
fn hints_say_what_else_to_try() {
    let folder = Folder::with_key();
    let write = |seed: &str, tokens: &str, key: &[&str]| {
        folder.run(&[&["generate", "--seed", seed, "--max-tokens", tokens], key].concat()).out
    };
    let (before, after) = (write("11", "600", &[]), write("12", "600", &[]));
    folder.write("long.txt", &format!("{before}{}{after}", write("3", "120", &["--key", "my.key"])));
    let run = detect(&folder, &["long.txt"]);
    assert!(run.status == 1 && run.out.contains("hint      only the text as a whole was judged: --windows"), "{run:?}");
    let run = detect(&folder, &["long.txt", "long.txt"]);
    assert!(run.out.contains("hint: only the text as a whole was judged"), "{run:?}");
    // The readable output and the JSON give the same verdict.
    let run = detect(&folder, &["long.txt", "--windows"]);
    assert!(run.status == 0 && run.out.contains("verdict   marked in part") && !run.out.contains("hint"), "{run:?}");
    assert_eq!(verdicts(&detect(&folder, &["long.txt", "--windows", "--json"])), ["marked in part"]);
    folder.write("loud.txt", &PLAIN.repeat(5).to_uppercase());
    let run = detect(&folder, &["loud.txt"]);
    assert!(run.status == 1 && run.out.contains("hint      the text is in capitals"), "{run:?}");
    assert!(lines(&detect(&folder, &["loud.txt", "--json"]))[0]["hint"].as_str().unwrap().contains("in capitals"));
    folder.write("short.txt", &PLAIN.repeat(5));
    assert!(!detect(&folder, &["short.txt"]).out.contains("hint"));
}

/// Every command that looks for a mark finds it after changes to white space or letter case.
#[test]
fn white_space_and_letter_case_are_repaired() {
    let folder = Folder::with_key();
    assert_eq!(folder.run(&["key", "new", "number.key", "--payload-bits", "8"]).status, 0);
    let write = |key: &str, rest: &[&str]| {
        let arguments = ["generate", "--seed", "3", "--max-tokens", "400", "--min-tokens", "400", "--key", key];
        folder.run(&[&arguments, rest].concat()).out
    };
    let (text, numbered) = (write("my.key", &[]), write("number.key", &["--payload", "42"]));
    let title = |text: &str| -> String {
        let words = text.split_inclusive(' ').map(|word| {
            let first =
                word.find(|c: char| c.is_ascii_lowercase()).filter(|&at| !word[..at].contains(char::is_alphanumeric));
            first.map_or(word.to_owned(), |at| word[..at].to_owned() + &word[at..=at].to_uppercase() + &word[at + 1..])
        });
        words.collect()
    };
    for (name, without, change) in [
        // A text this long is detected with doubled spaces even without repair.
        ("white-space", 0, (|text: &str| text.replace(' ', "  ")) as fn(&str) -> String),
        ("white-space", 1, |text: &str| text.replace(' ', "\t")),
        ("letter-case", 1, |text: &str| text.to_uppercase()),
        ("letter-case", 1, title),
    ] {
        folder.write("changed.txt", &change(&text));
        folder.write("numbered.txt", &change(&numbered));
        for rest in [&[][..], &["--windows"], &["--weigh", "likelihood-ratio"]] {
            let run = detect(&folder, &[&["changed.txt", "--json"], rest].concat());
            let line = &lines(&run)[0];
            assert!(run.status == 0 && line["repairs"].as_array().unwrap().iter().any(|one| one[0] == name), "{run:?}");
        }
        assert_eq!(detect(&folder, &["changed.txt", "--no-repair"]).status, without);
        let shown = detect(&folder, &["changed.txt"]).out;
        let said = if name == "letter-case" { "words in sentence case" } else { "runs of white space" };
        assert!(shown.contains(said) && !shown.contains("hint"), "{shown}");
        let found = folder.run(&["identify", "changed.txt", "--key", "my.key", "--json"]);
        assert!(found.status == 0 && found.out.contains(name), "{found:?}");
        let found = folder.run(&["payload", "numbered.txt", "--key", "number.key", "--json"]);
        let read: Value = serde_json::from_str(&found.out).unwrap();
        assert!(found.status == 0 && read["payload"] == 42 && found.out.contains(name), "{found:?}");
    }
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
    let note = "note: skipped 4 files (2 .html, 1 .rst, 1 without an ending): in folders .txt, .md, .text, .jsonl, \
                .ndjson, .parquet are read, other files where they are named; 2 hidden entries\n";
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
    assert!(run.err.contains("note: one.json is judged as one text, with all of its JSON: --format json"), "{run:?}");
    let raw = lines(&run).remove(0);
    for rest in [&["--format", "json"][..], &["--column", "text"]] {
        let run = detect(&folder, &[&["one.json", "--json"], rest].concat());
        let line = lines(&run).remove(0);
        assert_eq!((&line["id"], &*run.err), (&json!(7), ""), "{run:?}");
        assert!(line["log10_p"].as_f64() < raw["log10_p"].as_f64(), "{line} {raw}");
    }
    for (file, said) in [("t.csv", "with its separators: `verdigris scan`"), ("t.html", "with its markup: `pandoc")] {
        folder.write(file, &text);
        assert!(detect(&folder, &[file]).err.contains(said));
        assert_eq!(detect(&folder, &[file, "--format", "text"]).err, "");
    }
}

/// A report has the digest of its text, its date, and numbers on its axes.
#[test]
fn a_report_says_what_it_is_of() {
    let folder = Folder::with_key();
    folder.write("text.txt", &format!("{} \x1b[31m", marked(&folder)));
    folder.write("plain.txt", &PLAIN.repeat(5));
    assert_eq!(detect(&folder, &["text.txt", "--html", "report.html"]).status, 0);
    let html = fs::read_to_string(folder.path("report.html")).unwrap();
    use sha2::Digest;
    let digest = sha2::Sha256::digest(fs::read(folder.path("text.txt")).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for said in [digest.as_str(), " UTC. A text is called", "text-anchor=\"middle\">100</text>", ">Marked.</span>"] {
        assert!(html.contains(said), "{said}");
    }
    assert!(!html.contains('\x1b'));
    detect(&folder, &["plain.txt", "--html", "plain.html"]);
    let html = fs::read_to_string(folder.path("plain.html")).unwrap();
    assert!(html.contains("<span class=\"verdict \">Not marked.</span>"), "not in the colour of what is marked");
}

/// On a narrow terminal lines break between words.
#[test]
fn tables_are_as_wide_as_the_terminal() {
    let folder = Folder::with_key();
    fs::create_dir(folder.path("texts")).unwrap();
    folder.write("texts/plain.txt", &PLAIN.repeat(5));
    folder.write("texts/bad.jsonl", "{\"answer\": \"a text that is in another field\"}\n");
    for columns in ["40", "60", "80", "200"] {
        let mut command = folder.command(&["detect", "texts", "--key", "my.key"]);
        let out = String::from_utf8(command.env("COLUMNS", columns).output().unwrap().stdout).unwrap();
        let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{columns}: {out}");
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        let fault = "texts/bad.jsonl:1: there is no field \"text\": name it with --column";
        assert!(words.contains(fault) && words.contains("2 texts: 0 marked, 1 not"), "{columns}: {out}");
    }
}

/// A log written to a file has no colours, says what was done, and contains no secrets.
#[test]
fn a_log_is_plain_and_of_use() {
    let folder = Folder::with_key();
    folder.write("text.txt", &PLAIN.repeat(5));
    folder.write("a.jsonl", &json!({"text": PLAIN.repeat(5)}).to_string());
    let mut command = folder.command(&["detect", "text.txt", "a.jsonl", "--key", "my.key"]);
    let output = command.env("RUST_LOG", "debug").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!log.contains('\x1b'), "{log}");
    for said in ["vg-c0ffee00", "a.jsonl", "texts=2"] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert!(!log.contains("f1e2d3c4"));
}

#[test]
fn help_has_a_help() {
    let folder = Folder::new();
    for arguments in [&["help", "--help"][..], &["help", "-h"], &["key", "help", "--help"]] {
        let run = folder.run(arguments);
        assert!(run.status == 0 && run.out.contains("Usage:"), "{arguments:?}: {run:?}");
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
    assert!(lines(&run)[0]["error"].as_str().unwrap().contains("a pipe or a device"), "{run:?}");
    // A pipe that is given by name is read.
    let mut command = folder.command(&["detect", "named", "--key", "my.key"]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    fs::write(folder.path("named"), PLAIN.repeat(5)).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    detect(&folder, &["/dev/zero"]).fails("/dev/zero: byte 0 is zero");
}

/// The peak memory of a run, in MiB, until it prints a line, ends or exceeds 1000 MiB. The run is then killed.
#[cfg(target_os = "linux")]
fn peak(folder: &Folder, arguments: &[&str]) -> u64 {
    use std::sync::mpsc::{TryRecvError, channel};
    let mut child = folder.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let (out, status) = (child.stdout.take().unwrap(), format!("/proc/{}/status", child.id()));
    let (send, printed) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line);
        let _ = send.send(line);
    });
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        if let Some(kib) = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()) {
            peak = peak.max(kib / 1024);
        }
        match printed.try_recv() {
            Err(TryRecvError::Empty) if peak < 1000 => std::thread::sleep(std::time::Duration::from_millis(5)),
            Ok(line) => {
                assert!(line.starts_with('{'), "{line}");
                break;
            }
            _ => break,
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    peak
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
    let long = peak(&folder, &["detect", "long.txt", "--key", "my.key", "--json"]);
    assert!(long < 200, "{long} MiB for one text");
    // A file of a few kilobytes whose rows are all the same long text.
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_dictionary_page_size_limit(64 << 20)
        .set_compression(parquet::basic::Compression::ZSTD(Default::default()))
        .build();
    let row = &"A row that is long. ".repeat(75_000)[..];
    parquet(&folder, "bomb.parquet", &vec![row; 400], properties);
    assert!(fs::metadata(folder.path("bomb.parquet")).unwrap().len() < 20_000);
    let bomb = peak(&folder, &["detect", "bomb.parquet", "--key", "my.key", "--json"]);
    assert!(bomb < 200, "{bomb} MiB for rows of 1.5 MB");
}

/// Output that cannot be written is an error, not a crash, in every command.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::with_key();
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "16"]);
    folder.write("text.txt", &PLAIN.repeat(5));
    folder.write("bare.txt", PLAIN.trim());
    folder.write("corpus.txt", &PLAIN.repeat(200));
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let small = support::TALE_SMALL;
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["help", "detect"],
        &["generate", "--max-tokens", "3"],
        &["generate", "--max-tokens", "3", "--json"],
        &["generate", "--max-tokens", "3", "--texts", "2", "--json"],
        &["detect", "text.txt", "--key", "my.key"],
        &["detect", "text.txt", "--key", "my.key", "--json"],
        &["detect", "text.txt", "--key", "my.key", "--color"],
        &["detect", "text.txt", "text.txt", "--key", "my.key"],
        &["detect", "text.txt", "text.txt", "--key", "my.key", "--json"],
        &["identify", "text.txt", "--key", "my.key"],
        &["identify", "text.txt", "--key", "my.key", "--json"],
        &["payload", "text.txt", "--key", "numbered.key"],
        &["payload", "text.txt", "--key", "numbered.key", "--json"],
        &["attack", "deletion", "text.txt"],
        &["attack", "homoglyphs", "bare.txt", "--strength", "0"],
        &["key", "new", "new.key"],
        &["key", "show", "my.key"],
        &["key", "show", "my.key", "--json"],
        &["key", "list", "."],
        &["train", "lm", "--init", small, "--corpus", "corpus.txt", "--out", "out", "--steps", "1", "--window", "32"],
        &["demo", "--tokens", "40"],
        &["bench", "loss", "--model", small, "--text", "corpus.txt", "--window", "32", "--windows", "1"],
        &["bench", "detection", "--samples", "1", "--tokens", "40"],
        &["bench", "strength", "--samples", "2", "--tokens", "20", "--json"],
        &["bench", "robustness", "--samples", "1", "--tokens", "40", "--attack", "deletion"],
    ] {
        let mut command = folder.command(arguments);
        let output = command.stdout(full()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("cannot write the output"), "{arguments:?}: {said}");
    }
    // A full standard error does not change the status.
    for arguments in [&["detect", "none.txt", "--key", "my.key"][..], &["detect", "--no-such-option"], &["key"]] {
        let status = folder.command(arguments).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{arguments:?}");
        let mut command = folder.command(&["detect", "text.txt", "--key", "my.key"]);
        assert_eq!(command.stderr(full()).env("RUST_LOG", "trace").status().unwrap().code(), Some(1));
    }
}

const CREW: &str = r#"{"type": "array", "minItems": 3, "items": {"type": "object",
    "required": ["name", "rank", "ship_of_service", "years_at_sea"], "properties": {
    "name": {"type": "string", "minLength": 3, "maxLength": 24}, "rank": {"enum": ["captain", "mate", "cook"]},
    "ship_of_service": {"type": "string", "minLength": 3, "maxLength": 24}, "years_at_sea": {"type": "integer"}}}}"#;

/// If the constraint of a text is given, only its free tokens are scored, which finds the mark more surely.
#[test]
fn a_form_leaves_only_choices_to_be_scored() {
    let folder = Folder::with_key();
    folder.write("crew.schema.json", CREW);
    let form = ["--json-schema", "crew.schema.json", "--closed", "--whitespace", "spaced"];
    let write = ["generate", "--key", "my.key", "--seed", "4", "--max-tokens", "200", "--temperature", "1"];
    let text = folder.run(&[&write[..], &form].concat()).out;
    folder.write("crew.json", &text);
    let found = |rest: &[&str]| {
        let run = detect(&folder, &[&["crew.json", "--json"], rest].concat());
        lines(&run).remove(0)
    };
    let (plain, knowing) = (found(&[]), found(&form));
    assert!(plain.get("forced").is_none() && plain.get("counted").is_none(), "{plain}");
    let log10_p = |line: &Value| line["log10_p"].as_f64().unwrap();
    assert!(log10_p(&knowing) < log10_p(&plain) - 1.0, "{knowing} {plain}");
    assert!(knowing["forced"].as_u64().unwrap() > 30, "{knowing}");
    // The names of properties are forced, their values are not.
    let counted: Vec<[usize; 2]> = serde_json::from_value(knowing["counted"].clone()).unwrap();
    assert_eq!(counted.len() as u64, knowing["scored"].as_u64().unwrap());
    let is_counted = |at: usize| counted.iter().any(|&[start, end]| (start..end).contains(&at));
    for (at, name) in text.match_indices("ship_of_service") {
        assert!((at + 1..at + name.len()).all(|at| !is_counted(at)), "{at} {counted:?} {text}");
    }
    assert!(text.match_indices("\"name\": \"").any(|(at, name)| is_counted(at + name.len() + 3)), "{counted:?} {text}");
    let schema = found(&[&["--json-schema", CREW], &form[2..]].concat());
    assert_eq!(schema, knowing, "the schema itself may be given");
    // The same with `--weigh`.
    let weighed = found(&[&["--weigh", "likelihood-ratio"], &form[..]].concat());
    assert!(log10_p(&weighed) < log10_p(&plain) - 1.0 && weighed["scored"] != plain["scored"], "{weighed} {plain}");
    let page = detect(&folder, &[&["crew.json"], &form[..]].concat());
    assert_eq!(page.status, 0, "{page:?}");

    // A truncated text, and one line of several.
    folder.write("cut.json", &text[..text.len() / 2]);
    assert_eq!(lines(&detect(&folder, &[&["cut.json", "--json"], &form[..]].concat())).len(), 1);
    folder.write("many.jsonl", &format!("{}\n{}\n", json!({"text": text}), json!({"text": "Once there was a sea."})));
    let run = detect(&folder, &[&["many.jsonl", "--json"], &form[..]].concat());
    assert_eq!(verdicts(&run)[1], "error", "{run:?}");
    assert_eq!(log10_p(&lines(&run)[0]), log10_p(&knowing));
    let error = lines(&run)[1]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("the text breaks the constraint at byte 0: "), "{error}");
    // With a constraint, a JSON array is one text, not a list of texts.
    folder.write("names.json", "[\"The Old Ship\", \"The Red Sea\", \"The Whale\"]\n");
    let names = r#"{"type": "array", "items": {"type": "string"}}"#;
    let run = detect(&folder, &["names.json", "--json", "--json-schema", names]);
    assert_eq!((lines(&run).len(), lines(&run)[0]["name"].clone()), (1, json!("names.json")), "{run:?}");

    folder.write("line.txt", "The captain of the ship said yes\n");
    let regex = |pattern: &str| detect(&folder, &["line.txt", "--json", "--regex", pattern]);
    let line = lines(&regex("The (captain|mate) of the ship said (yes|no)")).remove(0);
    assert_eq!(line["verdict"], "too short", "{line}");
    assert!(line["error"].as_str().unwrap().contains("1 tokens can be scored"), "{line}");
    assert_eq!(verdicts(&regex("The mate.*")), ["error"]);
    detect(&folder, &["line.txt", "--regex", "The mate.*"]).fails("line.txt: the text breaks the constraint at byte");
    detect(&folder, &["line.txt", "--regex", "a{2"]).fails("the regular expression is wrong");
    let alone = detect(&folder, &["line.txt", "--closed"]);
    assert!(alone.status == 2 && alone.err.contains("--json-schema"), "{alone:?}");
}

/// A constraint too large to follow is an error for the text that needs it, and does not affect other texts.
#[test]
fn a_verdict_does_not_depend_on_the_texts_before_it() {
    let folder = Folder::with_key();
    let code = |i: u32| json!({"type": "string", "pattern": "^([a-z][a-z])*$", "maxLength": 1000 + i});
    let codes: Vec<Value> = (0..3000).map(code).collect();
    let schema = json!({"properties": {"name": {"type": "string"}, "code": {"anyOf": codes},
        "ship": {"enum": ["sloop", "brig"]}, "year": {"type": "integer"}}});
    folder.write("crew.schema.json", &schema.to_string());
    let (coded, short) = (
        r#"{"name":"x","code":"abcd"}"#,
        r#"{"name":"The captain of the old ship and the sea","ship":"brig","year":1851}"#,
    );
    let judged = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| json!({"text": text}).to_string()).collect();
        folder.write("texts.jsonl", &texts.join("\n"));
        lines(&detect(&folder, &["texts.jsonl", "--json", "--json-schema", "crew.schema.json"]))
    };
    let fields = |line: &Value| ["verdict", "scored", "forced", "log10_p", "counted"].map(|field| line[field].clone());
    let alone = judged(&[short]).remove(0);
    assert!(alone["forced"].as_u64().unwrap() > 0, "{alone}");
    for texts in [[coded, short], [short, coded]] {
        for (text, line) in texts.iter().zip(judged(&texts)) {
            if *text == short {
                assert_eq!(fields(&line), fields(&alone));
                continue;
            }
            let error = line["error"].as_str().unwrap_or_else(|| panic!("{line}"));
            assert!(line["verdict"] == "error" && error.contains("cannot be followed from byte"), "{line}");
            assert!(error.contains("at #/properties/code") && error.contains("without the constraint"), "{line}");
        }
    }
}

/// `--weigh` also judges a text after repair, and options that it does not support are refused.
#[test]
fn a_text_is_weighed_after_repair_too() {
    let folder = Folder::with_key();
    let write = ["generate", "--seed", "3", "--max-tokens", "200", "--key", "my.key"];
    folder.write("text.txt", &folder.run(&write).out);
    folder.write("zw.txt", &folder.run(&["attack", "zero-width", "text.txt", "--strength", "0.4"]).out);
    for method in ["likelihood-ratio", "ewd", "sweet"] {
        let weighed = |text: &str, rest: &[&str]| {
            let run = detect(&folder, &[&[text, "--weigh", method, "--json"], rest].concat());
            lines(&run).remove(0)
        };
        let (plain, repaired) = (weighed("text.txt", &[]), weighed("zw.txt", &[]));
        assert_eq!((&plain["verdict"], &repaired["verdict"]), (&json!("marked"), &json!("marked")), "{repaired}");
        assert_eq!((&plain["looks"], &repaired["looks"]), (&json!(1.0), &json!(2.0)), "{plain} {repaired}");
        assert_eq!((plain.get("repairs"), &repaired["repairs"][0][0]), (None, &json!("invisible")), "{repaired}");
        for field in ["log10_p", "expected_log10_p"] {
            let [with, without] = [&repaired, &plain].map(|line| line[field].as_f64().unwrap());
            assert!((with - without - 2f64.log10()).abs() < 1e-9, "{field}: {plain} {repaired}");
        }
        assert_ne!(weighed("zw.txt", &["--no-repair"])["verdict"], "marked");
    }
    let run = detect(&folder, &["zw.txt", "--weigh", "ewd"]);
    assert!(run.out.contains("2 looks") && run.out.contains("repaired"), "{run:?}");
    let weigh = |method: &str, rest: &[&str]| detect(&folder, &[&["text.txt", "--weigh", method], rest].concat());
    for method in ["ewd", "likelihood-ratio"] {
        weigh(method, &["--entropy-threshold", "7"]).fails("--entropy-threshold is for --weigh sweet: leave it out");
    }
    for nats in ["nan", "inf", "-1"] {
        weigh("sweet", &["--entropy-threshold", nats]).fails("but must be a number, 0 or more");
    }
    assert_eq!(weigh("sweet", &["--entropy-threshold", "0.5"]).status, 0);
    let offsets = weigh("ewd", &["--offsets", "6"]);
    assert!(offsets.status == 2 && offsets.err.contains("--offsets"), "{offsets:?}");
    folder.write_private("n.key", &support::KEY.replace("\"gamma\"", "\"payload_bits\": 8, \"gamma\""));
    let run = folder.run(&["detect", "text.txt", "--key", "n.key", "--weigh", "ewd"]);
    run.fails("--weigh is for keys that carry no payload, and vg-c0ffee00 carries one: leave --weigh out");
    // Hints do not suggest options that `--weigh` refuses.
    folder.write("plain.txt", &folder.run(&["generate", "--seed", "8", "--max-tokens", "450"]).out);
    let of = |rest: &[&str]| detect(&folder, &[&["plain.txt"], rest].concat());
    assert!(of(&[]).out.contains("--windows"), "{:?}", of(&[]));
    let weighed = of(&["--weigh", "ewd"]);
    assert!(weighed.status == 1 && !weighed.out.contains("--windows"), "{weighed:?}");
}
