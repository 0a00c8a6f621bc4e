//! Verdicts of `detect`: exit statuses, fields, hints and repairs.

use std::fs;

use crate::support::detection::{PLAIN, detect, marked, verdicts};
use crate::support::{Folder, Run};
use serde_json::{Value, json};

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
        let mut line = run.lines().remove(0);
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
        let has_none = texts == ["empty.jsonl"];
        assert_eq!(run.err.lines().count(), usize::from(is_folder || has_none), "{run:?}");
        for line in run.lines() {
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
        for line in detect(&folder, &[arguments, &["--json"]].concat()).lines() {
            documented("detect", &line);
        }
    }
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "16"]);
    folder.write("short.txt", "Too short.");
    for text in ["text.txt", "plain.txt", "short.txt", "none.txt"] {
        for (command, arguments) in [
            ("identify", &["identify", text, "--key", "my.key", "--gammas", "0.5"][..]),
            ("payload", &["payload", text, "--key", "numbered.key"]),
            ("robustness", &["robustness", text, "--key", "my.key", "--edit", "deletion"]),
        ] {
            let run = folder.run(&[arguments, &["--json"]].concat());
            let [line] = &run.lines()[..] else { panic!("{run:?} should be one line") };
            documented(command, line);
            assert_eq!(line["format"], format!("verdigris-{command}-1"));
            assert_eq!(line["verdict"] == "error", text == "none.txt", "{line}");
            assert_eq!(run.status == 2, line["error"].is_string(), "{run:?}");
        }
    }
    let edited = folder.run(&["attack", "deletion", "text.txt", "--json"]).lines().remove(0);
    documented("robustness", &edited);
    assert_eq!(edited["format"], "verdigris-attack-1");
    let shown = folder.run(&["key", "show", "my.key", "--json"]).lines().remove(0);
    documented("key show", &shown);
    assert_eq!(shown["format"], "verdigris-key-show-1");
    let found = &folder.run(&["identify", "text.txt", "--key", "my.key", "--json"]).lines()[0]["found"];
    let of = (&found["key_id"], &found["gamma"], &found["vocabulary_size"]);
    assert_eq!(of, (&"vg-c0ffee00".into(), &0.25.into(), &4096.into()));
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
    let table = detect(&folder, &["long.txt", "long.txt", "--windows"]).out;
    assert!(table.lines().any(|line| line.contains("  in part") && line.contains("long.txt (1 passage)")), "{table}");
    folder.write("loud.txt", &PLAIN.repeat(5).to_uppercase());
    let run = detect(&folder, &["loud.txt"]);
    assert!(run.status == 1 && run.out.contains("hint      the text is in capitals"), "{run:?}");
    assert!(detect(&folder, &["loud.txt", "--json"]).lines()[0]["hint"].as_str().unwrap().contains("in capitals"));
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
            let line = &run.lines()[0];
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
