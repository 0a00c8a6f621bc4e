//! Constrained texts, through the built program.

use serde_json::json;

use crate::support::{Folder, TALE_SMALL};

const EXPERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");

fn regex(folder: &Folder, pattern: &str, seed: &str) -> crate::support::Run {
    folder.run(&["generate", "It", "--regex", pattern, "--seed", seed, "--temperature", "1", "--max-tokens", "40"])
}

/// Anchors and word boundaries constrain their neighbours: `\b` after `cat` forbids `cats`.
#[test]
fn expressions_that_look_around_are_obeyed() {
    let folder = Folder::new();
    for (pattern, texts) in [
        ("(cat|dog)\\b(s)?", &["cat", "dog"][..]),
        ("(ab|cd$)7", &["ab7"]),
        ("\\B-|x\\b|\\By", &["-", "x"]),
        ("(?m)a$\\n^b", &["a\nb"]),
    ] {
        for seed in ["1", "2", "3"] {
            let run = regex(&folder, pattern, seed);
            assert!(run.status == 0 && texts.contains(&run.out.trim_end_matches('\n')), "{pattern:?}: {run:?}");
        }
    }
    let run = regex(&folder, "[a-z]{2,4}\\b [a-z]+\\b", "1");
    assert!(run.status == 0 && run.out.trim().split(' ').count() == 2, "{run:?}");
    for pattern in ["ab$cd", "a^b", "\\Bfoo", "foo\\bbar"] {
        regex(&folder, pattern, "1").fails("no text matches the regular expression");
    }
}

/// A schema with fourteen required names: more bytes than the token limit, but far fewer tokens.
fn record() -> String {
    let names: Vec<String> = (0..14).map(|i| format!("\"field_number_{i}\"")).collect();
    let properties: Vec<String> = names.iter().map(|name| format!("{name}: {{\"type\": \"string\"}}")).collect();
    format!(
        "{{\"type\": \"object\", \"required\": [{}], \"properties\": {{{}}}, \"additionalProperties\": false}}",
        names.join(", "),
        properties.join(", ")
    )
}

/// JSON is complete whenever the token limit allows it, whatever the other options are.
#[test]
fn json_is_whole_where_there_is_room_for_it() {
    let folder = Folder::with_key();
    folder.write("record.json", &record());
    folder.write_private("hard.key", &crate::support::KEY.replace("{\n    \"soft\": 2.0\n  }", "\"hard\""));
    let write = |more: &[&str]| {
        let form = ["generate", "A record: ", "--json-schema", "record.json", "--temperature", "1"];
        folder.run(&[&form[..], more].concat())
    };
    for more in [
        &["--seed", "1"][..],
        &["--seed", "2", "--key", "hard.key"],
        &["--seed", "3", "--draft", TALE_SMALL, "--max-tokens", "200"],
        &["--seed", "4", "--expert", EXPERT, "--anti", TALE_SMALL, "--max-tokens", "190"],
        &["--seed", "5", "--texts", "3", "--any-order", "--json"],
        &["--seed", "6", "--canonical"],
    ] {
        let run = write(more);
        // Values that were cut for lack of room are said to be.
        let is_closed = run.status == 3 && run.err.contains("closed by the constraint when its tokens ran out");
        assert!(run.status == 0 || is_closed, "{more:?}: {run:?}");
        let texts: Vec<String> = match more.contains(&"--json") {
            true => run.out.lines().map(text_of).collect(),
            false => vec![run.out],
        };
        for text in texts {
            let value: serde_json::Value =
                serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"));
            assert_eq!(value.as_object().map(|fields| fields.len()), Some(14), "{text}");
        }
    }
    // Too few tokens for any such text: refused before anything is generated.
    assert_eq!(write(&["--seed", "7", "--max-tokens", "20"]).status, 2);
}

fn text_of(line: &str) -> String {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    line["text"].as_str().unwrap().to_owned()
}

