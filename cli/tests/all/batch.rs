//! `verdigris batch`, through the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use crate::support::{Folder, KEY, TALE_SMALL};
use serde_json::{Value, json};

/// Writes `count` prompts with ids to `in.jsonl`.
fn ask(folder: &Folder, count: usize) {
    let lines = (1..=count).fold(String::new(), |mut lines, i| {
        writeln!(lines, "{}", json!({"id": format!("n{i}"), "prompt": format!("The captain had {i}")})).unwrap();
        lines
    });
    folder.write("in.jsonl", &lines);
}

/// Returns the answers by line number. Panics if a line has two.
fn answers(folder: &Folder) -> BTreeMap<u64, Value> {
    let mut all = BTreeMap::new();
    for line in folder.read("out.jsonl").lines() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert!(all.insert(answer["line"].as_u64().unwrap(), answer).is_none(), "{line}");
    }
    all
}

const BATCH: [&str; 8] = ["batch", "in.jsonl", "out.jsonl", "--model", TALE_SMALL, "--max-tokens", "12", "--quiet"];

/// More prompts than are generated at a time: each answer is the marked text that `generate` writes for its prompt and
/// seed.
#[test]
fn every_prompt_has_its_answer() {
    let folder = Folder::new();
    folder.write_private("key.json", KEY);
    ask(&folder, 70);
    let options = ["--seed", "5", "--key", "key.json"];
    let run = folder.run(&[&BATCH[..], &options].concat());
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (0, "", ""));
    let answers = answers(&folder);
    assert!(answers.keys().copied().eq(1..=70));
    assert!(answers.iter().all(|(line, answer)| answer["id"] == format!("n{line}") && answer["key_id"].is_string()));
    for line in [1, 40, 70] {
        let (prompt, seed) = (format!("The captain had {line}"), (4 + line).to_string());
        let alone =
            ["generate", &prompt, "--model", TALE_SMALL, "--max-tokens", "12", "--key", "key.json", "--json", "--seed"];
        let alone = folder.run(&[&alone[..], &[&seed]].concat()).json();
        for field in ["text", "tokens", "stop", "seed", "prompt_tokens"] {
            assert_eq!(answers[&line][field], alone[field], "{field} of line {line}");
        }
    }
}

/// A batch that was killed, even in the middle of a line, is resumed: no answer is lost or written twice, and all are
/// those of an uninterrupted run.
#[test]
fn an_interrupted_batch_goes_on() {
    let folder = Folder::new();
    ask(&folder, 130);
    let options = ["--seed", "1"];
    let mut child = folder.command(&[&BATCH[..], &options].concat()).spawn().unwrap();
    let (out, begun) = (folder.path("out.jsonl"), Instant::now());
    let lines = || fs::read(&out).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    while lines() < 3 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = fs::read(&out).unwrap();
    assert!(lines() >= 3);
    fs::write(&out, [&before[..], b"{\"format\":\"verdigris-batch-1\",\"li"].concat()).unwrap();
    let run = folder.run(&[&BATCH[..7], &options].concat());
    assert!(run.status == 0 && run.err.contains("are left"), "{run:?}");
    assert!(fs::read(&out).unwrap().starts_with(&before));
    let resumed = answers(&folder);
    assert!(resumed.keys().copied().eq(1..=130));
    // Running it again changes nothing.
    assert_eq!(folder.run(&[&BATCH[..], &options].concat()).status, 0);
    assert_eq!(answers(&folder), resumed);
    // `--force` keeps the old answers if the new run cannot start.
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "8", "--model", TALE_SMALL]).done();
    folder.run(&["batch", "in.jsonl", "out.jsonl", "--model", "none", "--force"]).fails("none is not a model");
    for (fault, said) in [
        (&["--key", "numbered.key"][..], "carries a payload"),
        (&["--regex", "["], "the regular expression"),
        (&["--suppress-tokens", "99999"], "99999"),
        (&["--reasoning-effort", "high"], "does not think"),
    ] {
        folder.run(&[&BATCH[..], &["--force"], fault].concat()).fails(said);
    }
    assert_eq!(answers(&folder), resumed);
    assert_eq!(folder.run(&[&BATCH[..], &options, &["--force"]].concat()).status, 0);
    assert_eq!(answers(&folder), resumed);
}

