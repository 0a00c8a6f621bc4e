//! The program from the user's side.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::support::{Folder, TALE_SMALL};
use serde_json::{Value, json};

#[test]
fn what_is_marked_is_found_and_nothing_else() {
    let folder = Folder::with_key();
    folder.write_private("other.key", &crate::support::KEY.replace("vg-c0ffee00", "vg-0ther000"));
    let write = |arguments: &[&str], file| {
        let run = folder
            .run(&[&["generate", "The captain", "--seed", "5", "--max-tokens", "200"], arguments].concat())
            .succeeds();
        folder.write(file, &run.out);
        run.out
    };
    let marked = write(&["--key", "my.key"], "marked.txt");
    let plain = write(&[], "plain.txt");
    assert_ne!(marked, plain);
    assert_eq!(write(&["--key", "my.key"], "again.txt"), marked, "a seed repeats a text");

    let run = folder.run(&["detect", "marked.txt", "--key", "my.key"]).done();
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
    let written = run.json();
    assert_eq!(written["tokens"].as_array().unwrap().len(), 200);
    assert_eq!((&written["stop"], &written["seed"]), (&"length".into(), &1.into()));
    folder.write("text.txt", written["text"].as_str().unwrap());
    let run = folder.run(&["detect", "text.txt", "--json", "--key", "my.key"]);
    let found = run.json();
    assert_eq!((run.status, &found["verdict"], &found["key_id"]), (0, &"marked".into(), &written["key_id"]));
    assert!(found["p"].as_f64().unwrap() < 1e-5 && found["log10_p"].as_f64().unwrap() < -5.0);
    let shown = folder.run(&["key", "show", "my.key", "--json"]).json();
    assert_eq!(shown["id"], written["key_id"]);
}

