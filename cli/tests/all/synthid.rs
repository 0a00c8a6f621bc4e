//! `train synthid-detector`: the Bayesian score of a SynthID key.
#![cfg(feature = "train")]

use crate::support::Folder;

/// A folder with a key of SynthID, and texts with its mark.
fn world() -> Folder {
    let folder = Folder::new();
    let keys = (0..12).map(|i| (1000 + 37 * i).to_string()).collect::<Vec<_>>().join(",");
    let new = ["key", "new", "synthid.key", "--id", "s", "--dialect", "synthid", "--bits", "hash", "--hash-key", &keys];
    folder.run(&new).done();
    let write = ["generate", "The captain", "--key", "synthid.key", "--texts", "40", "-n", "90", "--seed", "1"];
    folder.run(&[&write[..], &["--json", "-o", "texts.jsonl", "--quiet"]].concat()).done();
    folder
}

const TRAIN: [&str; 6] = ["train", "synthid-detector", "--key", "synthid.key", "-o", "trained.key"];

#[test]
fn a_trained_key_finds_the_mark() {
    let folder = world();
    let done = folder.run(&[&TRAIN[..], &["texts.jsonl", "--json"]].concat()).succeeds().json();
    let number = |name: &str| done[name].as_f64().unwrap_or_else(|| panic!("{name}: {done}"));
    assert_eq!(done["id"], "s");
    assert_eq!(number("texts") + number("held_out_texts"), 40.0);
    assert!(number("gain") > 0.2 && number("tokens") > 1000.0 && number("held_out_tokens") > 300.0, "{done}");
    let shown = folder.run(&["key", "show", "trained.key", "--json"]).succeeds().json();
    assert!(shown["scheme"].as_str().unwrap().ends_with("Bayesian score"), "{shown}");
    // It finds the mark in another text, and none in a text without it.
    let other = ["generate", "The ship", "-n", "90", "--min-tokens", "90", "--seed", "7", "--quiet"];
    folder.run(&[&other[..], &["--key", "synthid.key", "-o", "marked.txt"]].concat()).done();
    folder.run(&[&other[..], &["-o", "plain.txt"]].concat()).succeeds();
    let judged = |text: &str| folder.run(&["detect", text, "--key", "trained.key", "--json"]).json();
    let marked = judged("marked.txt");
    assert_eq!((&marked["verdict"], &marked["dialect"]), (&"marked".into(), &"synthid".into()));
    assert_eq!(judged("plain.txt")["verdict"], "not marked");
    // The score of a token is about the gain.
    let mean = marked["score"].as_f64().unwrap() / marked["scored"].as_f64().unwrap();
    assert!((mean / number("gain") - 1.0).abs() < 0.5, "{mean} of {done}");
    // The secret is in the file alone.
    let words = folder.run(&["train", "synthid-detector", "texts.jsonl", "--key", "synthid.key", "-o", "b.key"]);
    assert!(words.out.contains("gain ") && !words.out.contains("1037") && !words.err.contains("1037"), "{words:?}");
    assert_eq!(folder.read("b.key"), folder.read("trained.key"), "the same texts and seed give the same key");
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let folder = world();
    let fails = |more: &[&str], said: &str| folder.run(&[&TRAIN[..], more].concat()).fails(said);
    folder.write("few.jsonl", "{\"text\": \"The captain\"}\n");
    fails(&["few.jsonl"], "1 texts with");
    fails(&["none.jsonl"], "none.jsonl");
    folder.write("bad.jsonl", "{\"text\": 1}\n");
    fails(&["bad.jsonl"], "bad.jsonl");
    let plain = ["generate", "The captain", "--texts", "40", "-n", "90", "--seed", "1", "--json", "-o", "plain.jsonl"];
    folder.run(&plain).done();
    fails(&["plain.jsonl"], "the texts do not show the mark of this key");
    folder.run(&["key", "new", "noise.key"]).done();
    let noise = ["train", "synthid-detector", "texts.jsonl", "--key", "noise.key", "-o", "trained.key"];
    folder.run(&noise).fails("is not one of SynthID");
    assert!(!folder.path("trained.key").exists());
    folder.write("trained.key", "mine");
    fails(&["texts.jsonl"], "trained.key");
    assert_eq!(folder.read("trained.key"), "mine");
}
