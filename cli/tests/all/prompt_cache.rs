//! `generate --prompt-cache`: the same text without reading the prompt again, and files that cannot be used.

use std::fs;

use serde_json::Value;

use crate::sampled::sampled;
use crate::support::{Folder, Run, TALE_SMALL};

const EXPERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");
const HEAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-draft");

/// A folder with a key and prompts of some hundred tokens that begin alike.
fn folder() -> Folder {
    let folder = Folder::with_key();
    let begin = "The captain kept a letter in the drawer of his desk, and the sea was dark. ".repeat(12);
    folder.write("one.txt", &format!("{begin}In the morning the ship"));
    folder.write("two.txt", &format!("{begin}All men on board had seen"));
    folder.write("short.txt", &begin[..100]);
    folder
}

fn written(folder: &Folder, prompt: &str, arguments: &[&str]) -> Run {
    let fixed = ["generate", "-f", prompt, "--json", "--seed", "3", "--max-tokens", "40", "--temperature", "1"];
    folder.run(&[&fixed, arguments].concat())
}

/// The texts of a run, which says nothing of its cache, and the number of tokens from the cache.
#[track_caller]
fn texts(folder: &Folder, prompt: &str, arguments: &[&str]) -> (Vec<Value>, Option<u64>) {
    let run = written(folder, prompt, arguments).done();
    assert!(!run.err.contains("cache"), "{}", run.err);
    let mut lines = run.lines();
    let cached = lines[0]["cached_tokens"].as_u64();
    for line in &mut lines {
        let fields = line.as_object_mut().unwrap();
        ["seconds", "cached_tokens"].iter().for_each(|field| _ = fields.remove(*field));
    }
    lines.sort_by_key(|line| line["index"].as_u64());
    (lines, cached)
}

/// Marked, constrained, drafted, several and explained texts: all fields are those without a cache.
#[test]
fn texts_are_those_without_a_cache() {
    let ways = [
        &["--key", "my.key"][..],
        &["--key", "my.key", "--logprobs", "2", "--texts", "3"],
        &["--draft", "tale-small", "--draft-tokens", "3"],
        &["--lookup", "--draft-tokens", "3", "--explain"],
        &["--regex", " [a-z ]{20,60}\\.", "--key", "my.key"],
        &["--best-of", "3", "--model", TALE_SMALL],
    ];
    for more in sampled(ways, 2) {
        let folder = folder();
        let cached = [more, &["--prompt-cache", "p.cache"]].concat();
        let (plain, none) = texts(&folder, "one.txt", more);
        assert_eq!(none, None);
        let tokens = plain[0]["prompt_tokens"].as_u64().unwrap();
        assert!(tokens > 200, "{tokens}");
        assert_eq!(texts(&folder, "one.txt", &cached), (plain.clone(), Some(0)), "{more:?}");
        assert_eq!(texts(&folder, "one.txt", &cached), (plain.clone(), Some(tokens - 1)), "{more:?}");
        // The common beginning of another prompt, whose state replaces that of the first.
        let (other, _) = texts(&folder, "two.txt", more);
        let (with, found) = texts(&folder, "two.txt", &cached);
        assert_eq!(with, other, "{more:?}");
        assert!(found.is_some_and(|found| (tokens - 12..tokens).contains(&found)), "{found:?} of {tokens}");
        let (with, found) = texts(&folder, "two.txt", &cached);
        assert_eq!((with, found), (other.clone(), other[0]["prompt_tokens"].as_u64().map(|tokens| tokens - 1)));
        // A prompt that the file begins with does not replace it.
        let before = fs::read(folder.path("p.cache")).unwrap();
        let (short, _) = texts(&folder, "short.txt", more);
        assert_eq!(texts(&folder, "short.txt", &cached).0, short, "{more:?}");
        assert_eq!(fs::read(folder.path("p.cache")).unwrap(), before);
    }
}

/// A model with gated delta nets, whose states are in the file too. Its texts continue from the end of the stored
/// prompt.
#[test]
fn models_with_states_have_a_cache() {
    let folder = Folder::new();
    let begin = "Hello, World. ThisIsAPrompt! ".repeat(4);
    for (name, end) in [("one", ""), ("two", "More"), ("other", "!")] {
        let begin = if name == "other" { &begin[..60] } else { &begin };
        folder.write(&format!("{name}.txt"), &format!("{begin}{end}"));
    }
    let model =
        ["--model", concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/gguf_architectures/qwen3_5_text.gguf")];
    let plain = ["one.txt", "two.txt", "other.txt"].map(|prompt| texts(&folder, prompt, &model).0);
    let cached = |prompt: &str| texts(&folder, prompt, &[&model[..], &["--prompt-cache", "p.cache"]].concat());
    let tokens = plain[0][0]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens > 64, "{tokens}");
    assert_eq!(cached("one.txt"), (plain[0].clone(), Some(0)));
    assert_eq!(cached("one.txt"), (plain[0].clone(), Some(tokens - 1)));
    assert_eq!(cached("two.txt"), (plain[1].clone(), Some(tokens - 1)));
    // It begins like the stored prompt, whose states are not known in the middle.
    assert_eq!(cached("other.txt"), (plain[2].clone(), Some(0)));
}

