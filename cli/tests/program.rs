//! The program as its users meet it.

mod support;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use support::{Folder, TALE_SMALL};

#[test]
fn what_is_marked_is_found_and_nothing_else() {
    let folder = Folder::with_key();
    folder.write_private("other.key", &support::KEY.replace("vg-c0ffee00", "vg-0ther000"));
    let write = |arguments: &[&str], file| {
        let run = folder.run(&[&["generate", "The captain", "--seed", "5", "--max-tokens", "200"], arguments].concat());
        assert_eq!((run.status, run.err.as_str()), (0, ""));
        folder.write(file, &run.out);
        run.out
    };
    let marked = write(&["--key", "my.key"], "marked.txt");
    let plain = write(&[], "plain.txt");
    assert_ne!(marked, plain);
    assert_eq!(write(&["--key", "my.key"], "again.txt"), marked, "a seed repeats a text");

    let run = folder.run(&["detect", "marked.txt", "--key", "my.key"]);
    assert_eq!(run.status, 0, "{run:?}");
    for word in ["tokens", "scored", "green", "z ", "p ", "verdict   marked (vg-"] {
        assert!(run.out.contains(word), "{run:?}");
    }
    assert_eq!(folder.run_with(&["detect", "--key", "my.key"], "marked.txt").out, run.out);
    let unmarked = [("plain.txt", "my.key"), ("marked.txt", "other.key")];
    for (file, key) in unmarked {
        let run = folder.run(&["detect", file, "--key", key]);
        assert_eq!(run.status, 1, "{run:?}");
        assert!(run.out.contains("verdict   not marked"), "{run:?}");
    }
}

#[test]
fn json_is_for_machines() {
    let folder = Folder::with_key();
    let run = folder.run(&["generate", "--json", "--seed", "1", "--max-tokens", "200", "--key", "my.key"]);
    let written: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(written["tokens"].as_array().unwrap().len(), 200);
    assert_eq!((&written["stop"], &written["seed"]), (&"length".into(), &1.into()));
    folder.write("text.txt", written["text"].as_str().unwrap());
    let run = folder.run(&["detect", "text.txt", "--json", "--key", "my.key"]);
    let found: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.status, &found["verdict"], &found["key_id"]), (0, &"marked".into(), &written["key_id"]));
    assert!(found["p"].as_f64().unwrap() < 1e-5 && found["log10_p"].as_f64().unwrap() < -5.0);
    let shown: serde_json::Value = serde_json::from_str(&folder.run(&["key", "show", "my.key", "--json"]).out).unwrap();
    assert_eq!(shown["id"], written["key_id"]);
}

