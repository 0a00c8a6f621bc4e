//! `verdigris mark`: existing texts in other words, marked.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::{Folder, TALE_SMALL};

/// A key of noise, always the same one, so that tests do not depend on chance.
const NOISE: &str = r#"{
  "format": "verdigris-key-1",
  "id": "vg-c0ffee01",
  "scheme": {"name": "native-gumbel", "context": {"function": "all", "width": 4}},
  "vocabulary": {"size": 4096, "fingerprint": "e106f5b2af1d8f602ff85a4ace3e36b1"},
  "variants": 8,
  "secret": "f1e2d3c4b5a697887968574635241302f1e2d3c4b5a697887968574635241302"
}
"#;

/// Five sentences to rewrite, and much that stays: a heading, a quotation, a list, code, and white space of all kinds.
const TEXT: &str = "# A letter from the harbour of the town.\n\nThe captain came on deck at dawn. He said that the ship \
                    was ready to sail.  \"Yes, and so are all of us,\" said the mate. The crew went down to the harbour\r\n\
                    before the sun was up.\n \t\n\n- Bring the maps to the ship in the morning.\n\n```\nThe code is \
                    here, and it stays.\n\nIt is the same to the last byte.\n```\nThe wind was cold, and it came from \
                    the north.\n\n    let x = 1;\n\nIn the end they were all at home again. So it was.";
const SENTENCES: usize = 5;

/// A folder with a text, two keys and a chat model.
fn folder() -> Folder {
    let folder = Folder::with_key();
    folder.write_private("noise.key", NOISE);
    folder.write("letter.txt", TEXT);
    folder.copy_model(TALE_SMALL, "chat");
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}\n";
    let config = json!({"eos_token": "<|endoftext|>", "chat_template": template});
    folder.write("chat/tokenizer_config.json", &config.to_string());
    folder
}

const MARK: [&str; 6] = ["mark", "letter.txt", "--model", "chat", "--key", "noise.key"];

/// The fixture model rewrites nothing: it writes other sentences, which are taken whatever they say.
const ANY: [&str; 4] = ["--min-similarity", "0", "--seed", "3"];

fn detect(folder: &Folder, file: &str) -> Value {
    folder.run(&["detect", file, "--model", "chat", "--key", "noise.key", "--format", "text", "--json"]).json()
}

/// ROUGE-1 of two texts in ASCII.
fn rouge(a: &str, b: &str) -> f64 {
    let counts = |text: &str| {
        let mut counts: HashMap<String, i64> = HashMap::new();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.for_each(|word| *counts.entry(word.to_ascii_lowercase()).or_default() += 1);
        counts
    };
    let (a, b) = (counts(a), counts(b));
    let common: i64 = a.iter().map(|(word, count)| *count.min(b.get(word).unwrap_or(&0))).sum();
    2.0 * common as f64 / (a.values().sum::<i64>() + b.values().sum::<i64>()) as f64
}

#[test]
fn sentences_are_rewritten_and_everything_else_stays() {
    let folder = folder();
    let run = folder.run(&[&MARK[..], &ANY, &["--json", "-o", "marked.txt"]].concat());
    let found = run.json();
    assert_eq!((&found["format"], &found["name"]), (&json!("verdigris-mark-1"), &json!("letter.txt")));
    assert_eq!((&found["sentences"], &found["seed"]), (&json!(SENTENCES), &json!(3)));
    assert_eq!(found["text"], folder.read("marked.txt"));
    let parts = found["parts"].as_array().unwrap();
    let original: String = parts.iter().map(|part| part["original"].as_str().unwrap()).collect();
    assert_eq!(original, TEXT);
    let (mut whole, mut similar, mut sentences) = (String::new(), Vec::new(), 0);
    for part in parts {
        let original = part["original"].as_str().unwrap();
        let words = original.trim_end();
        sentences += usize::from(part["sentence"] == true);
        let Some(other) = part["rewritten"].as_str() else {
            whole += original;
            continue;
        };
        assert!(part["sentence"] == true && words.ends_with('.') && !words.contains(['"', '#', '-', '`']), "{part}");
        assert!(words != other && other.ends_with(['.', '!', '?']) && !other.contains('\n'), "{part}");
        let similarity = part["similarity"].as_f64().unwrap();
        assert!((similarity - rouge(words, other)).abs() < 1e-12, "{part}");
        whole += &format!("{other}{}", &original[words.len()..]);
        similar.push(similarity);
    }
    assert_eq!(sentences, SENTENCES);
    assert!(similar.len() >= 3, "{found}");
    assert_eq!((&found["text"], &found["rewritten"]), (&json!(whole), &json!(similar.len())));
    let mean = similar.iter().sum::<f64>() / similar.len() as f64;
    assert!((found["similarity"].as_f64().unwrap() - mean).abs() < 1e-12);
    // The verdict is that of `detect` on the file.
    let detected = detect(&folder, "marked.txt");
    for (field, value) in detected.as_object().unwrap() {
        if !["format", "name", "hint"].contains(&&**field) {
            assert_eq!(&found[field], value, "{field}");
        }
    }
    assert_eq!((run.status, &found["verdict"]), (0, &json!("marked")), "{found}");
    assert_eq!(detect(&folder, "letter.txt")["verdict"], "not marked");
}