#[test]
fn a_text_takes_the_form_that_is_asked_for() {
    let folder = Folder::new();
    let write = |arguments: &[&str]| {
        let run = folder.run(&[&["generate", "--model", TALE_SMALL, "--seed", "3"], arguments].concat()).succeeds();
        run.out.strip_suffix('\n').unwrap().to_owned()
    };
    let choice = write(&["Is it?", "--choice", " yes", "--choice", " no", "--choice", " perhaps"]);
    assert!([" yes", " no", " perhaps"].contains(&&*choice), "{choice}");
    // Commas and spaces are part of a choice.
    assert_eq!(write(&["--choice", r#"["New York, NY"]"#]), "New York, NY");
    let choice = write(&["--choice", "New York, NY", "--choice", "[Bonn], Rhine"]);
    assert!(["New York, NY", "[Bonn], Rhine"].contains(&&*choice), "{choice}");
    assert_eq!(write(&["--regex", "[0-9]{4}"]).len(), 4);
    folder.write("s.json", r#"{"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 3, "maxItems": 3}"#);
    let json: Value = serde_json::from_str(&write(&["--json-schema", "s.json"])).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 3);
    // A penalty large enough to forbid earlier tokens.
    let run = write(&["--presence-penalty", "100", "--max-tokens", "100", "--json"]);
    let run: Value = serde_json::from_str(&run).unwrap();
    let tokens: Vec<u64> = run["tokens"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    let distinct: std::collections::HashSet<u64> = tokens.iter().copied().collect();
    assert!(tokens.len() > 50 && distinct.len() == tokens.len(), "{tokens:?}");
}

/// `--chat` uses the model's chat template, and fails for a model without one.
#[test]
fn a_conversation_is_a_prompt() {
    let folder = Folder::new();
    let run = folder.run(&["generate", "--chat", "Who are you?", "--max-tokens", "5"]);
    assert!(run.status == 2 && run.err.contains("no chat template"), "{run:?}");
    folder.copy_model(TALE_SMALL, "chat");
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{{ eos_token }}{% endfor %}assistant:";
    let config = json!({"eos_token": "<|endoftext|>", "chat_template": template});
    folder.write("chat/tokenizer_config.json", &config.to_string());
    let common = ["generate", "--model", "chat", "--max-tokens", "20", "--seed", "1", "--json"];
    let run = folder.run(&[&common[..], &["--chat", " Who<|endoftext|>? ", "--system", "Be brief."]].concat());
    let written = run.json();
    let length = |text: &str| folder.run(&[&common[..], &[text]].concat()).json()["prompt_tokens"].as_u64().unwrap();
    let parts = length("system: Be brief.") + length("user: Who<|endoftext|>?") + length("assistant:");
    assert_eq!(written["prompt_tokens"].as_u64().unwrap(), parts + 2, "two control tokens, and text");
}

/// Each text has a line of JSON, and is the text that its seed gives alone.
#[test]
fn several_texts_are_those_that_are_written_alone() {
    let folder = Folder::with_key();
    let common =
        ["generate", "The captain", "--max-tokens", "40", "--json", "--key", "my.key", "--regex", "[a-zA-Z ,.]*"];
    let mut texts = folder.run(&[&common[..], &["--seed", "8", "--texts", "3"]].concat()).lines();
    // Lines come in the order in which their texts end.
    texts.sort_by_key(|text| text["index"].as_u64());
    assert_eq!(texts.len(), 3);
    for (seed, text) in (8..).zip(&texts) {
        let alone = folder.run(&[&common[..], &["--seed", &seed.to_string()]].concat()).json();
        assert_eq!((&text["tokens"], &text["text"]), (&alone["tokens"], &alone["text"]));
        assert_eq!((&text["seed"], &text["stop"]), (&alone["seed"], &alone["stop"]));
    }
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
        "the distribution is the same, the random numbers are not"
    );
}

#[test]
fn a_new_key_has_the_form_of_all_keys() {
    let folder = Folder::new();
    let run = folder.run(&["key", "new", "new.key", "--dialect", "native"]).succeeds();
    let read = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let (mut new, old) = (read(&folder.read("new.key")), read(crate::support::KEY));
    assert_ne!((&new["secret"], &new["id"]), (&old["secret"], &old["id"]));
    assert!(run.out.contains(new["id"].as_str().unwrap()), "{run:?}");
    (new["secret"], new["id"]) = (old["secret"].clone(), old["id"].clone());
    // Fields that old keys lack: a check value, and the name of the model.
    assert_eq!(new.as_object_mut().unwrap().remove("check").unwrap().as_str().unwrap().len(), 16);
    let model = new["vocabulary"].as_object_mut().unwrap().remove("model");
    assert_eq!(model.unwrap(), "tale");
    assert_eq!(new, old);
}

#[test]
fn a_key_never_shows_its_secret() {
    let folder = Folder::with_key();
    let file = folder.read("my.key");
    let json: Value = serde_json::from_str(&file).unwrap();
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
fn the_kgw_dialect_writes_and_reads() {
    let folder = Folder::new();
    let run = folder.run(&["key", "new", "kgw.key", "--dialect", "kgw-simple-1", "--gamma", "0.5"]);
    assert!(run.out.contains("kgw, gamma 0.5, simple_1 (its secret is publicly known"), "{run:?}");
    let text = folder.run(&["generate", "--key", "kgw.key", "--seed", "1", "--max-tokens", "200"]).out;
    folder.write("text.txt", &text);
    assert_eq!(folder.run(&["detect", "text.txt", "--key", "kgw.key"]).status, 0);
}

/// The expert was tuned on plays: it predicts a play better than the model it was tuned from, and steering by it
/// improves the larger model.
#[test]
fn an_expert_steers_towards_what_it_knows() {
    let folder = Folder::new();
    let speech = "[Enter KING and ATTENDANTS]\n\nKING:\nWhat news, my lord? I pray thee, speak; for I\nHave \
        heard                   no word of thee this many a day.\n\nMESSENGER:\nMy liege, the queen is come; and with \
        her, sir,\n                  A noble train of lords and gentlemen.\n\n";
    folder.write("play.txt", &speech.repeat(3));
    let expert = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");
    let loss = |arguments: &[&str]| -> f64 {
        let bench = ["bench", "loss", "--text", "play.txt", "--window", "80", "--windows", "1", "--json"];
        folder.run(&[&bench, arguments].concat()).json()["loss"].as_f64().unwrap()
    };
    assert!(loss(&["--model", expert]) < loss(&["--model", TALE_SMALL]) - 0.3);
    let steered = loss(&["--expert", expert, "--anti", TALE_SMALL]);
    assert!(steered < loss(&[]) - 0.3, "{steered}");
    assert_eq!(loss(&["--expert", expert, "--anti", TALE_SMALL, "--alpha", "0"]), loss(&[]));
}

#[test]
fn nobody_is_told_of_a_reader_who_leaves_early() {
    let folder = Folder::new();
    let mut command = folder.command(&["generate", "--model", TALE_SMALL, "--max-tokens", "2000", "--seed", "1"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(141), ""));
    // The status gives no verdict if the verdict cannot be written.
    folder.write_private("my.key", crate::support::KEY);
    folder.write("plain.txt", &"The ship went out of the harbour with the tide, and nobody saw it again. ".repeat(3));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = folder.command(&["detect", "plain.txt", "--key", "my.key"]);
    assert_eq!(command.stdout(writer).status().unwrap().code(), Some(141));
}

#[test]
fn a_model_can_be_trained_and_used() {
    let folder = Folder::new();
    folder.write("corpus.txt", &"HAMLET:\nThe air bites shrewdly; it is very cold.\n\n".repeat(60));
    let train = ["train", "lm", "--init", TALE_SMALL, "--corpus", "corpus.txt", "--heldout", "corpus.txt"];
    let steps = ["--out", "expert", "--steps", "6", "--window", "64", "--batch", "2", "--warm-up", "1"];
    let run = folder.run(&[&train[..], &steps].concat()).done();
    for word in ["parameters     1262720", "steps          6", "held-out loss"] {
        assert!(run.out.contains(word), "{run:?}");
    }
    folder.run(&["generate", "HAMLET:", "--model", "expert", "--max-tokens", "20", "--seed", "1"]).done();
}

/// The main command of README.
#[test]
fn the_demo_shows_all_four_verdicts() {
    let run = Folder::new().run(&["demo"]).succeeds();
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

/// A folder with text files and JSON lines: a line for each text. Faulty ones are named, and the others are judged.
#[test]
fn many_texts_at_once() {
    let folder = Folder::with_key();
    let marked = folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "120"]).out;
    let plain = folder.run(&["generate", "--seed", "4", "--max-tokens", "120"]).out;
    fs::create_dir_all(folder.path("texts/more")).unwrap();
    folder.write("texts/a.txt", &marked);
    folder.write("texts/more/b.md", &plain);
    folder.write("texts/ignored.bin", "no text");
    let lines = [
        json!({"text": marked, "id": 1}).to_string(),
        "{\"text\": 7}".into(),
        "not json".into(),
        String::new(),
        json!({"other": "x"}).to_string(),
        json!({"text": "Short."}).to_string(),
    ];
    folder.write("texts/c.jsonl", &lines.join("\n"));
    let run = folder.run(&["detect", "texts", "--key", "my.key", "--json"]);
    assert_eq!(run.status, 0, "some are faulty, and some are marked: {run:?}");
    let found = run.lines();
    let verdicts: Vec<&str> = found.iter().map(|line| line["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["marked", "marked", "error", "error", "error", "too short", "not marked"]);
    for (i, said) in [(2, "is a number, not a string"), (3, "the line is not JSON"), (4, "choose one with --column")] {
        let error = found[i]["error"].as_str().unwrap();
        assert!(error.contains(said), "{error}");
    }
    assert!(found[3]["name"].as_str().unwrap().ends_with("c.jsonl:3"));
    let run = folder.run(&["detect", "texts/a.txt", "texts/more/b.md", "--key", "my.key"]);
    assert_eq!(run.status, 0);
    assert!(run.out.contains("2 texts: 1 marked, 1 not, 0 too short, 0 faulty"), "{run:?}");
    let column = folder.run(&["detect", "texts/c.jsonl", "--key", "my.key", "--column", "other"]);
    assert!(column.out.contains("too short") && column.status == 2, "{column:?}");
}

#[test]
fn parquet_columns() {
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    let folder = Folder::with_key();
    let marked = folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "120"]).out;
    let schema = "message m { optional binary answer (UTF8); required int32 n; }";
    let schema = std::sync::Arc::new(parquet::schema::parser::parse_message_type(schema).unwrap());
    let file = fs::File::create(folder.path("a.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let texts = [ByteArray::from(marked.as_str()), ByteArray::from("Short.")];
    column.typed::<ByteArrayType>().write_batch(&texts, Some(&[1, 0, 1]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<parquet::data_type::Int32Type>().write_batch(&[1, 2, 3], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let run = folder.run(&["detect", "a.parquet", "--column", "answer", "--key", "my.key"]);
    for said in
        ["a.parquet:1", "a.parquet:2: the column \"answer\" is empty here", "1 marked, 0 not, 1 too short, 1 faulty"]
    {
        assert!(run.out.contains(said), "{said}: {run:?}");
    }
    let run = folder.run(&["detect", "a.parquet", "--column", "n", "--key", "my.key"]);
    assert!(run.out.contains("does not hold strings"), "{run:?}");
    let run = folder.run(&["detect", "a.parquet", "--key", "my.key"]);
    assert!(run.out.contains("there is no column \"text\", only answer, n"), "{run:?}");
    let bytes = fs::read(folder.path("a.parquet")).unwrap();
    fs::write(folder.path("cut.parquet"), &bytes[..bytes.len() / 2]).unwrap();
    let run = folder.run(&["detect", "cut.parquet", "--key", "my.key"]);
    assert!(run.out.contains("cannot be read as Parquet") && run.status == 2, "{run:?}");
}

/// A report is a self-contained HTML file: colours, a plot and words, without scripts or links.
#[test]
fn a_report_is_one_file() {
    let folder = Folder::with_key();
    let text = folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "200"]).out;
    folder.write("text.txt", &format!("<script>alert(1)</script> {text}"));
    assert_eq!(folder.run(&["detect", "text.txt", "--key", "my.key", "--html", "report.html"]).status, 0);
    let html = folder.read("report.html");
    for said in [
        "This text carries the mark of the key",
        "<polyline",
        "prefers-color-scheme: dark",
        "class=\"g",
        "&lt;",
        "Anyone with the key",
    ] {
        assert!(html.contains(said), "{said}");
    }
    assert!(!html.contains("<script") && !html.contains("http"), "no scripts and no links");
    folder.run(&["detect", "text.txt", "--key", "my.key", "--html", "no/such/report.html"]).fails("cannot write");
}

/// The default mark is the one that leaves the model's distribution; options of green lists choose those.
#[test]
fn a_new_key_is_noise_unless_its_options_are_of_lists() {
    let folder = Folder::new();
    for (at, (options, scheme)) in [
        (&[][..], "native-gumbel, all of 4 tokens, 8 variants"),
        (&["--context", "min", "--variants", "2"], "native-gumbel, minimum over 4 tokens, 2 variants"),
        (&["--dialect", "native"], "native, gamma 0.25, minimum over 4 tokens"),
        (&["--strength", "strong"], "native, gamma 0.25, minimum over 4 tokens"),
        (&["--gamma", "0.5"], "native, gamma 0.5, minimum over 4 tokens"),
        (&["--hard"], "native, gamma 0.25, minimum over 4 tokens"),
        (&["--payload-bits", "16"], "native, gamma 0.25, minimum over 4 tokens, carries 16 bits"),
        (&["--context", "self-salted"], "native, gamma 0.25, self-salted over 4 tokens"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = format!("{at}.key");
        let run = folder.run(&[&["key", "new", &file][..], options].concat()).succeeds();
        assert!(run.out.contains(&format!("({scheme})")), "{options:?}: {}", run.out);
    }
    folder.run(&["key", "new", "x.key", "--dialect", "native-gumbel", "--delta", "2"]).fails("--delta is for dialects");
}

#[test]
fn a_ring_writes_with_todays_key_and_reads_with_all() {
    let folder = Folder::new();
    fs::create_dir(folder.path("ring")).unwrap();
    let new = |name: &str, rest: &[&str]| {
        let file = format!("ring/{name}.key");
        folder.run(&[&["key", "new", &file, "--id", name, "--dialect", "native"], rest].concat()).done();
    };
    new("old", &["--valid-until", "2020-12-31"]);
    new("now", &["--valid-from", "2021-01-01"]);
    new("next", &["--valid-from", "2999-01-01"]);
    let written = folder.run(&["generate", "--ring", "ring", "--seed", "1", "--max-tokens", "150", "--json"]).json();
    assert_eq!(written["key_id"], "now");
    folder.write("text.txt", written["text"].as_str().unwrap());
    let run = folder.run(&["detect", "text.txt", "--ring", "ring"]);
    assert!(run.status == 0 && run.out.contains("(now, level") && run.out.contains("3 looks"), "{run:?}");
    let run = folder.run(&["identify", "text.txt", "--ring", "ring", "--gammas", "0.5"]);
    assert!(run.status == 0 && run.out.contains("written with now: native, gamma 0.25"), "{run:?}");
    folder.run(&["generate", "--ring", "ring", "--tenant", "acme"]).fails("for the tenant acme");
    folder.run(&["key", "new", "x.key", "--valid-from", "2021-02-30"]).fails("is no date");
    folder
        .run(&["key", "new", "x.key", "--valid-from", "2021-02-02", "--valid-until", "2021-02-01"])
        .fails("would end");
}

#[test]
fn a_payload_there_and_back() {
    let folder = Folder::new();
    folder.run(&["key", "new", "n.key", "--payload-bits", "16"]);
    let write = ["generate", "--key", "n.key", "--seed", "1", "--max-tokens", "400", "--temperature", "1"];
    let text = folder.run(&[&write[..], &["--payload", "0xbeef"]].concat()).out;
    folder.write("text.txt", &text);
    let run = folder.run(&["payload", "text.txt", "--key", "n.key"]);
    assert!(run.status == 0 && run.out.contains("0xbeef"), "{run:?}");
    let run = folder.run(&["detect", "text.txt", "--key", "n.key"]);
    assert!(run.status == 0 && run.out.contains("65536 looks"), "{run:?}");
    folder.run(&write).fails("carries a payload: say which one to write");
    folder.run(&[&write[..], &["--payload", "0x12345"]].concat()).fails("has more than 16 bits");
    let run = folder.run(&[&write[..], &["--payload", "beef"]].concat());
    assert!(run.status == 2 && run.err.contains("a payload is a whole number"), "{run:?}");
    folder.run(&["key", "new", "m.key"]);
    folder.run(&["payload", "text.txt", "--key", "m.key"]).fails("carries no payload");
    folder.run(&["key", "new", "o.key", "--payload-bits", "16", "--gamma", "0.5"]).fails("has gamma 0.25");
}

/// Each row is what `detect` finds in the edited text, and a mark that no detector can find is reported as lost.
#[test]
fn a_mark_survives_some_edits() {
    let folder = Folder::with_key();
    let text = folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "200"]).out;
    folder.write("text.txt", &text);
    let of_key = ["robustness", "text.txt", "--key", "my.key"];
    let tested = folder.run(&[&of_key[..], &["--json"]].concat()).succeeds().json();
    let rows = tested["edits"].as_array().unwrap();
    // Five layouts and, without human text, eight other edits with four strengths each.
    assert_eq!((rows.len(), &tested["tested"]), (5 + 8 * 4, &rows.len().into()), "{tested}");
    assert!(rows.iter().all(|row| row["edit"] != "copy-paste"), "{tested}");
    for (edit, strength) in [("deletion", "0.2"), ("typos", "0.4"), ("zero-width", "0.4"), ("wrap", "1")] {
        let printed = ["robustness", "text.txt", "--edit", edit, "--strength", strength, "--text"];
        let edited = folder.run(&printed).succeeds().out;
        assert_eq!(edited, folder.run(&["attack", edit, "text.txt", "--strength", strength]).succeeds().out);
        assert_ne!(edited, text);
        folder.write("edited.txt", &edited);
        let found = folder.run(&["detect", "edited.txt", "--key", "my.key", "--json"]).json();
        let row = rows.iter().find(|row| row["edit"] == edit && row["strength"].to_string().starts_with(strength));
        let row = row.unwrap_or_else(|| panic!("{edit} {strength}: {tested}"));
        for field in ["verdict", "tokens", "scored", "z", "log10_p"] {
            assert_eq!(row[field], found[field], "{edit} {strength}");
        }
    }
    let lost = folder.run(&[&of_key[..], &["--edit", "deletion", "--strength", "0.9,0.1"]].concat()).succeeds().out;
    assert!(lost.contains("the mark is found after 1 of 2 edits (vg-c0ffee00, level 0.00001)"), "{lost}");
    folder.write("plain.txt", &folder.run(&["generate", "--seed", "4", "--max-tokens", "1500"]).out);
    let pasted = ["--edit", "copy-paste", "--human", "plain.txt", "--strength", "0.93"];
    let pasted = folder.run(&[&of_key[..], &pasted].concat()).succeeds().out;
    assert!(pasted.contains("marked in part") && pasted.contains("1 of 1 edits"), "{pasted}");
    let plain = ["robustness", "plain.txt", "--key", "my.key", "--edit", "case"];
    let plain = folder.run(&plain);
    assert!(plain.status == 1 && plain.out.contains("after 0 of 4 edits"), "{plain:?}");
    folder.run(&[&of_key[..], &["--strength", "2"]].concat()).fails("--strength is 2");
    folder.run(&[&of_key[..], &["--edit", "copy-paste"]].concat()).fails("--human FILE");
    folder.run(&[&of_key[..], &["--edit", "erase"]].concat()).fails("erase");
    folder.run(&["robustness", "text.txt"]).fails("--key");
    folder.run(&["robustness", "text.txt", "--text"]).fails("give one --edit and one --strength");
    folder.write("short.txt", "The end.");
    folder.run(&["robustness", "short.txt", "--key", "my.key"]).fails("too short to decide");
}

/// The default build has no ledger, and says how to get one.
#[cfg(not(feature = "ledger"))]
#[test]
fn a_ledger_needs_its_feature() {
    let folder = Folder::new();
    folder.run(&["ledger", "list", "a.ledger"]).fails("build it with `--features ledger`");
    for command in [&["generate", "-n", "3"][..], &["serve", "--port", "0"]] {
        let run = folder.run(&[command, &["--ledger", "a.ledger"]].concat());
        run.fails("--ledger is not part of this program: build it with `--features ledger`");
    }
    assert!(!folder.path("a.ledger").exists());
}

/// Changes to characters are repaired, changes to words are not.
#[test]
fn attacks_and_repairs() {
    let folder = Folder::with_key();
    let text = folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "200"]).out;
    folder.write("text.txt", &text);
    for attack in ["homoglyphs", "zero-width"] {
        folder.write("attacked.txt", &folder.run(&["attack", attack, "text.txt", "--strength", "0.4"]).out);
        let run = folder.run(&["detect", "attacked.txt", "--key", "my.key"]);
        assert!(run.status == 0 && run.out.contains("repaired"), "{attack}: {run:?}");
        assert_eq!(folder.run(&["detect", "attacked.txt", "--key", "my.key", "--no-repair"]).status, 1);
    }
    folder.run(&["attack", "copy-paste", "text.txt"]).fails("--human FILE");
    for attack in ["deletion", "case", "zero-width"] {
        let run = folder.run(&["attack", attack, "text.txt", "--human", "text.txt"]);
        run.fails(&format!("--human is for copy-paste and substitution, not for {attack}: leave it out"));
    }
    let human = |attack| folder.run(&["attack", attack, "text.txt", "--human", "text.txt"]);
    assert_eq!(["copy-paste", "substitution"].map(|attack| human(attack).status), [0, 0]);
    folder.run(&["attack", "deletion", "text.txt", "--strength", "2"]).fails("--strength is 2");
    let weighed = folder.run(&["detect", "text.txt", "--key", "my.key", "--weigh", "likelihood-ratio"]);
    assert_eq!(weighed.status, 0, "{weighed:?}");
}

/// A text is called not marked only if a mark in it would be detectable.
#[test]
fn a_text_of_little_choice_is_not_called_unmarked() {
    let folder = Folder::with_key();
    for (temperature, tokens, verdict, status) in
        [("0.1", "16", "not enough evidence", 2), ("0.1", "60", "not marked", 1), ("1", "60", "not marked", 1)]
    {
        let write = ["generate", "The captain", "--seed", "3", "--max-tokens", tokens, "--temperature", temperature];
        folder.write("text.txt", &folder.run(&write).out);
        let detect = ["detect", "text.txt", "--key", "my.key"];
        let plain = folder.run(&detect);
        assert!(plain.status == 1 && plain.out.contains("not marked"), "{plain:?}");
        let weigh = [&detect[..], &["--weigh", "likelihood-ratio", "--temperature", temperature]].concat();
        let page = folder.run(&weigh);
        assert!(page.status == status && page.out.contains(verdict) && page.out.contains("could be"), "{page:?}");
        let run = folder.run(&[&weigh[..], &["--json"]].concat());
        let line = run.json();
        assert_eq!((run.status, line["verdict"].as_str()), (status, Some(verdict)), "{run:?}");
        let expected = line["expected_log10_p"].as_f64().unwrap();
        assert_eq!(expected > -5.0, status == 2, "{run:?}");
    }
}

/// A mark applied only where the entropy is high is detected best with the same threshold.
#[test]
fn a_threshold_of_entropy_is_written_and_read() {
    let folder = Folder::with_key();
    let write = ["generate", "The captain", "--key", "my.key", "--seed", "3", "--max-tokens", "200"];
    folder.write("text.txt", &folder.run(&[&write[..], &["--entropy-threshold", "4"]].concat()).out);
    let log10_p = |more: &[&str]| {
        let detect = ["detect", "text.txt", "--key", "my.key", "--json"];
        folder.run(&[&detect, more].concat()).json()["log10_p"].as_f64().unwrap()
    };
    let (plain, all) = (log10_p(&[]), log10_p(&["--weigh", "sweet", "--entropy-threshold", "0"]));
    let known = log10_p(&["--weigh", "sweet", "--entropy-threshold", "4"]);
    assert!(known < plain - 2.0 && known < all - 2.0, "{known} with the threshold, {plain} and {all} without");

    folder.run(&["generate", "--entropy-threshold", "1"]).fails("a key of green lists");
    folder.run(&["key", "new", "noise.key", "--dialect", "native-gumbel"]);
    folder.run(&["generate", "--key", "noise.key", "--entropy-threshold", "1"]).fails("a key of green lists");
    folder.run(&["generate", "--key", "my.key", "--entropy-threshold=-1"]).fails("the entropy threshold is -1");
}

/// Keys of other systems are imported from a file, and missing values are reported.
#[test]
fn keys_of_other_systems() {
    let folder = Folder::new();
    folder.write("key.txt", "0x0123456789abcdef\n");
    let run = folder.run(&["key", "new", "vllm.key", "--dialect", "vllm", "--import", "key.txt"]);
    assert!(run.status == 0 && run.out.contains("vllm, after 4 tokens"), "{run:?}");
    let text =
        folder.run(&["generate", "--key", "vllm.key", "--seed", "1", "--max-tokens", "150", "--temperature", "1"]).out;
    folder.write("text.txt", &text);
    assert_eq!(folder.run(&["detect", "text.txt", "--key", "vllm.key"]).status, 0);
    folder.run(&["generate", "--key", "vllm.key", "--temperature", "0"]).done();
    folder.run(&["generate", "--key", "vllm.key", "--mark-after=-1"]).fails("is -1, but must be a number of 0 or more");
    folder.run(&["generate", "--mark-after", "1"]).fails("needs a key");
    folder.run(&["key", "new", "a.key", "--dialect", "vllm"]).fails("--import FILE");
    folder.write("bad.txt", "secret words");
    folder
        .run(&["key", "new", "a.key", "--dialect", "vllm", "--import", "bad.txt"])
        .fails("bad.txt: a key is a whole number of 64 bits");
    folder.run(&["key", "new", "a.key", "--dialect", "sglang-dual", "--hash-key", "1"]).fails("sglang-dual takes 16");
    folder.run(&["key", "new", "a.key", "--dialect", "kgw", "--seeding", "simple_2"]).fails("is not a seeding scheme");
    folder.run(&["key", "new", "a.key", "--dialect", "sbw", "--seeding", "x"]).fails("is not a seeding scheme");
    folder.run(&["key", "new", "a.key", "--hash-key", "5"]).fails("our own make their secrets");
    for dialect in
        ["native-gumbel", "tgi", "hugging-face", "unigram", "sbw", "three-bricks-maryland", "three-bricks-openai"]
    {
        folder.run(&["key", "new", &format!("{dialect}.key"), "--dialect", dialect]).done();
    }
}

#[test]
fn help_has_a_help() {
    let folder = Folder::new();
    for arguments in [&["help", "--help"][..], &["help", "-h"], &["key", "help", "--help"]] {
        let run = folder.run(arguments);
        assert!(run.status == 0 && run.out.contains("Usage:"), "{arguments:?}: {run:?}");
    }
}