/// Constructs that no automaton supports are named in the error.
#[test]
fn expressions_that_no_automaton_follows_are_named() {
    let folder = Folder::new();
    for (pattern, said) in [
        ("(?P<t>a)(?P=t)", "has a backreference at character 9, which is not supported"),
        ("(a)\\1", "has a backreference at character 4"),
        ("a(?>b)", "has an atomic group at character 2"),
        ("a(?R)?b", "has recursion at character 2"),
        ("(a)?(?(1)b|c)", "has a conditional group at character 5"),
        ("(?=a)b", "has a look-ahead at character 1"),
        ("a(?<!b)", "has a look-behind at character 2"),
    ] {
        regex(&folder, pattern, "1").fails(said);
    }
}

/// Grammars in each language, and choices from a file, are obeyed, and their faults name the line.
#[test]
fn grammars_and_choices_come_from_files() {
    let folder = Folder::new();
    let choices: String = (0..100_000u32).map(|i| format!("item {}\n", i.wrapping_mul(2_654_435_761))).collect();
    folder.write("choices.txt", &choices);
    folder.write("sum.gbnf", "root ::= root \"+\" n | n\nn ::= [0-9]{1,2}\n");
    folder.write("sum.ebnf", "root ::= n\n  (\"+\" n){0,3}\nn ::= Regex(\"[0-9]{1,2}\")");
    folder.write("sum.lark", "start: start \"+\" N | N\nN: /[0-9]/ ~ 1..2\n");
    let write = |options: &[&str]| {
        let common = ["generate", "It is", "--temperature", "1", "--max-tokens", "30", "--seed", "1"];
        folder.run(&[&common[..], options].concat())
    };
    for file in ["sum.gbnf", "sum.ebnf", "sum.lark"] {
        let run = write(&["--grammar", file]);
        let is_sum = run.out.trim_end().split('+').all(|n| matches!(n.len(), 1..=2) && n.parse::<u32>().is_ok());
        assert!(run.status == 0 && is_sum, "{file}: {run:?}");
    }
    let run = write(&["--choices", "choices.txt"]);
    assert!(run.status == 0 && choices.lines().any(|choice| choice == run.out.trim_end()), "{run:?}");
    folder.write("sum.txt", "root ::= \"1\"");
    assert_eq!(write(&["--grammar", "sum.txt", "--grammar-language", "gbnf"]).out.trim_end(), "1");
    write(&["--grammar", "sum.txt"]).fails("name the file .lark, .gbnf or .ebnf");
    folder.write("bad.lark", "start: A\nA: b\nb: \"c\"");
    write(&["--grammar", "bad.lark"]).fails("the grammar is wrong at line 2, column 4");
    folder.write("token.lark", "start: <|nothing|>");
    write(&["--grammar", "token.lark"]).fails("<|nothing|>, which is not a control token of the model");
}

/// A text that ends with a control token is complete, also if that was the last token that it could have.
#[test]
fn texts_with_control_tokens_are_complete_when_their_tokens_are_used_up() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "teller");
    folder.add_control_tokens("teller", &["<|sign|>"]);
    folder.write("signed.gbnf", "root ::= \"The captain\" <|sign|>");
    let write = |more: &[&str]| {
        let fixed = ["generate", "Once", "--model", "teller", "--grammar", "signed.gbnf", "--json", "--seed", "1"];
        folder.run(&[&fixed, more].concat())
    };
    let whole = write(&[]).done().json();
    let tokens = whole["tokens"].as_array().unwrap().len();
    assert_eq!((&whole["stop"], &whole["complete"]), (&json!("end"), &json!(true)), "{whole}");
    let used_up = write(&["--max-tokens", &tokens.to_string()]).done().json();
    assert_eq!((&used_up["tokens"], &used_up["complete"]), (&whole["tokens"], &json!(true)), "{used_up}");
    assert_eq!(used_up["stop"], "length", "{used_up}");
    write(&["--max-tokens", "1"]).fails("raise --max-tokens to 3");
}