/// An id is returned as it was given, also one that is not read exactly.
#[test]
fn ids_are_returned_as_they_are() {
    let folder = Folder::new();
    let ids = ["12345678901234567890123", "1e400", "{\"a\":[1.0,null]}", "\"\\u00e9\""];
    let lines = ids.map(|id| format!("{{\"id\":{id},\"prompt\":\"A\"}}\n")).concat();
    folder.write("in.jsonl", &lines);
    folder.run(&BATCH[..7]).done();
    let written = folder.read("out.jsonl");
    assert!(ids.iter().all(|id| written.contains(&format!("\"id\":{id},"))), "{written}");
    folder.run(&BATCH[..7]).done();
    assert_eq!(folder.read("out.jsonl"), written, "all are answered");
    folder.write("in.jsonl", &lines.replace("1e400", "1e401"));
    folder.run(&BATCH[..7]).fails("line 2 had the id 1e400, and now has 1e401");
}

#[test]
fn what_cannot_be_answered_is_said() {
    let folder = Folder::new();
    let long = json!({"prompt": "captain ".repeat(3000)});
    folder.write("in.jsonl", &format!("{{\"prompt\": \"A\"}}\n{long}\n\n{{\"prompt\": \"B\"}}\n"));
    let run = folder.run(&BATCH[..7]);
    assert_eq!(run.status, 3, "{run:?}");
    let answers = answers(&folder);
    assert!(answers.keys().eq(&[1, 2, 4]));
    assert!(answers[&2]["error"].as_str().unwrap().contains("tokens"), "{}", answers[&2]);
    assert!(answers[&1]["text"].is_string() && answers[&4]["text"].is_string() && answers[&1]["id"].is_null());
    // Refused before anything is generated or overwritten.
    for (lines, said) in [
        ("{\"prompt\": 1}\n", "in.jsonl, line 1: invalid type"),
        ("{\"prompt\": \"A\"}\n{}\n", "in.jsonl, line 2: it needs either \"prompt\", a text, or \"messages\""),
        ("{\"id\": 3, \"prompt\": \"A\"}\n", "has answers of another command: line 1 had the id null, and now has 3"),
        ("{\"prompt\": \"A\"}\n", "2 are to lines that in.jsonl does not have"),
        (
            "{\"messages\": [{\"role\": \"user\", \"content\": \"A\"}]}\n{\"prompt\": \"A\"}\n\n{\"prompt\": \"B\"}\n",
            "no chat template",
        ),
    ] {
        folder.write("in.jsonl", lines);
        folder.run(&BATCH[..7]).fails(said);
    }
    folder.write("out.jsonl", "a diary\n");
    folder.run(&BATCH[..7]).fails("out.jsonl is not a file of answers");
    folder.write("out.jsonl", "a diary");
    folder.run(&BATCH[..7]).fails("out.jsonl is not a file of answers");
    folder.run(&["batch", "in.jsonl", "in.jsonl", "--force"]).fails("in.jsonl is a file that is read here");
    folder.run(&["batch", "none.jsonl", "out.jsonl"]).fails("cannot open none.jsonl");
}

/// Answers of another command are not continued, and a failed prompt still shows in the exit status of a later run.
#[test]
fn only_the_same_command_goes_on() {
    let folder = Folder::new();
    folder.write_private("key.json", KEY);
    ask(&folder, 2);
    let asked = |more: &[&str]| folder.run(&[&BATCH[..], more].concat());
    assert_eq!(asked(&["--seed", "1", "--key", "key.json"]).status, 0);
    let whole = folder.read("out.jsonl");
    let first = whole.lines().next().unwrap().to_owned() + "\n";
    folder.write("out.jsonl", &first);
    asked(&["--seed", "1"]).fails("not with no key; give another name, or --force to start over");
    asked(&["--seed", "2", "--key", "key.json"]).fails("has the seed 1, not 2");
    assert_eq!(folder.read("out.jsonl"), first);
    assert_eq!(asked(&["--key", "key.json"]).status, 0);
    assert_eq!(answers(&folder).len(), 2);
    // A prompt that failed in an earlier run keeps the status at 3.
    folder.write("in.jsonl", &format!("{}\n{{\"prompt\": \"B\"}}\n", json!({"prompt": "captain ".repeat(3000)})));
    assert_eq!(asked(&["--force"]).status, 3);
    assert_eq!(asked(&[]).status, 3);
    // Answers go to files that can be read again.
    folder.run(&["batch", "in.jsonl", "/dev/null", "--model", TALE_SMALL]).fails("/dev/null is not a regular file");
    folder.run(&["batch", "in.jsonl", "-", "--model", TALE_SMALL]).fails("- is not a file name");
    assert!(!folder.path("-").exists());
}

