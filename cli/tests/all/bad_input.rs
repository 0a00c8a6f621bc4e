//! Bad input: a one-line error with the cause and the cure, status 2, and no partial output.

use std::fs;

use crate::support::{Folder, TALE_SMALL};

#[test]
fn a_missing_file() {
    let folder = Folder::with_key();
    folder.run(&["detect", "none.txt", "--key", "my.key"]).fails("cannot open none.txt");
    folder.run(&["detect", ".", "--key", "my.key"]).fails("holds no .txt, .md");
    folder.run(&["generate", "--key", "none.key"]).fails("cannot read the key file none.key");
    folder.run(&["train", "lm", "--corpus", "none.txt", "--out", "out"]).fails("cannot read none.txt");
    folder.run(&["bench", "loss", "--text", "none.txt"]).fails("cannot read none.txt");
    assert!(!folder.path("out").exists());
}

#[test]
fn a_file_of_prompts_that_is_none() {
    let folder = Folder::new();
    let batch = |file: &str| folder.run(&["batch", file, "out.jsonl"]);
    fs::create_dir(folder.path("dir")).unwrap();
    batch("dir").fails("cannot open dir: it is a folder");
    fs::write(folder.path("bin"), [0xff, 0, 0x80, 7]).unwrap();
    batch("bin").fails("bin, line 1: expected value in column 1; a line is an object such as {\"id\": 7, \"prompt\":");
    folder.write("text", "{\"prompt\": \"A\"}\n\n{\"prompt\": 3}\n");
    batch("text").fails("text, line 3: invalid type: integer `3`, expected a string in column 12; a line is an object");
    assert!(!folder.path("out.jsonl").exists());
}

#[test]
fn nothing_where_something_is_meant() {
    let folder = Folder::new();
    let of = |arguments: &[&str]| folder.run(&[&["generate", "A", "--model", TALE_SMALL], arguments].concat());
    for tree in ["0", "3,0", "0,1"] {
        of(&["--lookup", "--draft-tree", tree]).fails("--draft-tree has a level without drafts");
    }
    of(&["--lookup", "--draft-tree", "8,8"]).fails("--draft-tree has 72 drafts for each call, but at most 64");
    for alone in [&["--alpha", "0.5"][..], &["--alpha", "banana"], &["--guidance-scale", "1.5", "--alpha", "0.3"]] {
        of(alone).fails("--alpha is a weight of experts");
    }
    for option in ["--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-tokens", "--max-requests", "--max-body"] {
        let run = folder.run(&["serve", option, "0"]);
        assert!(run.status == 2 && run.err.contains("it must be a whole number, 1 or more"), "{run:?}");
    }
    let run = folder.run(&["serve", "--max-read-seconds", "18446744073709551615"]);
    assert!(run.status == 2 && run.err.contains("it must be at most 2147483648"), "{run:?}");
    of(&["--json-schema", " "]).fails("--json-schema is empty: give a file, or the schema itself");
    of(&["--json-schema", "[]"]).fails("a schema is an object, true or false");
    folder.write("a.txt", "A");
    of(&["--ring", "a.txt"]).fails("cannot read the key ring a.txt: it is a file, and a ring is a folder of key files");
    of(&["--output", "none/a.txt"])
        .fails("cannot write none/a.txt: No such file or directory (os error 2); make the f");
    for choice in [&["--choice", ""][..], &["--choice", "a", "--choice", ""], &["--choice", "[]"]] {
        of(choice).fails("--choice or --choices has an empty text, or none: give texts of at least one character");
    }
    of(&["--choice", "yes,no"])
        .fails(r#"repeat it for each, as in --choice yes --choice no; if this is one text, write"#);
    of(&["--choice", "[yes]"]).fails("--choice is not a JSON list of texts (expected value at line 1 column 2)");
    // A batch without prompts succeeds with an empty file of answers.
    for (file, text) in [("none.jsonl", ""), ("blank.jsonl", "\n \n")] {
        folder.write(file, text);
        let run = folder.run(&["batch", file, "out.jsonl"]);
        assert_eq!((run.status, &*run.out), (0, ""), "{run:?}");
        assert_eq!(run.err, format!("warning: {file} has no prompts, so out.jsonl gets no answers\n"));
        assert_eq!(folder.read("out.jsonl"), "");
        let run = folder.run(&["batch", file, "out.jsonl", "--quiet"]);
        assert_eq!((run.status, &*run.err), (0, ""), "{run:?}");
    }
}

/// `/proc` exists, but no file can be created in it.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_made() {
    let folder = Folder::with_key();
    let generate = ["generate", "A", "--model", TALE_SMALL, "-n", "3", "--output", "/proc/a.txt"];
    folder.run(&generate).fails("cannot write /proc/a.txt: No such file or directory");
    folder.write("text.txt", "Some text that somebody has written, long enough to be judged by a reader with the key.");
    let detect = ["detect", "text.txt", "--key", "my.key", "--html", "/proc/a.html"];
    folder.run(&detect).fails("cannot write /proc/a.html: No such file or directory");
    folder.run(&["key", "new", "/proc/a.key"]).fails("cannot write the key file /proc/a.key");
}

