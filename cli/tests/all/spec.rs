//! Verdicts on texts are those of docs/spec.md: compares with `fixtures/spec/vectors.json`, made by a second
//! implementation. Its texts were written by the program and by that implementation.

use serde_json::Value;

use crate::answers::same;
use crate::support::Folder;

/// Compares the output of a command with an answer, except for what only the program knows.
#[track_caller]
fn compare(folder: &Folder, arguments: &[String], answer: &Value) {
    let run = folder.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let mut found = run.json();
    let mut answer = answer.clone();
    for fields in [&mut found, &mut answer] {
        fields.as_object_mut().unwrap().retain(|name, _| name != "format" && name != "name" && name != "hint");
    }
    assert!(same(&found, &answer), "{arguments:?}\n{found}\n{answer}");
}

#[test]
fn texts_have_the_verdicts_of_the_specification() {
    let vectors: Value = serde_json::from_str(include_str!("../../../fixtures/spec/vectors.json")).unwrap();
    let folder = Folder::new();
    for (name, file) in vectors["keys"].as_object().unwrap() {
        folder.write_private(&format!("{name}.key"), file.as_str().unwrap());
    }
    let cases = vectors["texts"].as_array().unwrap();
    assert!(cases.len() > 40);
    let mut forged = 0;
    let options_are_default = |input: &Value| input["options"].as_object().is_none_or(serde_json::Map::is_empty);
    for case in cases {
        let input = &case["input"];
        let text = input["text"].as_str().unwrap().repeat(input["times"].as_u64().unwrap_or(1) as usize);
        folder.write("text", &text);
        let keys = input["keys"].as_array().unwrap().iter();
        let keys = keys.flat_map(|name| ["--key".to_owned(), format!("{}.key", name.as_str().unwrap())]);
        let keys: Vec<String> = keys.collect();
        let options = input["options"].as_object().into_iter().flatten().flat_map(|(name, value)| match value {
            Value::Bool(true) => vec![format!("--{name}")],
            Value::Bool(false) => vec![format!("--no-{name}")],
            Value::String(value) => vec![format!("--{name}"), value.clone()],
            value => vec![format!("--{name}"), value.to_string()],
        });
        let command = |name: &str| [name, "text", "--json"].map(str::to_owned).to_vec();
        let detect = [command("detect"), vec!["--format".into(), "text".into()], keys.clone(), options.collect()];
        compare(&folder, &detect.concat(), &case["answer"]["verdict"]);
        // The command that tries keys agrees on forged texts.
        if case["answer"]["verdict"]["verdict"] == "forged" && options_are_default(input) {
            let found = [command("identify"), keys.clone()].concat();
            let run = folder.run(&found.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!((run.status, &run.json()["verdict"]), (1, &"forged".into()), "{run:?}");
            assert_eq!(run.json()["found"]["forged"], true, "{run:?}");
            forged += 1;
        }
        if let Some(payload) = case["answer"].get("payload") {
            compare(&folder, &[command("payload"), keys].concat(), payload);
        }
    }
    assert!(forged > 0);
}
