//! Each text of fixtures/verdicts has one verdict: that of the program and of its server. The other front ends compare
//! with the same file in tests of their own.

use std::collections::BTreeMap;

use crate::support::Folder;
use crate::support::server::Server;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A text with its verdict.
#[derive(Deserialize)]
struct Case {
    case: String,
    keys: Vec<String>,
    options: Map<String, Value>,
    text: Option<String>,
    times: Option<usize>,
    bytes: Option<String>,
    verdict: Map<String, Value>,
}

impl Case {
    fn content(&self) -> Vec<u8> {
        let digit = |bytes: &str, i| u8::from_str_radix(&bytes[i..i + 2], 16).unwrap();
        match (&self.text, &self.bytes) {
            (Some(text), None) => text.repeat(self.times.unwrap_or(1)).into_bytes(),
            (None, Some(bytes)) => (0..bytes.len()).step_by(2).map(|i| digit(bytes, i)).collect(),
            _ => panic!("{}: a text or bytes", self.case),
        }
    }

    fn option(&self, name: &str) -> Option<&Value> {
        self.options.get(name)
    }

    /// Compares the fields of a verdict, those that only some front ends have aside.
    #[track_caller]
    fn compare(&self, mut found: Value, own: &[&str]) {
        let fields = found.as_object_mut().unwrap();
        fields.retain(|name, _| name != "format" && name != "name" && name != "hint" && !own.contains(&&**name));
        assert_eq!(Value::Object(fields.clone()), Value::Object(self.verdict.clone()), "{}", self.case);
    }
}

fn cases() -> Vec<Case> {
    let lines = include_str!("../../../fixtures/verdicts/cases.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder with all keys, each in a folder of its own that is named after those of a case.
fn with_keys() -> Folder {
    let keys: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../../../fixtures/verdicts/keys.json")).unwrap();
    let folder = Folder::new();
    for case in cases() {
        let ring = case.keys.join("+");
        std::fs::create_dir_all(folder.path(&ring)).unwrap();
        for id in &case.keys {
            folder.write_private(&format!("{ring}/{id}.key"), &keys[id].to_string());
        }
    }
    folder
}

#[test]
fn the_program_gives_each_text_its_verdict() {
    let folder = with_keys();
    for case in cases() {
        std::fs::write(folder.path("text"), case.content()).unwrap();
        let ring = case.keys.join("+");
        let mut arguments = vec!["detect".to_owned(), "text".into(), "--json".into(), "--format".into(), "text".into()];
        arguments.extend(case.keys.iter().flat_map(|id| ["--key".into(), format!("{ring}/{id}.key")]));
        for (name, value) in &case.options {
            arguments.push(format!("--{name}"));
            arguments.extend((value != &json!(true)).then(|| value.to_string()));
        }
        let run = folder.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        case.compare(run.json(), &[]);
    }
}

#[test]
fn the_server_gives_each_text_its_verdict() {
    let folder = with_keys();
    let mut by_keys: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    // A server does not write payloads, nor does it read files or look from several offsets.
    let served = |case: &Case| case.text.is_some() && case.option("offsets").is_none() && case.keys != ["numbered"];
    for case in cases().into_iter().filter(served) {
        by_keys.entry(case.keys.join("+")).or_default().push(case);
    }
    for (ring, cases) in by_keys {
        let server = Server::start(&folder, &["--ring", &ring]);
        for case in cases {
            let mut body = json!({"text": String::from_utf8(case.content()).unwrap()});
            body.as_object_mut().unwrap().extend(case.options.clone());
            let answer = server.post("/detect", &body);
            if case.times.is_some() {
                assert_eq!(answer.status, 413, "{}", case.case);
                continue;
            }
            case.compare(answer.json(), &["colours", "p_value", "num_scored_tokens", "is_watermarked"]);
        }
    }
}
