//! `generate` and `train` from the user's side: prompts, incomplete constrained texts, stop strings, several texts,
//! numbers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Folder, Run, TALE_SMALL};
use serde_json::Value;

/// Runs `generate` as most tests do.
fn generate(folder: &Folder, arguments: &[&str]) -> Run {
    folder.run(&[&["generate", "--model", TALE_SMALL, "--seed", "3"], arguments].concat())
}

/// Runs a command with bytes on a pipe as standard input.
fn piped(mut command: Command, input: &[u8]) -> Run {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Run::of(child.wait_with_output().unwrap())
}

#[test]
fn a_form_that_is_cut_short_is_said_and_has_its_own_status() {
    let folder = Folder::new();
    let schema = r#"{"type": "object", "required": ["name"], "properties": {"name": {"minLength": 40}}}"#;
    let forms: [(&[&str], &str); 3] = [
        (&["--json-schema", schema], "name"),
        (&["--regex", "(ab){50}"], "b"),
        (&["--choice", "one two three four five six seven eight nine ten"], "four"),
    ];
    for (form, stop) in forms {
        // If no text that short fits the constraint, nothing is generated, and the suggested number of tokens is
        // enough.
        let run = generate(&folder, &[&["The captain: ", "--max-tokens", "3"], form].concat());
        assert_eq!((run.status, run.out.as_str(), run.err.lines().count()), (2, "", 1), "{run:?}");
        let enough = run.err.split_once("raise --max-tokens to ").expect("a cure").1.split_once(',').unwrap().0;
        let run = generate(&folder, &[&["The captain: ", "--max-tokens", enough, "--json"], form].concat());
        // An open JSON value is closed when the tokens run out, which is reported. The other constraints allow one text
        // only.
        let is_open = form[0] == "--json-schema";
        let (status, closed) = if is_open { (3, Value::Bool(true)) } else { (0, Value::Null) };
        let ended = (run.status, &run.json()["complete"], run.json()["closed"].clone());
        assert_eq!(ended, (status, &true.into(), closed), "{enough}: {run:?}");
        assert_eq!(run.err.contains("closed by the constraint when its tokens ran out"), is_open, "{run:?}");
        // A stop string that ends the text early leaves it incomplete.
        let cut = ["The captain: ", "--stop", stop];
        let run = generate(&folder, &[&cut[..], form].concat());
        assert_eq!(run.status, 3, "{run:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
        assert!(run.err.starts_with("cut short: the text ended") && run.err.contains("--stop"), "{run:?}");
        let run = generate(&folder, &[&cut[..], &["--json", "--quiet"], form].concat());
        let written = run.json();
        assert_eq!((run.status, &written["stop"], &written["complete"]), (3, &"stop_string".into(), &false.into()));
        assert!(run.err.contains("--stop"), "{run:?}");
    }
    // Complete early, complete with the last token allowed, and without a constraint, where `complete` is absent.
    let run = generate(&folder, &["--regex", "[0-9]{4}", "--json"]);
    assert_eq!((run.status, run.err.as_str(), &run.json()["complete"]), (0, "", &true.into()));
    let exactly = run.json()["tokens"].as_array().unwrap().len().to_string();
    let run = generate(&folder, &["--regex", "[0-9]{4}", "--json", "--max-tokens", &exactly]);
    assert_eq!((run.status, &run.json()["complete"]), (0, &true.into()), "{run:?}");
    let run = generate(&folder, &["--json", "--max-tokens", "3"]);
    assert_eq!((run.status, &run.json()["stop"], &run.json()["complete"]), (0, &"length".into(), &Value::Null));
    // One incomplete text among several is enough for status 3.
    let run = generate(&folder, &["--texts", "6", "--regex", "[0-9]{4}", "--stop", "7", "--json"]);
    let texts = run.lines();
    let cut = texts.iter().filter(|text| text["complete"] == false).count();
    assert!(run.status == 3 && (1..6).contains(&cut), "{run:?}");
    assert!(run.err.contains(&format!("{cut} of 6 texts ended before the constraint was met")), "{run:?}");
}

#[test]
fn a_prompt_comes_from_a_pipe_or_a_file() {
    let folder = Folder::new();
    const COMMON: [&str; 8] = ["generate", "--model", TALE_SMALL, "--seed", "3", "--max-tokens", "8", "--json"];
    fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&COMMON[..], more].concat()
    }
    let expected = folder.run(&with(&["The captain"])).json();
    let same = |run: Run| {
        let written = run.json();
        assert_eq!((run.status, run.err.as_str()), (0, ""));
        assert_eq!((&written["prompt"], &written["text"]), (&expected["prompt"], &expected["text"]));
    };
    same(piped(folder.command(&COMMON), b"The captain\n"));
    same(piped(folder.command(&with(&["-"])), b"The captain"));
    // A line end as written by editors on Windows.
    same(piped(folder.command(&with(&["--prompt-file", "-"])), b"The captain\r\n"));
    folder.write("prompt.txt", "The captain\n");
    same(folder.run(&with(&["--prompt-file", "prompt.txt"])));
    same(folder.run(&with(&["-f", "prompt.txt"])));
    same(folder.run_with(&COMMON, "prompt.txt"));
    // A prompt argument takes precedence over standard input.
    same(piped(folder.command(&with(&["The captain"])), b"Somebody else"));
    // One final line end is removed from the prompt, a second one is kept.
    folder.write("prompt.txt", "The captain\n\n");
    assert_eq!(folder.run(&with(&["-f", "prompt.txt"])).json()["prompt"], "The captain\n");
    // Without a prompt and with an empty standard input, the text starts from nothing.
    assert_eq!(folder.run(&COMMON).json()["prompt"], "");
    fs::write(folder.path("bad.txt"), b"The capt\xffain").unwrap();
    let run = folder.run(&with(&["-f", "bad.txt"]));
    assert!(run.status == 2 && run.err.contains("bad.txt") && run.err.contains("UTF-8"), "{run:?}");
    folder.run(&with(&["-f", "none.txt"])).fails("cannot open none.txt");
    assert_eq!(folder.run(&with(&["The captain", "-f", "prompt.txt"])).status, 2, "one prompt, not two");
    folder.run(&["generate", "--chat"]).fails("--chat needs a message");
}