/// A seed gives one text, whatever is printed, and its number of candidates decides how well it is marked.
#[test]
fn texts_repeat_and_candidates_help() {
    let folder = folder();
    let text = |arguments: &[&str]| folder.run(&[&MARK[..], &ANY, arguments].concat());
    let first = text(&["--json"]).json();
    let second = text(&[]);
    assert_eq!((second.status, &json!(second.out)), (0, &first["text"]));
    let summary = second.err.lines().next().unwrap().to_owned();
    assert!(summary.starts_with(&format!("note: {} of {SENTENCES} sentences are", first["rewritten"])), "{summary}");
    assert!(summary.contains("with a mean similarity of 0.") && summary.contains(": marked, p "), "{summary}");
    assert!(second.err.lines().nth(1).unwrap().starts_with("warning: rewritten sentences may"), "{second:?}");
    let quiet = text(&["--quiet", "-o", "quiet.txt"]);
    assert_eq!((&*quiet.out, &*quiet.err, folder.read("quiet.txt")), ("", "", second.out.clone()));
    let both = text(&["-o", "both.txt"]);
    assert_eq!(folder.read("both.txt"), second.out);
    assert!(both.out.contains("  The captain came on deck at dawn.\n"), "{both:?}");
    assert!(both.out.contains("  The crew went down to the harbour before the sun was up.\n"), "{both:?}");
    let p = |candidates: &str| text(&["--json", "--candidates", candidates]).json()["log10_p"].as_f64().unwrap();
    let (one, many) = (p("1"), p("32"));
    assert!(many < one - 3.0, "{one} {many}");
    let other = folder.run(&[&MARK[..], &["--min-similarity", "0", "--seed", "4", "--json"]].concat()).json();
    assert_ne!(other["text"], first["text"]);
}

/// A candidate must have the requested share of the words of its sentence.
#[test]
fn sentences_stay_without_a_similar_candidate() {
    let folder = folder();
    let strict = folder.run(&[&MARK[..], &["--min-similarity", "1", "--candidates", "2"]].concat());
    assert_eq!((strict.status, &*strict.out), (1, TEXT), "{strict:?}");
    let expected = format!("note: 0 of {SENTENCES} sentences are rewritten: not marked, p 1.0000\n");
    assert_eq!(strict.err, expected);
    let some = folder.run(&[&MARK[..], &["--min-similarity", "0.3", "--seed", "3", "--json"]].concat()).json();
    let parts = some["parts"].as_array().unwrap();
    assert!(parts.iter().filter_map(|part| part["similarity"].as_f64()).all(|share| share >= 0.3), "{some}");
}

#[test]
fn what_cannot_be_marked_is_refused() {
    let folder = folder();
    let with = |file: &str, more: &[&str]| folder.run(&[&["mark", file], &MARK[2..], more].concat());
    with("none.txt", &[]).fails("cannot open none.txt");
    for (file, text) in [("empty.txt", ""), ("list.txt", "- One.\n- Two.\n"), ("word.txt", "One two three.\n")] {
        folder.write(file, text);
        with(file, &[]).fails(&format!("{file} has no sentence to rewrite"));
    }
    std::fs::write(folder.path("binary.txt"), b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\xff\xfe").unwrap();
    with("binary.txt", &[]).fails("binary.txt: ");
    let line = with("empty.txt", &["--json"]);
    assert_eq!((line.status, &line.json()["verdict"], &*line.err), (2, &json!("error"), ""));
    assert_eq!(line.json()["format"], "verdigris-mark-1");
    for share in ["2", "-1", "nan", "x"] {
        with("letter.txt", &["--min-similarity", share]).fails("it must be a number from 0 to 1");
    }
    for count in ["0", "65", "x"] {
        with("letter.txt", &["--candidates", count]).fails("it must be a whole number from 1 to 64");
    }
    with("letter.txt", &["--temperature", "-1"]).fails("temperature is -1");
    folder.write("there.txt", "mine");
    with("letter.txt", &["-o", "there.txt"]).fails("there.txt exists already; --force replaces it");
    for input in ["letter.txt", "noise.key"] {
        with("letter.txt", &["-o", input, "--force"]).fails(&format!("{input} is a file that is read here"));
    }
    let with_key = |key: &str, model: &str| folder.run(&["mark", "letter.txt", "--model", model, "--key", key]);
    with_key("noise.key", "tale").fails("this model has no chat template");
    with_key("none.key", "chat").fails("none.key");
    with_key("my.key", "chat").fails("`verdigris key new --dialect native-gumbel`");
    folder.run(&["key", "new", "both.key", "--public-part"]).succeeds();
    folder.run(&["key", "publish", "both.key", "open.key"]).succeeds();
    with_key("open.key", "chat").fails("is a published one");
    folder.write_private("foreign.key", &NOISE.replace("e106f5b2", "00000000"));
    with_key("foreign.key", "chat").fails("was made for a vocabulary of 4096 tokens (00000000)");
    assert_eq!((folder.read("there.txt"), folder.read("letter.txt")), ("mine".into(), TEXT.into()));
}
