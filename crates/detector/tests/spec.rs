//! Tokenizers, versions of texts and verdicts on tokens are those of docs/spec.md: compares with
//! `fixtures/spec/vectors.json`, made by a second implementation. `cli/tests/all/spec.rs` has its texts.

mod answers;

use std::path::Path;

use serde_json::{Value, json};
use verdigris_detector::{Key, Level, Look, Reader, Repeats, Tokenizer, Version, Versions};
use verdigris_logits::TokenId;

use crate::answers::same;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../fixtures/spec/vectors.json")).unwrap()
}

fn file(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Compares each answer of a section with the result of its input.
fn check(vectors: &Value, section: &str, answer: impl Fn(&Value) -> Value) {
    let cases = vectors[section].as_array().unwrap();
    assert!(cases.len() > 2, "{section}");
    for case in cases {
        let found = answer(&case["input"]);
        assert!(same(&found, &case["answer"]), "{}\n{found}\n{}", case["input"], case["answer"]);
    }
}

#[test]
fn fingerprints_are_those_of_the_specification() {
    check(&vectors(), "fingerprints", |input| {
        let text = |path: &str| String::from_utf8(file(path)).unwrap();
        let json = input["path"].as_str().map_or_else(|| input["tokenizer"].as_str().unwrap().to_owned(), text);
        let tokenizer = Tokenizer::from_json(json.as_bytes()).unwrap();
        json!({"size": tokenizer.vocabulary().size(), "fingerprint": tokenizer.vocabulary().fingerprint()})
    });
}

/// The bytes of a version, its end included, from which on its origins have another distance.
fn jumps(version: &Version<'_>) -> Vec<[usize; 2]> {
    let (mut found, mut distance) = (Vec::new(), 0);
    for at in version.text.char_indices().map(|(at, _)| at).chain([version.text.len()]) {
        let origin = version.origin(at);
        if origin as isize - at as isize != distance {
            distance = origin as isize - at as isize;
            found.push([at, origin]);
        }
    }
    found
}

#[test]
fn versions_are_those_of_the_specification() {
    check(&vectors(), "versions", |input| {
        let versions = Versions::of(input["text"].as_str().unwrap(), true);
        let manifests: Vec<_> = versions.unwrapped().manifests.iter().map(|range| [range.start, range.end]).collect();
        let texts = versions.iter().map(|version| json!([version.text, version.repairs(), jumps(&version)]));
        let texts: Vec<Value> = texts.collect();
        json!({"manifests": manifests, "versions": texts})
    });
}

#[test]
fn verdicts_on_tokens_are_those_of_the_specification() {
    let reader = Reader::new(Tokenizer::from_json(&file("fixtures/models/tale/tokenizer.json")).unwrap());
    let vectors = vectors();
    check(&vectors, "tokens", |input| {
        let key = |name: &Value| Key::parse(vectors["keys"][name.as_str().unwrap()].as_str().unwrap().as_bytes());
        let keys: Vec<Key> = input["keys"].as_array().unwrap().iter().map(|name| key(name).unwrap()).collect();
        let repeats = match input["options"]["repeats"].as_str() {
            Some("draw") => Repeats::Observation,
            Some("nothing") => Repeats::Nothing,
            _ => Repeats::Context,
        };
        let tokens: Vec<TokenId> = serde_json::from_value(input["tokens"].clone()).unwrap();
        let level = input["options"]["level"].as_f64().map_or(Level::DEFAULT, |level| Level::new(level).unwrap());
        let look = Look { repeats, level, ..Look::default() };
        let judgement = reader.judge_tokens(&keys.iter().collect::<Vec<_>>(), &tokens, &look).unwrap();
        json!({"verdict": judgement.verdict()})
    });
}