/// A silent pipe as standard input does not hang a run with a prompt; a run without one says that it waits.
#[test]
fn a_silent_pipe_is_waited_for_aloud() {
    let folder = Folder::new();
    let common = ["generate", "--model", TALE_SMALL, "--max-tokens", "2"];
    let spawn = |arguments: &[&str]| {
        let mut command = folder.command(&[&common[..], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut given = spawn(&["The captain"]);
    let _held = given.stdin.take();
    assert!(given.wait().unwrap().success());
    let mut waiting = spawn(&[]);
    let mut said = String::new();
    BufReader::new(waiting.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("waiting for the prompt on standard input"), "{said:?}");
    waiting.stdin.take().unwrap().write_all(b"The captain\n").unwrap();
    assert!(waiting.wait().unwrap().success());
}

/// A text ends before its stop string, wherever tokens begin, and no part of the stop string is printed.
#[test]
fn stop_strings_end_a_text() {
    let folder = Folder::with_key();
    let common = ["The captain", "--max-tokens", "60", "--key", "my.key"];
    let whole = generate(&folder, &common).out;
    let whole = whole.strip_suffix('\n').unwrap();
    // Stop strings of several lengths from the text itself, starting after ten characters.
    for length in [1, 2, 3, 5, 9, 17] {
        let stop: String = whole.chars().skip(10).take(length).collect();
        let expected = &whole[..whole.find(&stop).unwrap()];
        let with = |more: &[&str]| generate(&folder, &[&common[..], &["--stop", &stop], more].concat());
        let run = with(&[]);
        assert_eq!((run.status, run.out.as_str()), (0, format!("{expected}\n").as_str()), "{stop:?}");
        let run = with(&["--json", "--lookup"]).json();
        assert_eq!(
            (&run["text"], &run["stop"], &run["stop_reason"]),
            (&expected.into(), &"stop_string".into(), &stop.as_str().into())
        );
        assert!(run["tokens"].as_array().unwrap().len() < 60);
        let texts = with(&["--json", "--texts", "3"]).lines();
        let first = texts.iter().find(|text| text["index"] == 0).unwrap();
        assert_eq!((&first["text"], &first["stop"]), (&expected.into(), &"stop_string".into()));
    }
    // Of two stop strings, the first to be complete counts.
    let both = generate(&folder, &[&common[..], &["--stop", &whole[20..24], "--stop", &whole[10..13]]].concat()).out;
    assert!(both.trim_end_matches('\n').len() <= 10, "{both:?}");
    // A constrained text that a stop string ends is incomplete, which is reported.
    let run = generate(&folder, &["--regex", "[0-9]{8}x", "--stop", "x"]);
    assert_eq!((run.status, run.out.len()), (3, 9), "{run:?}");
    assert!(run.err.contains("the stop string \"x\" came first; choose another --stop"), "{run:?}");
    generate(&folder, &["--regex", "[0-9]{8}x?", "--stop", "x"]).done();
    generate(&folder, &["--stop", ""]).fails("a stop string is 0 bytes long, but must be 1 to 1024");
    generate(&folder, &["--stop", &"x".repeat(2000)]).fails("a stop string is 2000 bytes long");
}

#[test]
fn a_schema_stands_on_the_command_line_or_in_a_file() {
    let folder = Folder::new();
    let schema = r#" {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3, "maxItems": 3}"#;
    folder.write("s.json", schema);
    let inline = generate(&folder, &["--json-schema", schema]);
    assert_eq!((inline.status, &inline.out), (0, &generate(&folder, &["--json-schema", "s.json"]).out));
    assert_eq!(inline.json().as_array().unwrap().len(), 3);
    let run = generate(&folder, &["--json-schema", "true", "--max-tokens", "40"]);
    assert!(run.status == 0 && serde_json::from_str::<Value>(&run.out).is_ok(), "{run:?}");
    generate(&folder, &["--json-schema", "{\"type\": "]).fails("--json-schema: invalid JSON: EOF");
    generate(&folder, &["--json-schema", "{\"type\": \"none\"}"]).fails("#");
    // A regular expression may begin like an option.
    let run = generate(&folder, &["--regex", "-[0-9]{2}"]);
    assert!(run.status == 0 && run.out.starts_with('-'), "{run:?}");
}

/// Texts that end one after the other over some seconds, each at its first "x".
const ONE_BY_ONE: [&str; 13] =
    ["generate", "The captain", "-m", TALE_SMALL, "-s", "1", "--stop", "x", "-n", "1500", "--texts", "24", "-q"];

/// Each line is printed when its text ends, not after the last text.
#[test]
fn lines_come_when_their_texts_end() {
    let folder = Folder::new();
    let mut command = folder.command(&[&ONE_BY_ONE[..], &["--json"]].concat());
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let texts: Vec<(Duration, Value)> =
        lines.map(|line| (begun.elapsed(), serde_json::from_str(&line.unwrap()).unwrap())).collect();
    child.wait().unwrap();
    let (first, last) = (texts[0].0, texts[23].0);
    assert!(last > 3 * first, "the first after {first:?}, the last after {last:?}");
    // In model calls: the first text processes the prompt for all, so the others start one call later, and an end is a
    // token.
    let end = |text: &Value| {
        let calls = text["tokens"].as_array().unwrap().len() + usize::from(text["stop"] == "end");
        calls + usize::from(text["index"] != 0)
    };
    let ends: Vec<usize> = texts.iter().map(|(_, text)| end(text)).collect();
    assert!(ends.is_sorted() && ends[0] < ends[23], "in the order of their ends: {ends:?}");
    let mut indices: Vec<u64> = texts.iter().map(|(_, text)| text["index"].as_u64().unwrap()).collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..24).collect::<Vec<_>>());
    for (_, text) in &texts {
        assert_eq!(text["seed"].as_u64().unwrap(), 1 + text["index"].as_u64().unwrap());
    }
}

/// Texts that have ended are kept when the program is killed.
#[cfg(unix)]
#[test]
fn an_interrupt_loses_nothing_that_has_ended() {
    let folder = Folder::new();
    let mut command = folder.command(&ONE_BY_ONE);
    let file = fs::File::create(folder.path("texts.txt")).unwrap();
    let mut child = command.stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let read = || folder.read("texts.txt");
    let begun = Instant::now();
    while read().is_empty() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was still running");
    let texts = read();
    assert!(!texts.contains("seed ") && !texts.starts_with("The captain") && texts.ends_with("\n\n"), "{texts:?}");
}

/// Numbers out of range are reported as such, not as unknown options.
#[test]
fn numbers_below_nothing_and_none() {
    let folder = Folder::new();
    for (arguments, said) in [
        (["--temperature", "-1"], "temperature is -1, but must be from 0 to 100"),
        (["--temperature", "nan"], "temperature is NaN, but must be from 0 to 100"),
        (["--temperature", "inf"], "temperature is inf, but must be from 0 to 100"),
        (["--top-p", "-0.5"], "--top-p is -0.5, but must be above 0 and at most 1"),
        (["--min-p", "-1"], "--min-p is -1, but must be from 0 to 1"),
        (["--repetition-penalty", "-1"], "--repetition-penalty is -1, but must be from 0.01 to 100"),
        (["--threads", "0"], "--threads is 0, but must be 1 to 1024"),
        (["--draft-tokens", "3"], "--draft-tokens needs a drafter"),
        (["--draft-tree", "3,1"], "--draft-tree needs a drafter"),
        (["--draft-rule", "block"], "--draft-rule needs a drafter"),
    ] {
        generate(&folder, &arguments).fails(said);
    }
    for option in ["--max-tokens", "--texts", "--threads", "--draft-tokens", "--seed"] {
        let run = folder.run(&["generate", "--model", TALE_SMALL, option, "-1"]);
        assert!(run.status == 2 && run.err.contains(&format!("invalid value '-1' for '{option}")), "{run:?}");
        assert!(!run.err.contains("tip"), "{run:?}");
    }
    // The same for all commands.
    for (arguments, said) in [
        (&["key", "new", "a.key", "--delta", "-1"][..], "delta is -1"),
        (
            &["detect", "text.txt", "--key", "none.key", "--level", "-1"],
            "'--level <P>': must be a number above 0 and below 1, not -1",
        ),
        (&["generate", "--expert", "none", "--anti", "none", "--alpha", "-1"], "none is not a model"),
    ] {
        let run = folder.run(arguments);
        assert!(run.status == 2 && run.err.contains(said) && !run.err.contains("tip"), "{run:?}");
    }
    for option in ["--steps", "--batch", "--window", "--heldout-every"] {
        let run = folder.run(&["train", "lm", "--corpus", "none.txt", "--out", "out", option, "-1"]);
        assert!(run.status == 2 && run.err.contains("it must be a whole number"), "{run:?}");
    }
}

/// A text is written to a file or pipe byte for byte, including control characters.
#[test]
fn bytes_of_a_text_are_kept() {
    let folder = Folder::new();
    let pattern = ["--regex", "a\\x1b\\[31mred\\x07b\\x1b\\[0m\\x08\\x7f\\tc\\r\\nd"];
    let text = "a\u{1b}[31mred\u{7}b\u{1b}[0m\u{8}\u{7f}\tc\r\nd";
    let run = generate(&folder, &pattern);
    assert_eq!((run.status, run.out), (0, format!("{text}\n")));
    assert_eq!(generate(&folder, &[&pattern[..], &["--json"]].concat()).json()["text"], text);
    let several = generate(&folder, &[&pattern[..], &["--texts", "2"]].concat()).out;
    assert_eq!(several, format!("{text}\n\n{text}\n\n"));
    assert_eq!(generate(&folder, &[&pattern[..], &["-o", "text.txt"]].concat()).out, "");
    assert_eq!(folder.read("text.txt"), format!("{text}\n"));
}

#[test]
fn a_file_of_output_is_whole_and_replaces_nothing_unasked() {
    let folder = Folder::new();
    let common = ["The captain", "--max-tokens", "10"];
    let text = generate(&folder, &common).out;
    let to = |more: &[&str]| generate(&folder, &[&common[..], &["--output", "text.txt"], more].concat());
    assert_eq!((to(&[]).status, folder.read("text.txt")), (0, text.clone()));
    folder.write("text.txt", "mine");
    to(&[]).fails("text.txt exists already; --force replaces it");
    assert_eq!(folder.read("text.txt"), "mine");
    assert_eq!((to(&["--force"]).status, folder.read("text.txt")), (0, text));
    // An error leaves the file unchanged and no other file behind.
    to(&["--force", "--temperature", "nan"]).fails("temperature is NaN");
    let files = fs::read_dir(folder.path(".")).unwrap().count();
    assert_eq!(files, 1);
    folder.write("prompt.txt", "The captain");
    let run = generate(&folder, &["-f", "prompt.txt", "-o", "prompt.txt", "--force"]);
    run.fails("prompt.txt is a file that is read here");
    generate(&folder, &["-o", "no/such/folder/text.txt"]).fails("cannot write no/such/folder/text.txt");
    let cut = generate(&folder, &["--regex", "a{50}", "--stop", "aa", "-o", "cut.txt"]);
    assert!(cut.status == 3 && folder.path("cut.txt").exists(), "{cut:?}");
}

/// Seeds chosen by the program differ, and are below 2^53, so that every JSON parser reads them exactly.
#[test]
fn seeds_of_their_own() {
    let folder = Folder::new();
    let seed = |arguments: &[&str]| {
        let all = [&["generate", "--model", TALE_SMALL, "--max-tokens", "1", "--json"], arguments].concat();
        folder.run(&all).json()["seed"].as_u64().unwrap()
    };
    let seeds: Vec<u64> = (0..4).map(|_| seed(&[])).collect();
    assert!(
        seeds.iter().all(|&seed| seed < 1 << 53) && seeds.iter().any(|&seed| seed > u64::from(u32::MAX)),
        "{seeds:?}"
    );
    assert_eq!(seed(&["--seed", "18446744073709551615"]), u64::MAX);
}

/// Noise that depends only on the preceding tokens gives the same text for all seeds, with a warning. So it begins only
/// after some surprise.
#[test]
fn texts_that_seeds_do_not_tell_apart() {
    let folder = Folder::new();
    let new = ["key", "new", "noise.key", "--dialect", "native-gumbel", "--model", TALE_SMALL, "--variants", "1"];
    folder.run(&new).done();
    let several = ["The captain of the ship", "--texts", "3", "--max-tokens", "12"];
    let marked = [&several[..], &["--key", "noise.key", "--temperature", "1"]].concat();
    let run = generate(&folder, &marked);
    assert!(run.status == 0 && !run.err.contains("are different"), "{run:?}");
    let run = generate(&folder, &[&marked[..], &["--mark-after", "0"]].concat());
    assert_eq!(run.status, 0);
    // Another warning may follow: whether a text this short proves its mark depends on the key, which is random.
    assert!(run.err.starts_with("warning: of 3 texts 1 are different: the key "), "{run:?}");
    let run = generate(&folder, &[&several[..], &["--temperature", "0"]].concat());
    assert!(run.err.contains("at temperature 0 the seed has no effect"), "{run:?}");
    assert_eq!(generate(&folder, &[&several[..], &["--temperature", "0", "--quiet"]].concat()).err, "");
    assert_eq!(generate(&folder, &several).err, "");
}

/// The number of threads does not change the text, and short options work like long ones.
#[test]
fn short_options_and_threads() {
    let folder = Folder::with_key();
    let long =
        ["generate", "The captain", "--model", TALE_SMALL, "--key", "my.key", "--max-tokens", "20", "--seed", "5"];
    let short = ["generate", "The captain", "-m", TALE_SMALL, "-k", "my.key", "-n", "20", "-s", "5", "-t", "1", "-q"];
    let (long, short) = (folder.run(&long), folder.run(&short));
    assert_eq!((long.status, long.out), (0, short.out));
}

/// `--top-k` 0 and -1 allow all tokens, as in other programs.
#[test]
fn top_k_may_be_off() {
    let folder = Folder::new();
    let written = |more: &[&str]| {
        let of = ["generate", "The captain", "-m", TALE_SMALL, "-n", "20", "-s", "5", "--top-p", "1"];
        let run = folder.run(&[&of[..], more].concat());
        (run.status, run.out)
    };
    let all = written(&[]);
    assert_eq!((all.0, &all), (0, &written(&["--top-k", "0"])));
    assert_eq!(all, written(&["--top-k", "-1"]));
    assert_ne!(all, written(&["--top-k", "1"]));
}

const TRAIN: [&str; 12] =
    ["train", "lm", "--corpus", "corpus.txt", "--steps", "2", "--window", "16", "--batch", "1", "--out", "out"];

/// Nothing is expected of a mark that has not begun.
#[test]
fn a_late_mark_has_no_expectation() {
    let folder = Folder::new();
    folder.run(&["key", "new", "lists.key", "--dialect", "native", "--model", TALE_SMALL]).done();
    let marked = ["The captain", "--key", "lists.key", "--max-tokens", "40", "--json"];
    let mark = |more: &[&str]| generate(&folder, &[&marked[..], more].concat()).json()["mark"].clone();
    let late = mark(&["--mark-after", "1e9"]);
    assert!(late["status"] == "too_weak" && late.get("expected_z").is_none(), "{late}");
    let forced = mark(&["--temperature", "0.2"]);
    assert!(forced["status"] == "watermarked" || forced["expected_z"].is_number(), "{forced}");
}

/// Repeating the command does not overwrite a finished model.
#[test]
fn a_finished_model_is_not_trained_over() {
    let folder = Folder::new();
    folder.write("corpus.txt", &"The moon came up, and the sea lay still. ".repeat(20));
    let train = |more: &[&str]| folder.run(&[&TRAIN[..], &["--init", TALE_SMALL, "--quiet"], more].concat());
    train(&[]).succeeds();
    let weights = || fs::read(folder.path("out/model.safetensors")).unwrap();
    let before = weights();
    train(&["--seed", "2"]).fails("out holds a model already: choose another --out, or train over it with --force");
    assert!(weights() == before);
    assert_eq!(train(&["--seed", "2", "--force"]).status, 0);
    assert!(weights() != before);
    // Nor does training overwrite the model that it starts from.
    folder.copy_model(TALE_SMALL, "given");
    let run = folder.run(&[&TRAIN[..11], &["given", "--init", "given"]].concat());
    run.fails("given holds a model already");
    for (option, said) in [
        (["--heldout-every", "0"], "--heldout-every is 0, but must be at least 1"),
        (["--checkpoint-minutes", "0"], "--checkpoint-minutes is 0, but must be above 0"),
        (["--checkpoint-minutes", "-1"], "--checkpoint-minutes is -1, but must be above 0"),
    ] {
        train(&[&option[..], &["--force"]].concat()).fails(said);
    }
}

/// All files of a model have the same permissions.
#[cfg(unix)]
#[test]
fn files_of_a_model_have_one_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.write("corpus.txt", &"The moon came up, and the sea lay still. ".repeat(20));
    assert_eq!(folder.run(&[&TRAIN[..], &["--init", TALE_SMALL]].concat()).status, 0);
    let mode = |file: &str| fs::metadata(folder.path("out").join(file)).unwrap().permissions().mode() & 0o777;
    let usual = fs::metadata(folder.path("corpus.txt")).unwrap().permissions().mode() & 0o777;
    for file in ["config.json", "tokenizer.json", "model.safetensors", "training.json"] {
        assert_eq!(mode(file), usual, "{file}");
    }
}