/// A long text does not hold up the prompts after it: of more prompts than are generated at a time, one that had to
/// wait is answered before one of the first 64.
#[test]
fn texts_come_and_go() {
    let folder = Folder::new();
    ask(&folder, 150);
    let options = ["batch", "in.jsonl", "out.jsonl", "--model", TALE_SMALL, "--max-tokens", "150", "--quiet"];
    folder.run(&[&options[..], &["--seed", "3", "--stop", "ght"]].concat()).done();
    let out = folder.read("out.jsonl");
    let order = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap());
    let order: Vec<u64> = order.collect();
    assert_eq!(order.len(), 150);
    let last_of_first = order.iter().rposition(|&line| line <= 64).unwrap();
    assert!(order[..last_of_first].iter().any(|&line| line > 64), "{order:?}");
}

/// A batch that cannot start creates no output file and leaves an existing one alone.
#[test]
fn a_batch_that_does_not_begin_leaves_nothing() {
    let folder = Folder::new();
    ask(&folder, 2);
    let begin = || folder.run(&["batch", "in.jsonl", "out.jsonl", "--model", "none"]);
    begin().fails("none is not a model");
    assert!(!folder.path("out.jsonl").exists());
    folder.write("out.jsonl", "");
    begin().fails("none is not a model");
    assert!(folder.path("out.jsonl").exists());
    let unguided = ["--class-model", TALE_SMALL];
    fs::remove_file(folder.path("out.jsonl")).unwrap();
    folder.run(&[&BATCH[..], &unguided].concat()).fails("one class is not enough");
    assert!(!folder.path("out.jsonl").exists());
}

/// Class models guide the answers of a batch as they guide a single text.
#[test]
fn answers_are_guided() {
    const EXPERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");
    let folder = Folder::new();
    ask(&folder, 3);
    let classes = ["--class-model", EXPERT, "--class-model", TALE_SMALL, "--seed", "5"];
    folder.run(&[&BATCH[..], &classes].concat()).succeeds();
    let guided = answers(&folder);
    let alone = ["generate", "The captain had 1", "--model", TALE_SMALL, "--max-tokens", "12", "--json"];
    let alone = |rest: &[&str]| folder.run(&[&alone[..], rest].concat()).json();
    assert_eq!(guided[&1]["tokens"], alone(&classes)["tokens"]);
    assert_ne!(guided[&1]["tokens"], alone(&["--seed", "5"])["tokens"]);
}

/// Prompts are read more than once, which is impossible with a pipe.
#[cfg(unix)]
#[test]
fn prompts_from_a_pipe_are_refused() {
    let folder = Folder::new();
    ask(&folder, 2);
    let mut command = folder.command(&["batch", "/dev/stdin", "out.jsonl", "--model", TALE_SMALL]);
    let mut cat = std::process::Command::new("cat");
    let mut cat = cat.arg(folder.path("in.jsonl")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    command.stdin(cat.stdout.take().unwrap());
    let run = Folder::finish(command);
    cat.wait().unwrap();
    run.fails("it is a pipe or a device, but prompts are read more than once: write them to a file first");
    assert!(!folder.path("out.jsonl").exists());
}

/// A batch is continued only with the same prompts, model and options.
#[test]
fn answers_of_another_command_are_not_continued() {
    let folder = Folder::new();
    let prompts = |lines: &[&str]| {
        let lines: String = lines.iter().map(|prompt| format!("{}\n", json!({"prompt": prompt}))).collect();
        folder.write("in.jsonl", &lines);
    };
    prompts(&["The captain", "The ship"]);
    let seed = ["--seed", "5"];
    assert_eq!(folder.run(&[&BATCH[..], &seed].concat()).status, 0);
    let before = folder.read("out.jsonl");
    // A new line before the others (without ids to reveal it), another model, another option.
    prompts(&["A new one", "The captain", "The ship"]);
    let another = "line 1 had another prompt, another model or other options";
    folder.run(&[&BATCH[..], &seed].concat()).fails(another);
    prompts(&["The captain", "The ship", "A new one"]);
    let model = ["batch", "in.jsonl", "out.jsonl", "--model", "tale", "--max-tokens", "12", "--quiet"];
    folder.run(&[&model[..], &seed].concat()).fails(another);
    folder.run(&[&BATCH[..], &seed, &["--temperature", "0"]].concat()).fails(another);
    assert_eq!(folder.read("out.jsonl"), before, "nothing was lost or added");
    // The same command answers the new prompts.
    assert_eq!(folder.run(&[&BATCH[..], &seed].concat()).status, 0);
    assert_eq!(answers(&folder).len(), 3);
    // Answers without a digest, which older versions wrote, are matched by line number alone.
    let without: String = before.lines().fold(String::new(), |all, line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().shift_remove("digest").unwrap();
        all + &line.to_string() + "\n"
    });
    folder.write("out.jsonl", &without);
    assert_eq!(folder.run(&[&BATCH[..], &seed].concat()).status, 0);
    assert_eq!(answers(&folder).len(), 3);
}