#[test]
fn numbers_that_are_too_large() {
    let folder = Folder::new();
    let large = "99999999999999999999999";
    for option in ["--max-tokens", "--top-k", "--seed", "--threads"] {
        let run = folder.run(&["generate", "A", option, large]);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(
            run.err.contains(&format!("'{large}' for '{option}")) && run.err.contains("it is too large"),
            "{run:?}"
        );
    }
    for bench in ["detection", "power", "price", "robustness", "speculation", "strength"] {
        let run = folder.run(&["bench", bench, "--samples", "18446744073709551615"]);
        assert!(run.status == 2 && run.err.contains("'--samples <N>': it must be at most 1000000"), "{run:?}");
    }
    let price = ["bench", "price", "--model", TALE_SMALL, "--samples", "1", "--tokens", "2"];
    let of = |rest: &[&str]| folder.run(&[&price, rest].concat());
    of(&["--temperature", "nan"]).fails("temperature is NaN, but must be from 0 to 100");
    of(&["--top-p", "2"]).fails("top_p is 2, but must be above 0 and at most 1");
    let run = folder.run(&["generate", "A", "--seed", "-1"]);
    assert!(run.status == 2 && run.err.contains("it must be a whole number, 0 or more"), "{run:?}");
}

#[test]
fn green_shares_that_are_none() {
    let folder = Folder::with_key();
    folder.write("text.txt", "Some text.");
    for shares in ["2", "0.25,0", "0.5,nan"] {
        let run = folder.run(&["identify", "text.txt", "--key", "my.key", "--gammas", shares]);
        run.fails("but a green share is above 0 and below 1");
    }
}

#[test]
fn fields_of_texts_that_have_none() {
    let folder = Folder::with_key();
    folder.write("text.txt", "Some text.");
    folder.write("lines.jsonl", "{\"id\": 7, \"text\": \"Some text.\"}\n");
    for option in ["--id-field", "--column"] {
        for files in [&["text.txt"][..], &["text.txt", "text.txt"], &["-"], &["lines.jsonl", "--format", "text"]] {
            let run = folder.run(&[&["detect", "--key", "my.key", option, "name"], files].concat());
            run.fails(&format!("{option} names a field of JSON records or a column of Parquet files"));
        }
    }
    let run = folder.run(&["detect", "--key", "my.key", "--id-field", "id", "--json", "text.txt", "lines.jsonl"]);
    assert!(run.err.is_empty() && run.out.contains("\"id\":7"), "{run:?}");
}

#[test]
fn a_folder_that_is_no_model() {
    let folder = Folder::new();
    fs::create_dir(folder.path("empty")).unwrap();
    folder.run(&["generate", "--model", "empty"]).fails("empty is not a model: it has no config.json");
    folder.run(&["generate", "--model", "none"]).fails("none is not a model: there is nothing at that path");
    folder.run(&["key", "new", "a.key", "--model", "empty"]).fails("it has no tokenizer.json");
    let run = folder.run(&["generate", "--model", "tales"]);
    run.fails("the built-in models are tale, tale-small, tale-expert; did you mean tale?");
    let run = folder.run(&["key", "new", "a.key", "--model", "llama3"]);
    run.fails("a GGUF file, or one on the Hugging Face hub (owner/name); the built-in models are tale");
    fs::write(folder.path("empty/b.gguf"), "").unwrap();
    fs::write(folder.path("empty/a.gguf"), "").unwrap();
    let run = folder.run(&["generate", "--model", "empty"]);
    run.fails("it has no config.json, but a GGUF file: give empty");
    assert!(run.err.contains("a.gguf"), "{run:?}");
    assert!(!folder.path("a.key").exists());
}