#[test]
#[cfg(unix)]
fn only_its_owner_can_read_the_file_and_a_read_only_one_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, cached) = (folder(), ["--prompt-cache", "p.cache"]);
    texts(&folder, "one.txt", &cached);
    let mode = || fs::metadata(folder.path("p.cache")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let before = fs::read(folder.path("p.cache")).unwrap();
    assert!(!String::from_utf8_lossy(&before).contains("captain"));
    fs::set_permissions(folder.path("p.cache"), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(texts(&folder, "two.txt", &cached).1 > Some(100));
    assert_eq!((fs::read(folder.path("p.cache")).unwrap(), mode()), (before, 0o400));
}

/// Files of the same model that are damaged, or of another version: a warning, the same text, and a new file.
#[test]
fn what_can_be_computed_again_is_replaced() {
    let (folder, cached) = (folder(), ["--prompt-cache", "p.cache"]);
    let (plain, _) = texts(&folder, "one.txt", &cached);
    let path = folder.path("p.cache");
    let whole = fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    // The settings are the first part of the index, whose length is the last number.
    let length = u64::from_le_bytes(*whole.last_chunk().unwrap()) as usize;
    for (name, bytes, said) in [
        ("truncated", whole[..whole.len() / 2].to_vec(), "is truncated or damaged"),
        ("a head alone", whole[..20].to_vec(), "is truncated or damaged"),
        ("data", flipped(whole.len() / 3), "is truncated or damaged (its data)"),
        ("the index", flipped(whole.len() - 40 - length + 100), "is truncated or damaged (its index)"),
        ("the version", flipped(8), "was written by another version"),
    ] {
        fs::write(&path, bytes).unwrap();
        let run = written(&folder, "one.txt", &cached).done();
        assert!(run.err.starts_with("warning: p.cache: it ") && run.err.contains(said), "{name}: {}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{name}: {}", run.err);
        assert_eq!(run.json()["tokens"], plain[0]["tokens"], "{name}");
        assert!(fs::read(&path).unwrap() == whole, "{name} is replaced");
    }
    fs::write(&path, "").unwrap();
    assert_eq!(texts(&folder, "one.txt", &cached), (plain.clone(), Some(0)), "an empty file is none");
    assert!(fs::read(&path).unwrap() == whole);
}

/// A file that is not a cache of this model is an error before anything is computed, and stays.
#[test]
fn files_of_others_are_not_replaced() {
    let folder = folder();
    texts(&folder, "one.txt", &["--model", TALE_SMALL, "--prompt-cache", "small.cache"]);
    for (file, said) in [
        ("small.cache", "small.cache: it is of another model"),
        ("one.txt", "one.txt: it is not a prompt cache"),
        (".", ".: it is a folder"),
    ] {
        let before = fs::read(folder.path(file)).ok();
        let run = written(&folder, "two.txt", &["--prompt-cache", file]);
        run.fails(said);
        run.fails("choose another path, or remove it");
        assert_eq!(fs::read(folder.path(file)).ok(), before);
    }
    written(&folder, "one.txt", &["--prompt-cache", "p.cache", "-o", "p.cache"]).fails("name the same file");
}

/// A file that cannot be written costs a warning, and no text.
#[test]
#[cfg(unix)]
fn a_file_that_cannot_be_written_loses_nothing() {
    let folder = folder();
    let (plain, _) = texts(&folder, "one.txt", &[]);
    let run = written(&folder, "one.txt", &["--prompt-cache", "none/p.cache"]).done();
    assert!(run.err.starts_with("warning: cannot write none/p.cache: "), "{}", run.err);
    assert_eq!((run.err.lines().count(), &run.json()["tokens"]), (1, &plain[0]["tokens"]));
    // A limit on the size of files acts like a full disk.
    let program = env!("CARGO_BIN_EXE_verdigris");
    let options = "-f one.txt --json --seed 3 --max-tokens 40 --temperature 1 --prompt-cache p.cache";
    let line = format!("trap '' XFSZ; ulimit -f 64; exec {program} generate {options}");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &line]).current_dir(folder.path(""));
    let run = Run::of(command.output().unwrap()).done();
    assert!(run.err.starts_with("warning: cannot write p.cache: "), "{}", run.err);
    assert_eq!(run.json()["tokens"], plain[0]["tokens"]);
    assert!(!folder.path("p.cache").exists());
    let left = fs::read_dir(folder.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().ends_with(".part")), "no temporary file stays");
}

#[test]
fn ways_to_write_that_need_the_whole_prompt_are_refused() {
    let folder = folder();
    for (more, said) in [
        (&["--beams", "2"][..], "a prompt cache cannot be combined with beams"),
        (&["--penalty-alpha", "0.6", "--top-k", "4"], "a prompt cache cannot be combined with contrastive search"),
        (&["--draft", HEAD], "a prompt cache cannot be combined with a draft head"),
        (&["--expert", EXPERT, "--anti", "tale-small"], "leave out the cache, or the other device"),
    ] {
        written(&folder, "one.txt", &[more, &["--prompt-cache", "p.cache"]].concat()).fails(said);
        assert!(!folder.path("p.cache").exists());
    }
}
