//! Detection in texts whose constraint is given.

use crate::support::Folder;
use crate::support::detection::{detect, verdicts};
use serde_json::{Value, json};

const CREW: &str = r#"{"type": "array", "minItems": 3, "items": {"type": "object",
    "required": ["name", "rank", "ship_of_service", "years_at_sea"], "properties": {
    "name": {"type": "string", "minLength": 3, "maxLength": 24}, "rank": {"enum": ["captain", "mate", "cook"]},
    "ship_of_service": {"type": "string", "minLength": 3, "maxLength": 24}, "years_at_sea": {"type": "integer"}}}}"#;

/// If the constraint of a text is given, only its free tokens are scored, which finds the mark more surely.
#[test]
fn a_form_leaves_only_choices_to_be_scored() {
    let folder = Folder::with_key();
    folder.write("crew.schema.json", CREW);
    let form = ["--json-schema", "crew.schema.json", "--closed", "--whitespace", "spaced"];
    let write = ["generate", "--key", "my.key", "--seed", "4", "--max-tokens", "200", "--temperature", "1"];
    let text = folder.run(&[&write[..], &form].concat()).out;
    folder.write("crew.json", &text);
    let found = |rest: &[&str]| {
        let run = detect(&folder, &[&["crew.json", "--json"], rest].concat());
        run.lines().remove(0)
    };
    let (plain, knowing) = (found(&[]), found(&form));
    assert!(plain.get("forced").is_none() && plain.get("counted").is_none(), "{plain}");
    let log10_p = |line: &Value| line["log10_p"].as_f64().unwrap();
    assert!(log10_p(&knowing) < log10_p(&plain) - 1.0, "{knowing} {plain}");
    assert!(knowing["forced"].as_u64().unwrap() > 30, "{knowing}");
    // The names of properties are forced, their values are not.
    let counted: Vec<[usize; 2]> = serde_json::from_value(knowing["counted"].clone()).unwrap();
    assert_eq!(counted.len() as u64, knowing["scored"].as_u64().unwrap());
    let is_counted = |at: usize| counted.iter().any(|&[start, end]| (start..end).contains(&at));
    for (at, name) in text.match_indices("ship_of_service") {
        assert!((at + 1..at + name.len()).all(|at| !is_counted(at)), "{at} {counted:?} {text}");
    }
    assert!(text.match_indices("\"name\": \"").any(|(at, name)| is_counted(at + name.len() + 3)), "{counted:?} {text}");
    let schema = found(&[&["--json-schema", CREW], &form[2..]].concat());
    assert_eq!(schema, knowing, "the schema itself may be given");
    // The same with `--weigh`.
    let weighed = found(&[&["--weigh", "likelihood-ratio"], &form[..]].concat());
    assert!(log10_p(&weighed) < log10_p(&plain) - 1.0 && weighed["scored"] != plain["scored"], "{weighed} {plain}");
    let page = detect(&folder, &[&["crew.json"], &form[..]].concat());
    assert_eq!(page.status, 0, "{page:?}");

    // A truncated text, and one line of several.
    folder.write("cut.json", &text[..text.len() / 2]);
    assert_eq!(detect(&folder, &[&["cut.json", "--json"], &form[..]].concat()).lines().len(), 1);
    folder.write("many.jsonl", &format!("{}\n{}\n", json!({"text": text}), json!({"text": "Once there was a sea."})));
    let run = detect(&folder, &[&["many.jsonl", "--json"], &form[..]].concat());
    assert_eq!(verdicts(&run)[1], "error", "{run:?}");
    assert_eq!(log10_p(&run.lines()[0]), log10_p(&knowing));
    let error = run.lines()[1]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("the text breaks the constraint at byte 0: "), "{error}");
    // With a constraint, a JSON array is one text, not a list of texts.
    folder.write("names.json", "[\"The Old Ship\", \"The Red Sea\", \"The Whale\"]\n");
    let names = r#"{"type": "array", "items": {"type": "string"}}"#;
    let run = detect(&folder, &["names.json", "--json", "--json-schema", names]);
    assert_eq!((run.lines().len(), run.lines()[0]["name"].clone()), (1, json!("names.json")), "{run:?}");

    folder.write("line.txt", "The captain of the ship said yes\n");
    let regex = |pattern: &str| detect(&folder, &["line.txt", "--json", "--regex", pattern]);
    let line = regex("The (captain|mate) of the ship said (yes|no)").lines().remove(0);
    assert_eq!(line["verdict"], "too short", "{line}");
    assert!(line["error"].as_str().unwrap().contains("1 tokens can be scored"), "{line}");
    assert_eq!(verdicts(&regex("The mate.*")), ["error"]);
    detect(&folder, &["line.txt", "--regex", "The mate.*"]).fails("line.txt: the text breaks the constraint at byte");
    detect(&folder, &["line.txt", "--regex", "a{2"]).fails("the regular expression is wrong");
    let alone = detect(&folder, &["line.txt", "--closed"]);
    assert!(alone.status == 2 && alone.err.contains("--json-schema"), "{alone:?}");
}

/// A constraint too large to follow is an error for the text that needs it, and does not affect other texts.
#[test]
fn a_verdict_does_not_depend_on_the_texts_before_it() {
    let folder = Folder::with_key();
    let code = |i: u32| json!({"type": "string", "pattern": "^([a-z][a-z])*$", "maxLength": 1000 + i});
    let codes: Vec<Value> = (0..3000).map(code).collect();
    let schema = json!({"properties": {"name": {"type": "string"}, "code": {"anyOf": codes},
        "ship": {"enum": ["sloop", "brig"]}, "year": {"type": "integer"}}});
    folder.write("crew.schema.json", &schema.to_string());
    let (coded, short) = (
        r#"{"name":"x","code":"abcd"}"#,
        r#"{"name":"The captain of the old ship and the sea","ship":"brig","year":1851}"#,
    );
    let judged = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| json!({"text": text}).to_string()).collect();
        folder.write("texts.jsonl", &texts.join("\n"));
        detect(&folder, &["texts.jsonl", "--json", "--json-schema", "crew.schema.json"]).lines()
    };
    let fields = |line: &Value| ["verdict", "scored", "forced", "log10_p", "counted"].map(|field| line[field].clone());
    let alone = judged(&[short]).remove(0);
    assert!(alone["forced"].as_u64().unwrap() > 0, "{alone}");
    for texts in [[coded, short], [short, coded]] {
        for (text, line) in texts.iter().zip(judged(&texts)) {
            if *text == short {
                assert_eq!(fields(&line), fields(&alone));
                continue;
            }
            let error = line["error"].as_str().unwrap_or_else(|| panic!("{line}"));
            assert!(line["verdict"] == "error" && error.contains("cannot be followed from byte"), "{line}");
            assert!(error.contains("at #/properties/code") && error.contains("without the constraint"), "{line}");
        }
    }
}
