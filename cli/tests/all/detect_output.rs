//! The output of `detect`: reports, colours, tables and the log; and output of all commands that cannot be written.

use std::fs;

use crate::support::Folder;
use crate::support::detection::{PLAIN, detect, marked};
use serde_json::json;

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
    // A key of marks is not replaced either, whether it is in use or not.
    let key = folder.read("my.key");
    detect(&folder, &["text.txt", "--html", "my.key", "--force"]).fails("my.key is a key, which --force does not");
    folder.run(&["generate", "-o", "my.key", "--force"]).fails("my.key is a key, which --force does not");
    assert_eq!(folder.read("my.key"), key);
    assert_eq!(folder.read("text.txt"), text);
    assert_eq!(folder.read("texts/a.txt"), text);
    folder.write("report.html", "mine");
    detect(&folder, &["text.txt", "--html", "report.html"]).fails("report.html exists already; --force replaces it");
    assert_eq!(folder.read("report.html"), "mine");
    assert_eq!(detect(&folder, &["text.txt", "--html", "report.html", "--force"]).status, 1);
    assert!(folder.read("report.html").starts_with("<!doctype html>"));
    let parts = fs::read_dir(folder.path(".")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("part")
    });
    assert_eq!(parts.count(), 0, "no temporary file is left");
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

/// A report has the digest of its text, its date, and numbers on its axes.
#[test]
fn a_report_says_what_it_is_of() {
    let folder = Folder::with_key();
    folder.write("text.txt", &format!("{} \x1b[31m", marked(&folder)));
    folder.write("plain.txt", &PLAIN.repeat(5));
    assert_eq!(detect(&folder, &["text.txt", "--html", "report.html"]).status, 0);
    let html = folder.read("report.html");
    use sha2::Digest;
    let digest = sha2::Sha256::digest(fs::read(folder.path("text.txt")).unwrap());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for said in [digest.as_str(), " UTC. A text is called", "text-anchor=\"middle\">100</text>", ">Marked.</span>"] {
        assert!(html.contains(said), "{said}");
    }
    assert!(!html.contains('\x1b'));
    detect(&folder, &["plain.txt", "--html", "plain.html"]);
    let html = folder.read("plain.html");
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
        let fault = "texts/bad.jsonl:1: there is no field \"text\": choose one with --column";
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

/// Output that cannot be written is an error, not a crash, in every command.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::with_key();
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "16"]);
    folder.write("text.txt", &PLAIN.repeat(5));
    folder.write("bare.txt", PLAIN.trim());
    folder.write("corpus.txt", &PLAIN.repeat(200));
    let small = crate::support::TALE_SMALL;
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
        &["robustness", "text.txt", "--key", "my.key", "--edit", "deletion"],
        &["robustness", "text.txt", "--key", "my.key", "--edit", "deletion", "--json"],
        &["robustness", "text.txt", "--edit", "deletion", "--strength", "0.1", "--text"],
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
        &["bench", "robustness", "--samples", "1", "--tokens", "40", "--edit", "deletion"],
    ] {
        let run = folder.run_full(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {run:?}");
        assert!(run.err.contains("cannot write the output"), "{arguments:?}: {run:?}");
    }
    // A full standard error does not change the status.
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["detect", "none.txt", "--key", "my.key"][..], &["detect", "--no-such-option"], &["key"]] {
        let status = folder.command(arguments).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{arguments:?}");
        let mut command = folder.command(&["detect", "text.txt", "--key", "my.key"]);
        assert_eq!(command.stderr(full()).env("RUST_LOG", "trace").status().unwrap().code(), Some(1));
    }
}