#[test]
fn a_truncated_safetensors_file() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "cut");
    let weights = folder.path("cut/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    folder.run(&["generate", "--model", "cut"]).fails("model.safetensors is truncated or damaged");
}

#[test]
fn a_tokenizer_that_is_not_the_keys() {
    let folder = Folder::with_key();
    folder.copy_model(TALE_SMALL, "other");
    let path = folder.path("other/tokenizer.json");
    let json = fs::read_to_string(&path).unwrap();
    // The vocabulary has the same size, with two tokens swapped.
    let (a, b) = ("\"Ġthe\":", "\"Ġand\":");
    assert!(json.contains(a) && json.contains(b));
    fs::write(&path, json.replace(a, "\"@\":").replace(b, a).replace("\"@\":", b)).unwrap();
    folder.write("text.txt", "Some text.");
    let run = folder.run(&["detect", "text.txt", "--key", "my.key", "--model", "other"]);
    run.fails("was made for a vocabulary of 4096 tokens");
    run.fails("with --model (the default is the built-in tale)");
    assert!(run.err.contains("my.key: the key "), "{run:?}");
    folder.run(&["generate", "--key", "my.key", "--model", "other"]).fails("choose the model that goes with the key");
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_can_read_or_nobody() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    folder.run(&["key", "new", "my.key"]);
    let key = folder.path("my.key");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    folder.run(&["detect", "--key", "my.key"]).fails("run `chmod 600 my.key`");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&key).is_err() {
        // Root can read the file whatever its permissions.
        folder.run(&["detect", "--key", "my.key"]).fails("cannot read the key file my.key");
    }
}

#[test]
fn a_file_that_is_no_key_and_a_key_that_is_there() {
    let folder = Folder::with_key();
    folder.write_private("bad.key", "{\"format\": \"verdigris-key-1\"");
    folder
        .run(&["key", "show", "bad.key"])
        .fails("the key file bad.key cannot be used: it does not read as one at line 1");
    let before = fs::read(folder.path("my.key")).unwrap();
    folder.run(&["key", "new", "my.key"]).fails("choose another name");
    assert_eq!(fs::read(folder.path("my.key")).unwrap(), before);
    folder.run(&["key", "new", "no/such/folder/my.key"]).fails("make the folder first");
}

#[test]
fn text_that_is_not_utf8() {
    let folder = Folder::with_key();
    let mut bytes = b"fine words ".repeat(20_000);
    bytes.push(0xff);
    fs::write(folder.path("bad.txt"), &bytes).unwrap();
    let said = format!("bad.txt: byte {} is not valid UTF-8", bytes.len() - 1);
    folder.run(&["detect", "bad.txt", "--key", "my.key"]).fails(&said);
    folder.run(&["detect", "bad.txt", "--key", "my.key", "--color"]).fails(&said);
}

#[test]
fn an_empty_file_and_a_text_too_short() {
    let folder = Folder::with_key();
    folder.write("empty.txt", "");
    folder.write("short.txt", "Too short.");
    folder.run(&["detect", "empty.txt", "--key", "my.key"]).fails("too short to decide: 0 tokens");
    folder.run(&["detect", "short.txt", "--key", "my.key"]).fails("a verdict takes at least 9");
    folder.run(&["detect", "short.txt", "--key", "my.key", "--color"]).fails("a verdict takes at least 9");
    folder.write("corpus.txt", "Too short.");
    let run = folder.run(&["train", "lm", "--corpus", "corpus.txt", "--init", TALE_SMALL, "--out", "out"]);
    run.fails("one training window takes 257");
}

