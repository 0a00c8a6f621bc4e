//! `POST /detect`: the results of `verdigris detect --json`, over HTTP.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::Folder;
use crate::support::server::Server;

struct World {
    folder: Folder,
    server: Server,
    marked: String,
    plain: String,
}

fn world() -> World {
    let (folder, server) = Server::marking(&[]);
    let write = |watermarking: bool| {
        let body = json!({
            "prompt": "The captain", "max_tokens": 250, "ignore_eos": true, "seed": 5, "watermarking": watermarking,
        });
        let text = server.post("/v1/completions", &body).json()["choices"][0]["text"].as_str().unwrap().to_owned();
        text.trim().to_owned()
    };
    let (marked, plain) = (write(true), write(false));
    World { folder, server, marked, plain }
}

/// The result of the program for a text in a file.
fn of_the_program(world: &World, text: &str, options: &[&str]) -> Value {
    world.folder.write("text.txt", text);
    world.folder.run(&[&["detect", "text.txt", "--key", "my.key", "--json"], options].concat()).json()
}

/// Every field that the program prints is in the answer, with the same value.
#[test]
fn it_says_what_the_program_says() {
    let world = world();
    let long = format!("{} {} {}", world.plain, world.marked, world.plain);
    let repaired = world.marked.replace(' ', "\u{a0}");
    let upper = world.plain.to_uppercase();
    let schema = r#"{"type": "array", "items": {"type": "integer"}}"#;
    let form = json!({"schema": serde_json::from_str::<Value>(schema).unwrap()});
    let cases: [(&str, &[&str], Value); 9] = [
        (&world.marked, &[], json!({})),
        (&world.plain, &[], json!({})),
        ("The sea.", &[], json!({})),
        (&repaired, &[], json!({})),
        (&long, &["--windows"], json!({"windows": true})),
        (&long, &["--level", "1e-300"], json!({"level": 1e-300})),
        (&upper, &[], json!({})),
        ("[1, 20, 300]\n", &["--json-schema", schema], form.clone()),
        ("yes", &["--choice", "yes", "--choice", "no"], json!({"choice": ["yes", "no"]})),
    ];
    for (text, options, more) in cases {
        let theirs = of_the_program(&world, text, options);
        let mut body = json!({"text": text});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = world.server.post("/detect", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let ours = answer.json();
        for (name, value) in theirs.as_object().unwrap() {
            match name.as_str() {
                // A request has no file name, and hints name options of the program.
                "name" => assert!(ours.get("name").is_none()),
                "hint" => assert!(ours["hint"].is_string(), "{ours}"),
                _ => assert_eq!(&ours[name], value, "{name} of {text:?} with {options:?}"),
            }
        }
        assert_eq!(ours["p_value"], theirs["p"]);
        assert_eq!(ours["num_scored_tokens"], theirs["scored"]);
        let verdict = theirs["verdict"].as_str().unwrap();
        assert_eq!(ours["is_watermarked"], verdict.starts_with("marked"), "{ours}");
    }
    // A text that does not match the constraint is refused.
    let refused = world.server.post("/detect", &json!({"text": "[1, x]", "schema": form["schema"]}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("another_form")));
}

#[test]
fn tokens_are_told_of_one_by_one() {
    let world = world();
    let text = format!("{} \u{1f600}\u{e9}", world.marked);
    let found = world.server.post("/detect", &json!({"text": text, "tokens": true, "course": true})).json();
    let marks = found["token_marks"].as_array().unwrap();
    assert_eq!(marks.len() as u64, found["tokens"].as_u64().unwrap());
    let counted: Vec<&Value> = marks.iter().filter(|mark| mark["mark"] == "counted").collect();
    assert_eq!(counted.len() as u64, found["scored"].as_u64().unwrap());
    let green = counted.iter().filter(|mark| mark["green"] == true).count();
    assert_eq!(green as f64, found["score"].as_f64().unwrap());
    for mark in marks {
        let range = mark["start"].as_u64().unwrap() as usize..mark["end"].as_u64().unwrap() as usize;
        assert_eq!(text.get(range), mark["text"].as_str(), "{mark}");
    }
    // The last point of the course is the result for the whole text, each other point that of the text up to there.
    let course = found["course"].as_array().unwrap();
    let last = course.last().unwrap();
    for field in ["tokens", "scored", "z", "log10_p"] {
        assert_eq!(last[field], found[field], "{field}");
    }
    assert_eq!(course.len(), counted.len());
    let middle = &course[course.len() / 2];
    let count = middle["tokens"].as_u64().unwrap() as usize;
    let ids = world.server.post("/tokenize", &json!({"prompt": text, "add_special_tokens": false})).json();
    let ids = ids["tokens"].as_array().unwrap();
    let part = world.server.post("/detect", &json!({"token_ids": ids[..count]})).json();
    for field in ["tokens", "scored", "z", "log10_p"] {
        assert_eq!(middle[field], part[field], "{field}");
    }
    // Given as token ids, the text has the same result.
    let by_ids = json!({"token_ids": ids, "tokens": true, "course": true, "windows": true});
    let by_ids = world.server.post("/detect", &by_ids).json();
    assert_eq!((&by_ids["token_marks"][3], &by_ids["score"]), (&found["token_marks"][3], &found["score"]));
    assert!(by_ids["passages"].as_array().is_some_and(|passages| !passages.is_empty()), "{}", by_ids["passages"]);
}

#[test]
fn what_it_does_not_do_is_refused() {
    let world = world();
    let many = vec!["a"; 1001];
    let long = "word ".repeat(60_000);
    for (body, param, code) in [
        (json!({}), json!("text"), "missing_field"),
        (json!({"text": "a", "texts": ["b"]}), json!("text"), "contradiction"),
        (json!({"text": "a", "token_ids": [1]}), json!("text"), "contradiction"),
        (json!({"texts": many}), json!("texts"), "invalid_value"),
        (json!({"texts": ["a", 3]}), json!("texts[1]"), "invalid_type"),
        (json!({"text": 3}), json!("text"), "invalid_type"),
        (json!({"token_ids": [99999999]}), json!("token_ids"), "invalid_value"),
        (json!({"text": "a", "key_id": "other"}), json!("key_id"), "unknown_key"),
        (json!({"text": "a", "level": 2}), json!("level"), "invalid_value"),
        (json!({"text": "a", "windows": "yes"}), json!("windows"), "invalid_type"),
        (json!({"text": "a", "colour": true}), json!("colour"), "unknown_field"),
        (json!({"text": "a", "regex": "("}), json!("regex"), "invalid_regex"),
        (json!({"text": "a", "choice": []}), json!("choice"), "invalid_choice"),
        (json!({"text": "a", "schema": "{"}), json!("schema"), "invalid_json_schema"),
        (json!({"text": "a", "schema": {"type": "nothing"}}), json!("schema"), "invalid_json_schema"),
        (json!({"text": "a", "schema": {}, "regex": "a"}), json!("schema"), "two_constraints"),
        (json!({"text": long, "tokens": true}), json!("tokens"), "too_many_tokens"),
    ] {
        let answer = world.server.post("/detect", &body);
        let error = &answer.json()["error"];
        let shown = body.to_string().chars().take(80).collect::<String>();
        assert_eq!((answer.status, &error["param"], &error["code"]), (400, &param, &json!(code)), "{shown}: {error}");
    }
    // An error in one of several texts is reported at its index.
    let body = json!({"texts": [world.marked, "no", "yes"], "regex": "yes|The .*"});
    let results = world.server.post("/detect", &body).json();
    assert_eq!(results["results"][1]["verdict"], "error", "{results}");
    assert_eq!(results["results"][2]["verdict"], "too short", "{results}");
    let folder = Folder::new();
    let keyless = Server::start(&folder, &[]).post("/detect", &json!({"text": "a"}));
    assert_eq!((keyless.status, &keyless.json()["error"]["code"]), (400, &json!("no_key")));
}
