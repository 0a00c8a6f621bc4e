//! The mark status that the server reports for an answer is what a detector finds in the text.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::Folder;
use crate::support::server::Server;

const PATH: &str = "/v1/completions";

fn completion(more: Value) -> Value {
    let mut body = json!({"prompt": "The captain", "max_tokens": 200, "seed": 3, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A server with the same key in every run, since some keys find even five tokens.
fn gumbel(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::new();
    assert_eq!(folder.run(&["key", "new", "gumbel.key", "--dialect", "native-gumbel"]).status, 0);
    let path = folder.path("gumbel.key");
    let mut key: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    // The id is fixed too, since the keys in use are derived from it as well.
    key["id"] = json!("vg-0badcafe");
    key["secret"] = json!("0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0");
    key.as_object_mut().unwrap().remove("check");
    std::fs::write(&path, key.to_string()).unwrap();
    let server = Server::start(&folder, &[&["--key", "gumbel.key"], more].concat());
    (folder, server)
}

/// Whether `/detect`, given the constraint, finds the mark.
fn is_found(server: &Server, body: &Value, form: Option<(&str, Value)>) -> bool {
    let mut asked = json!({"text": body["choices"][0]["text"]});
    if let Some((name, form)) = form {
        asked[name] = form;
    }
    server.post("/detect", &asked).json()["verdict"] == "marked"
}

/// Noise then chooses among the tokens that are nearly as probable as the best.
#[test]
fn options_that_leave_one_token_are_marked_by_a_key_of_noise_too() {
    let (_folder, server) = gumbel(&["--enforce-all"]);
    for (option, value) in [
        ("temperature", json!(0)),
        ("temperature", json!(1e-38)),
        ("top_k", json!(1)),
        ("min_p", json!(1)),
        ("top_p", json!(1e-300)),
        ("top_p", json!(0.0002)),
    ] {
        let body = server.post(PATH, &completion(json!({option: value, "repetition_penalty": 1.3}))).json();
        assert_eq!(body["watermark"]["status"], "watermarked", "{option} {value}: {body}");
        assert!(is_found(&server, &body, None), "{option} {value}: {body}");
    }
}

#[test]
fn an_answer_is_watermarked_exactly_where_detection_finds_it() {
    let (_folder, server) = gumbel(&["--enforce-all"]);
    let sentence =
        "The captain said that the ship would not leave the harbour before the storm was over and the sea was calm.";
    let mut statuses = Vec::new();
    for (options, form) in [
        (json!({}), None),
        (json!({"temperature": 0.05}), None),
        (json!({"temperature": 1e-6}), None),
        (json!({"max_tokens": 5}), None),
        (
            json!({"structured_outputs": {"choice": [sentence]}, "ignore_eos": false}),
            Some(("choice", json!([sentence]))),
        ),
        (json!({"structured_outputs": {"regex": "(ab){60}"}, "ignore_eos": false}), Some(("regex", json!("(ab){60}")))),
    ] {
        let body = server.post(PATH, &completion(options.clone())).json();
        let mark = &body["watermark"];
        assert_eq!(mark["status"] == "watermarked", is_found(&server, &body, form), "{options}: {body}");
        assert_eq!(mark["reason"].is_null(), mark["status"] == "watermarked", "{mark}");
        statuses.push(mark["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(statuses[0], "watermarked");
    assert_eq!(statuses[3], "too_weak");
    assert_eq!(statuses[4], "skipped", "the constraint left no choice");
    assert_ne!(statuses[5], "watermarked");
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains(r#"verdigris_watermark_requests_total{status="too_weak"}"#), "{metrics}");
}

#[test]
fn texts_whose_mark_cannot_be_verified_are_refused_where_the_operator_wants_it() {
    let folder = Folder::with_key();
    let options = ["--key", "my.key", "--enforce-all", "--unmarkable", "refuse", "--audit-log", "audit.jsonl"];
    let server = Server::start(&folder, &options);
    let short = completion(json!({"max_tokens": 8}));
    let answer = server.post(PATH, &short);
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (422, &json!("unmarkable")), "{answer:?}");
    let mut stream = short.clone();
    stream["stream"] = json!(true);
    let events = server.post(PATH, &stream).events();
    assert_eq!(events.last().unwrap()["error"]["code"], "unmarkable", "{events:?}");
    let long = server.post(PATH, &completion(json!({"max_tokens": 300})));
    assert_eq!((long.status, &long.json()["watermark"]["status"]), (200, &json!("watermarked")));
    let audit = folder.read("audit.jsonl");
    let outcomes: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<&str> = outcomes.iter().map(|line: &Value| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["refused", "begun", "refused", "whole"]);
}

/// The status depends on the level, which is compared with the p-value of the text.
#[test]
fn the_level_is_the_operators() {
    let folder = Folder::with_key();
    let status = |level: &str| {
        let server = Server::start(&folder, &["--key", "my.key", "--mark-level", level]);
        server.post(PATH, &completion(json!({"max_tokens": 60}))).json()["watermark"]["status"].clone()
    };
    assert_eq!((status("0.01"), status("1e-30")), (json!("watermarked"), json!("too_weak")));
    let refused = folder.run(&["serve", "--key", "my.key", "--mark-level", "1"]);
    assert!(refused.status == 2 && refused.err.contains("must be a number above 0 and below 1"), "{refused:?}");
}

#[test]
fn faults_of_the_client_have_a_status_of_the_400s() {
    let (_folder, server) = Server::marking(&[]);
    let greedy = completion(json!({"temperature": 0, "max_tokens": 20}));
    let least = completion(json!({"temperature": 1e-38, "max_tokens": 20}));
    let text = |body: &Value| {
        let answer = server.post(PATH, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["choices"][0]["text"].clone()
    };
    assert_eq!(text(&greedy), text(&least));
    for body in [
        json!({"structured_outputs": {"choice": ["yes", "no"]}, "min_tokens": 50, "ignore_eos": false}),
        json!({"structured_outputs": {"regex": "yes|no"}}),
    ] {
        let answer = server.post(PATH, &completion(body.clone()));
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("contradict"), "{answer:?}");
    }
}