#[test]
fn numbers_out_of_range() {
    let folder = Folder::with_key();
    for (arguments, said) in [
        (&["key", "new", "a.key", "--gamma", "0.3"][..], "gamma is 0.3, but must be a multiple of 1/256"),
        (&["key", "new", "a.key", "--gamma", "1"], "gamma is 1, but must be"),
        (&["key", "new", "a.key", "--delta=-1"], "delta is -1, but must be above 0"),
        (&["key", "new", "a.key", "--delta", "nan"], "delta is NaN"),
        (&["key", "new", "a.key", "--width", "9"], "context width is 9, but must be 1 to 8"),
        (&["key", "new", "a.key", "--dialect", "kgw-simple-1", "--gamma", "2"], "gamma is 2, but must be"),
        (&["generate", "--temperature=-1"], "temperature is -1, but must be from 0 to 100"),
        (&["generate", "--top-p", "1.5"], "--top-p is 1.5, but must be above 0 and at most 1"),
        (&["generate", "--top-k", "-2"], "it must be a whole number, 0 or more, or -1"),
        (&["generate", "--regex", "(a"], "the regular expression is wrong at character 1: unclosed group"),
        (&["generate", "--regex", "a(?R)b"], "the regular expression has recursion at character 2, which is not"),
        (&["generate", "--regex", "a*+"], "the regular expression has a possessive quantifier at character 2, which"),
        (&["generate", "--regex", "a{,3}"], "write it with one, as in {0,3}; braces as such are \\{ and \\}"),
        (&["generate", "--min-p", "2"], "--min-p is 2, but must be"),
        (&["generate", "--typical-p", "0"], "--typical-p is 0, but must be above 0 and at most 1"),
        (&["generate", "--typical-p", "nan", "--temperature", "0"], "typical-p is NaN"),
        (&["generate", "--epsilon-cutoff", "1"], "--epsilon-cutoff is 1, but must be at least 0 and below 1"),
        (&["generate", "--eta-cutoff=-1"], "--eta-cutoff is -1, but must be"),
        (&["generate", "--top-a", "2"], "--top-a is 2, but must be from 0 to 1"),
        (&["generate", "--xtc-probability", "2"], "--xtc-probability is 2, but must be from 0 to 1"),
        (&["generate", "--xtc-threshold", "0"], "--xtc-threshold is 0, but must be above 0 and at most 1"),
        (&["generate", "--dry-multiplier=-1"], "--dry-multiplier is -1, but must be from 0 to 100"),
        (&["generate", "--dry-base", "nan"], "--dry-base is NaN, but must be from 1 to 10"),
        (
            &["generate", "--dry-allowed-length", "0"],
            "--dry-allowed-length is 0, but must be a whole number, from 1 to 50",
        ),
        (&["generate", "--dynatemp-range", "nan"], "--dynatemp-range is NaN, but must be from 0 to 100"),
        (&["generate", "--dynatemp-range", "1", "--dynatemp-exp", "0"], "--dynatemp-exponent is 0, but must be"),
        (
            &["generate", "--no-repeat-ngram-size", "0"],
            "--no-repeat-ngram-size is 0, but must be a whole number, 1 or more",
        ),
        (&["detect", "--key", "my.key", "--level", "0"], "'--level <P>': must be a number above 0 and below 1, not 0"),
        (&["bench", "detection", "--delete-words", "1"], "--delete-words is 1, but must be"),
        (&["bench", "loss", "--text", "my.key", "--window", "2048"], "--window must be 1 to 2047"),
        (&["bench", "detection", "--samples", "0"], "--samples is 0"),
    ] {
        folder.run(arguments).fails(said);
    }
    assert!(!folder.path("a.key").exists());
}

#[test]
fn a_prompt_longer_than_the_context() {
    let folder = Folder::new();
    let prompt = "word ".repeat(2100);
    folder.run(&["generate", &prompt, "--model", TALE_SMALL]).fails("but the model's context is 2048: shorten it");
    folder.run(&["generate", &prompt, "--model", TALE_SMALL, "--json"]).fails("shorten it to 2047");
}

/// The largest text may end inside a character.
#[test]
fn a_text_that_is_too_long_is_called_so() {
    let folder = Folder::new();
    folder.write("long.txt", &"é".repeat((32 << 20) + 1));
    folder.run(&["attack", "tabs", "long.txt"]).fails("long.txt is longer than 64 MiB");
}

