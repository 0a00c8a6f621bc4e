//! The texts of fixtures/verdicts, each with its verdict.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use verdigris_detector::{COLUMNS, Key};

pub struct Case {
    pub name: String,
    pub keys: Vec<String>,
    pub options: Map<String, Value>,
    pub text: Option<String>,
    times: usize,
    pub verdict: Map<String, Value>,
}

impl Case {
    /// The whole text.
    pub fn content(&self) -> String {
        self.text.as_ref().unwrap().repeat(self.times)
    }

    /// Whether it has no options but those of a table.
    pub fn is_plain(&self) -> bool {
        self.options.keys().all(|name| name == "level")
    }

    /// Compares the columns of a verdict; one that is null may be missing.
    #[track_caller]
    pub fn compare(&self, row: &Value) {
        for column in COLUMNS {
            let expected = self.verdict.get(column.name).unwrap_or(&Value::Null);
            let found = row.get(column.name).unwrap_or(&Value::Null);
            let same = match (expected.as_f64(), found.as_f64()) {
                // One writes 12 where another writes 12.0.
                (Some(expected), Some(found)) => expected == found,
                _ => expected == found,
            };
            assert!(same, "{}: {} is {found}, not {expected}", self.name, column.name);
        }
    }
}

pub fn cases() -> Vec<Case> {
    let case = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Case {
            name: text(&line["case"]),
            keys: line["keys"].as_array().unwrap().iter().map(text).collect(),
            options: line["options"].as_object().unwrap().clone(),
            text: line.get("text").map(text),
            times: line.get("times").and_then(Value::as_u64).unwrap_or(1) as usize,
            verdict: line["verdict"].as_object().unwrap().clone(),
        }
    };
    include_str!("../../../../fixtures/verdicts/cases.jsonl").lines().map(case).collect()
}

/// The files of the keys, by their ids.
pub fn key_files() -> BTreeMap<String, String> {
    let keys: BTreeMap<String, Value> =
        serde_json::from_str(include_str!("../../../../fixtures/verdicts/keys.json")).unwrap();
    keys.into_iter().map(|(id, key)| (id, key.to_string())).collect()
}

pub fn keys() -> BTreeMap<String, Key> {
    key_files().into_iter().map(|(id, key)| (id, Key::parse(key.as_bytes()).unwrap())).collect()
}