/// Output that cannot be written is an error, not a panic.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::with_key();
    folder.write("corpus.txt", &"The moon came up, and the sea lay still. ".repeat(20));
    let train = [&TRAIN[..], &["--init", TALE_SMALL]].concat();
    let train_json = [&train[..], &["--force", "--json"]].concat();
    for arguments in [
        &train[..],
        &train_json,
        &["generate", "--model", TALE_SMALL, "--max-tokens", "3"],
        &["generate", "--model", TALE_SMALL, "--max-tokens", "3", "--json"],
        &["generate", "--model", TALE_SMALL, "--max-tokens", "3", "--texts", "2"],
        &["demo", "--tokens", "20"],
    ] {
        let run = folder.run_full(arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {run:?}");
        assert!(run.err.starts_with("error: cannot write the output: No space left"), "{arguments:?}: {run:?}");
    }
    let run = generate(&folder, &["--max-tokens", "3", "--output", "/dev/full"]);
    run.fails("cannot write /dev/full: No space left");
}

/// The demo fits the width of the terminal.
#[test]
fn the_demo_is_as_wide_as_the_terminal() {
    let folder = Folder::new();
    for columns in [40, 60, 80, 96, 200] {
        let mut command = folder.command(&["demo", "--tokens", "60"]);
        let output = command.env("COLUMNS", columns.to_string()).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let widest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.min(96), "{widest} of {columns}:\n{shown}");
        // Words are not split across lines.
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(words.join(" ").matches("not marked").count() >= 4, "{shown}");
        for word in ["prefers", "detector", "writer"] {
            assert!(words.contains(&word), "{columns}:\n{shown}");
        }
    }
}

