//! The mark in each text of fixtures/verdicts has the same verdict as everywhere, to the last digit.

mod common;

use std::fs;

use common::c2pa;
use serde_json::{Map, Value};

#[test]
fn each_text_has_its_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let keys: Map<String, Value> = serde_json::from_str(include_str!("../../../fixtures/verdicts/keys.json")).unwrap();
    for (id, key) in &keys {
        let file = at(&format!("{id}.key"));
        fs::write(&file, key.to_string()).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let mut judged = 0;
    for line in include_str!("../../../fixtures/verdicts/cases.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let options = case["options"].as_object().unwrap();
        // Files are UTF-8 here, and passages and offsets are for the main program.
        let (Some(text), true) = (case["text"].as_str(), options.keys().all(|name| name == "level")) else { continue };
        fs::write(at("text"), text.repeat(case["times"].as_u64().unwrap_or(1) as usize)).unwrap();
        let mut arguments = vec!["verify".to_owned(), at("text"), "--json".into()];
        for id in case["keys"].as_array().unwrap() {
            arguments.extend(["--key".into(), at(&format!("{}.key", id.as_str().unwrap()))]);
        }
        arguments.extend(options.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]));
        let done = c2pa(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "");
        assert_eq!(done.json()["mark"], case["verdict"], "{}", case["case"]);
        judged += 1;
    }
    assert!(judged > 20);
}