#[test]
fn a_text_takes_the_form_that_is_asked_for() {
    let folder = Folder::new();
    let write = |arguments: &[&str]| {
        let run = folder.run(&[&["generate", "--model", TALE_SMALL, "--seed", "3"], arguments].concat());
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{run:?}");
        run.out.strip_suffix('\n').unwrap().to_owned()
    };
    assert!([" yes", " no", " perhaps"].contains(&write(&["Is it?", "--choice", " yes, no, perhaps"]).as_str()));
    assert_eq!(write(&["--regex", "[0-9]{4}"]).len(), 4);
    folder.write("s.json", r#"{"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3, "maxItems": 3}"#);
    let json: serde_json::Value = serde_json::from_str(&write(&["--json-schema", "s.json"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3);
    // A penalty that in effect forbids tokens that came before.
    let run = write(&["--presence-penalty", "100", "--max-tokens", "100", "--json"]);
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let tokens: Vec<u64> = run["tokens"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).collect();
    let distinct: std::collections::HashSet<u64> = tokens.iter().copied().collect();
    assert!(tokens.len() > 50 && distinct.len() == tokens.len(), "{tokens:?}");
}

#[test]
fn drafts_leave_a_text_with_a_seed_as_it_is() {
    let folder = Folder::new();
    let tale = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale");
    let write = |arguments: &[&str]| {
        let common = ["generate", "The captain", "--model", tale, "--max-tokens", "60", "--seed", "4"];
        folder.run(&[&common, arguments].concat()).out
    };
    let plain = write(&[]);
    for arguments in [&["--draft", TALE_SMALL][..], &["--lookup"], &["--lookup", "--draft-tokens", "5"]] {
        assert_eq!(write(arguments), plain, "{arguments:?}");
    }
    assert_ne!(
        write(&["--draft", TALE_SMALL, "--draft-tokens", "3"]),
        plain,
        "the law is the same, the chances are not"
    );
}

#[test]
fn a_new_key_has_the_form_of_all_keys() {
    let folder = Folder::new();
    let run = folder.run(&["key", "new", "new.key"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let (mut new, old) = (read(&fs::read_to_string(folder.path("new.key")).unwrap()), read(support::KEY));
    assert_ne!((&new["secret"], &new["id"]), (&old["secret"], &old["id"]));
    assert!(run.out.contains(new["id"].as_str().unwrap()), "{run:?}");
    (new["secret"], new["id"]) = (old["secret"].clone(), old["id"].clone());
    assert_eq!(new, old);
}

#[test]
fn a_key_never_shows_its_secret() {
    let folder = Folder::with_key();
    let file = fs::read_to_string(folder.path("my.key")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&file).unwrap();
    let secret = json["secret"].as_str().unwrap();
    assert_eq!(secret.len(), 64);
    folder.write("text.txt", &"Many words stand in this text, and none of them is marked at all. ".repeat(5));
    for arguments in [
        &["key", "show", "my.key"][..],
        &["key", "show", "my.key", "--json"],
        &["detect", "text.txt", "--key", "my.key"],
        &["generate", "--key", "my.key", "--max-tokens", "3", "--json"],
    ] {
        let mut command = folder.command(arguments);
        let output = command.env("RUST_LOG", "trace").output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&all).contains(&secret[..16]), "{arguments:?}");
    }
}

#[test]
fn colour_is_for_eyes() {
    let folder = Folder::with_key();
    folder.write("text.txt", &"Many words stand in this text -- «été» -- and none is marked at all. ".repeat(3));
    let arguments = ["detect", "text.txt", "--key", "my.key", "--color"];
    let colored = folder.run(&arguments).out;
    assert!(colored.contains("\u{1b}[32m") && colored.contains("\u{1b}[31m"));
    let output = folder.command(&arguments).env("NO_COLOR", "1").output().unwrap();
    let plain = String::from_utf8(output.stdout).unwrap();
    assert!(!plain.contains('\u{1b}'));
    assert!(plain.starts_with(&fs::read_to_string(folder.path("text.txt")).unwrap()), "the text is all there");
    assert!(!folder.run(&["detect", "text.txt", "--key", "my.key"]).out.contains('\u{1b}'));
}

#[test]
fn the_kgw_dialect_writes_and_reads() {
    let folder = Folder::new();
    let run = folder.run(&["key", "new", "kgw.key", "--dialect", "kgw-simple-1", "--gamma", "0.5"]);
    assert!(run.out.contains("kgw, gamma 0.5, simple_1 (a public key"), "{run:?}");
    let text = folder.run(&["generate", "--key", "kgw.key", "--seed", "1", "--max-tokens", "200"]).out;
    folder.write("text.txt", &text);
    assert_eq!(folder.run(&["detect", "text.txt", "--key", "kgw.key"]).status, 0);
}

/// The expert was tuned on plays: it predicts one better than the model it came from does, and steering by it
/// brings the larger model nearer.
#[test]
fn an_expert_steers_towards_what_it_knows() {
    let folder = Folder::new();
    let speech = "[Enter KING and ATTENDANTS]\n\nKING:\nWhat news, my lord? I pray thee, speak; for I\nHave heard                   no word of thee this many a day.\n\nMESSENGER:\nMy liege, the queen is come; and with her, sir,\n                  A noble train of lords and gentlemen.\n\n";
    folder.write("play.txt", &speech.repeat(3));
    let expert = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");
    let loss = |arguments: &[&str]| -> f64 {
        let all = [&["bench", "loss", "--text", "play.txt", "--window", "80", "--windows", "1", "--json"], arguments]
            .concat();
        let run = folder.run(&all);
        let json: serde_json::Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
        json["loss"].as_f64().unwrap()
    };
    assert!(loss(&["--model", expert]) < loss(&["--model", TALE_SMALL]) - 0.3);
    let steered = loss(&["--expert", expert, "--anti", TALE_SMALL]);
    assert!(steered < loss(&[]) - 0.3, "{steered}");
    assert_eq!(loss(&["--expert", expert, "--anti", TALE_SMALL, "--alpha", "0"]), loss(&[]));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = Folder::new();
    let mut command = folder.command(&["generate", "--model", TALE_SMALL, "--max-tokens", "2000", "--seed", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn a_model_can_be_trained_and_used() {
    let folder = Folder::new();
    folder.write("corpus.txt", &"HAMLET:\nThe air bites shrewdly; it is very cold.\n\n".repeat(60));
    let run = folder.run(&[
        "train",
        "lm",
        "--init",
        TALE_SMALL,
        "--corpus",
        "corpus.txt",
        "--heldout",
        "corpus.txt",
        "--out",
        "expert",
        "--steps",
        "6",
        "--window",
        "64",
        "--batch",
        "2",
        "--warm-up",
        "1",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    for word in ["parameters     1262720", "steps          6", "held-out loss"] {
        assert!(run.out.contains(word), "{run:?}");
    }
    let run = folder.run(&["generate", "HAMLET:", "--model", "expert", "--max-tokens", "20", "--seed", "1"]);
    assert_eq!(run.status, 0, "{run:?}");
}

/// What README's main command shows.
#[test]
fn the_demo_shows_all_four_verdicts() {
    let run = Folder::new().run(&["demo"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let row = |name: &str| -> (f64, f64) {
        let line = run.out.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        let mut words = line.trim().strip_prefix(name).unwrap().split_whitespace().skip(3);
        let mut number = || words.next().unwrap().parse().unwrap();
        (number(), number())
    };
    let (z, p) = row("marked  ");
    assert!(z > 6.0 && p < 1e-9, "{}", run.out);
    for unmarked in ["marked, read with another key", "not marked  ", "Jane Austen, Pride and Prejudice"] {
        let (_, p) = row(unmarked);
        assert!(p > 0.01, "{unmarked}: {}", run.out);
    }
}

#[test]
fn help_has_examples_and_version_a_number() {
    let folder = Folder::new();
    for command in [
        &["--help"][..],
        &["generate", "--help"],
        &["detect", "--help"],
        &["key", "new", "--help"],
        &["train", "lm", "--help"],
        &["bench", "detection", "--help"],
        &["bench", "loss", "--help"],
    ] {
        let run = folder.run(command);
        assert!(run.status == 0 && run.out.contains("Examples:"), "{command:?}");
    }
    assert!(folder.run(&["detect", "--help"]).out.contains("Exit status:"));
    assert!(folder.run(&["--version"]).out.starts_with("verdigris 0."));
}