/// Prompts that fill whole pages of memory too.
#[test]
fn no_tokens_can_be_requested() {
    let folder = Folder::new();
    for words in [63, 64, 127, 128] {
        let run = folder.run(&["generate", &"the ".repeat(words), "--model", TALE_SMALL, "-n", "0"]);
        assert_eq!((run.status, run.err.contains("panicked")), (0, false), "{words}: {run:?}");
    }
}

#[test]
fn experts_that_do_not_fit() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "other");
    let path = folder.path("other/tokenizer.json");
    let json = fs::read_to_string(&path).unwrap();
    let (a, b) = ("\"Ġthe\":", "\"Ġand\":");
    fs::write(&path, json.replace(a, "\"@\":").replace(b, a).replace("\"@\":", b)).unwrap();
    let steer = |rest: &[&str]| folder.run(&[&["generate", "--model", TALE_SMALL], rest].concat());
    let run = steer(&["--expert", "none", "--anti", TALE_SMALL]);
    run.fails("none is not a model");
    steer(&["--expert", "other", "--anti", TALE_SMALL]).fails("in one and");
    steer(&["--draft", "other"]).fails("the models have different tokenizers: token");
    steer(&["--draft", "none"]).fails("none is not a model");
    steer(&["--expert", TALE_SMALL, "--expert", TALE_SMALL, "--anti", TALE_SMALL]).fails("give one for each");
    let twice = ["--expert", TALE_SMALL, "--anti", TALE_SMALL, "--alpha", "1", "--alpha", "2"];
    steer(&twice).fails("--alpha is given 2 times for 1 experts");
    steer(&["--expert", TALE_SMALL, "--anti", TALE_SMALL, "--alpha", "nan"]).fails("alpha is NaN");
}