/// The evidence is that of `detect`, which reads a text with doubled spaces in two ways.
#[test]
fn a_mark_is_judged_as_detect_judges_it() {
    let folder = Folder::with_key();
    let spaces = r#"[a-z]{2}(  [a-z]{2}){40}"#;
    let write = ["generate", "A ship", "--key", "my.key", "-n", "300", "--seed", "4", "--json", "--regex", spaces];
    let written = folder.run(&write).json();
    folder.write("text.txt", written["text"].as_str().unwrap());
    let found = folder.run(&["detect", "text.txt", "--key", "my.key", "--json", "--regex", spaces]).json();
    assert_eq!(written["mark"]["log10_p"], found["log10_p"], "{written}\n{found}");
    let plain = folder
        .run(&["generate", "It is 12  13  14  15  ", "--key", "my.key", "-n", "60", "--seed", "9", "--json"])
        .json();
    folder.write("text.txt", &format!("{}  x  x  x  x  x", plain["text"].as_str().unwrap()));
    let found = folder.run(&["detect", "text.txt", "--key", "my.key", "--json"]).json();
    assert_eq!(found["looks"], 2.0, "two readings");
}

/// A text that is too short to be scored is not skipped because of its constraint.
#[test]
fn a_short_text_is_skipped_for_its_length() {
    let folder = Folder::with_key();
    let reason = |pattern: &str| {
        let write = ["generate", "A ship", "--key", "my.key", "--seed", "4", "-n", "60", "--json", "--regex", pattern];
        let mark = folder.run(&write).json()["mark"].clone();
        assert_eq!(mark["status"], "skipped", "{mark}");
        mark["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason("[a-c]{1,3}"), "the text is too short");
    assert_eq!(
        reason("The captain said that the ship would not leave the harbour before"),
        "the constraint left no choice"
    );
}