#[test]
fn a_schema_that_cannot_be_used() {
    let folder = Folder::new();
    let with = |schema: &str| {
        folder.write("a.schema.json", schema);
        folder.run(&["generate", "--model", TALE_SMALL, "--json-schema", "a.schema.json"])
    };
    let path = r#"{"type": "object", "properties": {"ages": {"type": "array", "not": {"uniqueItems": true}}}}"#;
    with(path).fails("#/properties/ages/not: \"uniqueItems\" below \"not\"");
    with(r#"{"$ref": "other.json"}"#).fails("leads out of the document");
    let large = r#"{"type": "integer", "multipleOf": 86400, "minimum": 1, "maximum": 900000}"#;
    let written: u64 = with(large).out.trim().parse().unwrap();
    assert!(written > 0 && written.is_multiple_of(86_400), "{written}");
    with(r#"{"type": "integer", "multipleOf": 4097}"#).fails("it may be at most 4096, or less where those zeros");
    with(r#"{"type": "string", "pattern": "(a"}"#).fails("\"pattern\" \"(a\": unclosed group");
    with(r#"{"type": "integer", "minimum": 3, "maximum": 2}"#).fails("no finite text obeys it");
    with(r#"{"type": "#).fails("a.schema.json: invalid JSON: EOF while parsing");
    with(&"[".repeat(100_000)).fails("invalid JSON: recursion limit");
    with("3").fails("a schema is an object, true or false");
    folder.run(&["generate", "--json-schema", "none.json"]).fails("cannot open none.json");
    assert_eq!(folder.run(&["generate", "--json-schema", "a.schema.json", "--regex", "a"]).status, 2);
    assert_eq!(folder.run(&["generate", "--whitespace", "free"]).status, 2);
    let stray = ["generate", "--model", TALE_SMALL, "--regex", "a", "--any-order"];
    folder.run(&stray).fails("the following required arguments were not provided: --json-schema <FILE|JSON>");
    let nowhere = ["generate", "--model", TALE_SMALL, "--json-schema", "a.schema.json", "--schemas", "nowhere"];
    folder.run(&nowhere).fails("the folder of schemas cannot be used: nowhere");
}

#[test]
fn penalties_and_devices_that_do_not_exist() {
    let folder = Folder::new();
    for (arguments, said) in [
        (&["--repetition-penalty", "0"][..], "--repetition-penalty is 0, but must be from 0.01 to 100"),
        (&["--presence-penalty", "nan"], "--presence-penalty is NaN, but must be from -100 to 100"),
        (&["--frequency-penalty=-1e9"], "--frequency-penalty is -1000000000, but must be from -100 to 100"),
        (&["--device", "gpu"], "cannot compute on \"gpu\": a device is cpu, cuda or cuda:1"),
    ] {
        folder.run(&[&["generate", "--model", TALE_SMALL], arguments].concat()).fails(said);
    }
    let run = folder.run(&["generate", "--model", TALE_SMALL, "--device", "cuda:99"]);
    assert_eq!((run.status, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.contains("error: cannot compute on \"cuda:99\""), "{run:?}");
}

#[test]
fn tokens_that_do_not_exist() {
    let folder = Folder::new();
    for (arguments, said) in [
        (&["--logit-bias", "4096=1"][..], "4096 is not a token of the model, whose ids are below 4096"),
        (&["--logit-bias", "5=nan"], "logit bias is NaN, but must be from -100 to 100"),
        (&["--logit-bias", "5=-101"], "logit bias is -101, but must be"),
        (&["--sequence-bias", "sea=1e9"], "logit bias is 1000000000, but must be"),
        (&["--sequence-bias", "=1"], "a text to forbid or bias, or a sequence breaker, is empty"),
        (&["--bad-words", ""], "a text to forbid or bias, or a sequence breaker, is empty"),
        (&["--dry-multiplier", "1", "--dry-sequence-breaker", ""], "or a sequence breaker, is empty"),
        (&["--suppress-tokens", "1,99999"], "99999 is not a token of the model"),
        (&["--forced-bos-token-id", "99999"], "99999 is not a token of the model"),
        (&["--forced-eos-token-id", "4096"], "4096 is not a token of the model"),
        (&["--forced-bos-token-id", "5", "--suppress-tokens", "5"], "the constraints contradict each other"),
        (&["--regex", "a", "--min-tokens", "9", "--json"], "the constraints contradict each other"),
    ] {
        folder.run(&[&["generate", "--model", TALE_SMALL], arguments].concat()).fails(said);
    }
    for (arguments, said) in [
        (&["--logit-bias", "5"][..], "there is no = before the bias"),
        (&["--logit-bias", "captain=1"], "\"captain\" is not the id of a token"),
        (&["--sequence-bias", "captain=much"], "\"much\" is not a number"),
        (&["--logprobs", "3"], "--json"),
        (&["--logprobs-mode", "raw", "--json"], "--logprobs"),
        (&["--suppress-tokens", "x"], "it must be a whole number"),
    ] {
        let run = folder.run(&[&["generate", "--model", TALE_SMALL], arguments].concat());
        assert!(run.status == 2 && run.out.is_empty() && run.err.contains(said), "{run:?}");
    }
}

#[test]
fn options_that_do_not_exist() {
    let folder = Folder::new();
    for arguments in [&["generate", "--no-such-option"][..], &["detect"], &["unknown"], &[]] {
        assert_eq!(folder.run(arguments).status, 2, "{arguments:?}");
    }
}

/// The message is one line, and suggests another spelling only if it is close.
#[test]
fn arguments_that_are_none_are_one_line() {
    let folder = Folder::new();
    for (arguments, said) in [
        (&["generate", "hi", "--mlock"][..], "unexpected argument '--mlock' found (see verdigris generate --help)"),
        (
            &["generate", "hi", "--temperatur", "1"],
            "unexpected argument '--temperatur' found; did you mean --temperature? (see verdigris generate --help)",
        ),
        (&["generate", "hi", "-ctk", "f16"], "unexpected argument '-ctk' found (see verdigris generate --help)"),
        (
            &["generate", "hi", "--chat", "What"],
            "unexpected argument 'What' found; put quotes around a prompt of several words (see verdigris generate \
             --help)",
        ),
        (&["key", "new"], "the following required arguments were not provided: <FILE> (see verdigris key new --help)"),
        (
            &["generate", "--json-schema", "true", "--whitespace", "foo"],
            "invalid value 'foo' for '--whitespace <STYLE>' [possible values: compact, spaced, optional, free] (see \
             verdigris generate --help)",
        ),
        (&["detekt"], "unrecognized subcommand 'detekt'; did you mean detect? (see verdigris --help)"),
    ] {
        let run = folder.run(arguments);
        assert_eq!((run.status, &*run.err), (2, &*format!("error: {said}\n")), "{arguments:?}");
    }
}
