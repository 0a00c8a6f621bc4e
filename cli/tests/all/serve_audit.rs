//! The keys that mark the texts of tenants, and the audit log.
#![cfg(all(feature = "serve", unix))]

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, until};

const ANN: &str = "0123456789abcdef-ann";
const BEN: &str = "0123456789abcdef-ben";

/// All lines of the log.
fn all_lines(folder: &Folder, file: &str) -> Vec<Value> {
    let text = folder.read(file);
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The lines that record the end of an answer.
fn lines(folder: &Folder, file: &str) -> Vec<Value> {
    all_lines(folder, file).into_iter().filter(|line| line["outcome"] != "begun").collect()
}

fn key(folder: &Folder, file: &str, more: &[&str]) {
    folder.run(&[&["key", "new", file], more].concat()).done();
}

fn completion(more: Value) -> Value {
    let mut body = json!({"prompt": "The captain", "max_tokens": 24, "seed": 3, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn each_tenant_is_marked_with_its_own_key_of_today() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("ring")).unwrap();
    key(&folder, "ring/all.key", &["--id", "for-all"]);
    key(&folder, "ring/ann-old.key", &["--id", "ann-old", "--tenant", "ann", "--valid-until", "2026-01-31"]);
    key(&folder, "ring/ann.key", &["--id", "ann-new", "--tenant", "ann", "--valid-from", "2026-02-01"]);
    key(&folder, "ring/eve.key", &["--id", "eve-old", "--tenant", "eve", "--valid-until", "2026-01-31"]);
    folder.write("keys.txt", &format!("ann {ANN}\nben {BEN}\neve 0123456789abcdef-eve\n"));
    let options = ["--ring", "ring", "--api-key-file", "keys.txt", "--enforce-all", "--audit-log", "audit.jsonl"];
    let server = Server::start(&folder, &options);
    let of = |secret: &str, body: &Value| server.post_as("/v1/completions", secret, body);
    let key_of = |secret: &str| {
        let answer = of(secret, &completion(json!({})));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["watermark"]["key_id"].as_str().unwrap().to_owned()
    };
    assert_eq!((key_of(ANN), key_of(BEN)), ("ann-new".into(), "for-all".into()));
    let refused = of("0123456789abcdef-eve", &completion(json!({})));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("no_key_today")));

    // A tenant's texts are found under its own key, and only by the tenant itself.
    let long = of(ANN, &completion(json!({"max_tokens": 300}))).json();
    let text = json!({"text": long["choices"][0]["text"]});
    let found = |secret: &str| server.post_as("/detect", secret, &text).json();
    assert_eq!((&found(ANN)["verdict"], &found(ANN)["key_id"]), (&json!("marked"), &json!("ann-new")));
    assert_eq!(found(BEN)["verdict"], "not marked");
    let asked = json!({"text": long["choices"][0]["text"], "key_id": "ann-new"});
    assert_eq!(server.post_as("/detect", BEN, &asked).status, 400);
    // Without a further right, a tenant gets only the verdict.
    let told = found(ANN);
    let mut names: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["dialect", "format", "is_watermarked", "key_id", "verdict"], "{told}");
    for (field, value) in
        [("tokens", json!(true)), ("course", json!(true)), ("windows", json!(true)), ("level", json!(0.1))]
    {
        let mut asked = text.clone();
        asked[field] = value;
        let refused = server.post_as("/detect", ANN, &asked);
        let why = &refused.json()["error"];
        assert_eq!((refused.status, &why["code"], &why["param"]), (403, &json!("not_allowed"), &json!(field)));
    }

    let audit = lines(&folder, "audit.jsonl");
    let told = audit.iter().map(|line| (line["tenant"].as_str().unwrap(), line["key_id"].as_str().unwrap()));
    assert_eq!(told.collect::<Vec<_>>(), [("ann", "ann-new"), ("ben", "for-all"), ("ann", "ann-new")]);

    // Ben gets his own key. A damaged key, or a bad file of API keys, changes nothing.
    let not_again = || "it has not been read again".to_owned();
    key(&folder, "ring/ben.key", &["--id", "ben-own", "--tenant", "ben"]);
    server.tell("-HUP");
    until(|| key_of(BEN) == "ben-own", not_again);
    folder.write("keys.txt", "ann\n");
    server.tell("-HUP");
    std::fs::remove_file(folder.path("ring/ben.key")).unwrap();
    folder.write_private("ring/torn.key", "{\"format\": \"verdigris-key-1\"");
    server.tell("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((key_of(BEN), key_of(ANN)), ("ben-own".into(), "ann-new".into()));
    std::fs::remove_file(folder.path("ring/torn.key")).unwrap();
    folder.write("keys.txt", &format!("ben {BEN}\n"));
    // After the log was moved away, it continues in a new file.
    std::fs::rename(folder.path("audit.jsonl"), folder.path("audit.1")).unwrap();
    server.tell("-HUP");
    until(|| of(ANN, &completion(json!({}))).status == 401, not_again);
    assert_eq!(key_of(BEN), "for-all");
    assert_eq!(lines(&folder, "audit.jsonl").last().unwrap()["key_id"], "for-all");
}

#[test]
fn a_record_has_all_counts_and_no_text() {
    let folder = Folder::with_key();
    let server = Server::start(&folder, &["--key", "my.key", "--audit-log", "audit.jsonl"]);
    let whole = server.post("/v1/completions", &completion(json!({"n": 2}))).json();
    let stream = server.post("/v1/completions", &completion(json!({"stream": true, "max_tokens": 5}))).events();
    server.post("/v1/completions", &completion(json!({"watermarking": false})));
    let forced = completion(json!({"structured_outputs": {"choice": ["aye"]}, "ignore_eos": false}));
    server.post("/v1/completions", &forced);
    server.post("/v1/completions", &completion(json!({"temperature": 900})));
    let audit = lines(&folder, "audit.jsonl");
    assert_eq!(audit.len(), 4, "refused requests are not recorded: {audit:?}");
    let first = &audit[0];
    for (field, value) in [
        ("answer_id", whole["id"].clone()),
        ("tenant", json!("")),
        ("endpoint", json!("/v1/completions")),
        ("model", json!("tale")),
        ("stream", json!(false)),
        ("outcome", json!("whole")),
        ("key_id", json!("vg-c0ffee00")),
        ("scheme", json!("native")),
        ("prompt_tokens", whole["usage"]["prompt_tokens"].clone()),
        ("completion_tokens", json!(48)),
    ] {
        assert_eq!(first[field], value, "{field}");
    }
    assert!(first["time"].as_str().unwrap().ends_with('Z') && first["request_id"].is_string());
    for index in 0..2 {
        let (text, choice) = (&first["texts"][index], &whole["choices"][index]);
        assert_eq!(text["scored_tokens"], choice["watermark"]["scored_tokens"]);
        let ended = (&text["index"], &text["watermark"], &text["finish_reason"], &text["completion_tokens"]);
        assert_eq!(ended, (&json!(index), &choice["watermark"]["status"], &json!("length"), &json!(24)));
    }
    assert_eq!((&audit[1]["stream"], &audit[1]["answer_id"]), (&json!(true), &stream[0]["id"]));
    let all = all_lines(&folder, "audit.jsonl");
    let begun: Vec<&Value> = all.iter().filter(|line| line["outcome"] == "begun").collect();
    assert_eq!(begun.len(), 1, "only a stream has a line at its beginning");
    assert_eq!((&begun[0]["answer_id"], &begun[0]["key_id"]), (&stream[0]["id"], &json!("vg-c0ffee00")));
    assert_eq!((&begun[0]["texts"], &begun[0]["completion_tokens"]), (&json!([]), &json!(0)));
    assert_eq!(audit[2]["texts"][0]["reason"], "the request wants no mark");
    let skipped = &audit[3]["texts"][0];
    assert_eq!((&skipped["watermark"], &skipped["finish_reason"]), (&json!("skipped"), &json!("stop")));
    let raw = folder.read("audit.jsonl");
    assert!(!raw.contains("captain") && !raw.contains("aye") && !raw.contains("f1e2d3c4"), "{raw}");

    // An answer whose client disconnects is recorded as cut.
    let running = completion(json!({"stream": true, "max_tokens": 1900}));
    let mut running = server.ask("/v1/completions", &running);
    running.read_exact(&mut [0; 400]).unwrap();
    drop(running);
    until(|| lines(&folder, "audit.jsonl").len() >= 5, || "it is not recorded".into());
    assert_eq!(lines(&folder, "audit.jsonl")[4]["outcome"], "cut");
    folder.run(&["serve", "--audit-log", "audit.jsonl", "--port", "0"]).fails("another server writes it");
}

/// An answer that cannot be recorded is not sent.
#[cfg(target_os = "linux")]
#[test]
fn without_a_record_nothing_is_answered() {
    let folder = Folder::with_key();
    let server = Server::start(&folder, &["--key", "my.key", "--audit-log", "/dev/full"]);
    let whole = server.post("/v1/completions", &completion(json!({})));
    assert_eq!((whole.status, &whole.json()["error"]["code"]), (503, &json!("audit_unavailable")));
    // The beginning of a stream is recorded before its first byte, so nothing of this one is sent.
    let stream = server.post("/v1/completions", &completion(json!({"stream": true})));
    assert_eq!((stream.status, &stream.json()["error"]["code"]), (503, &json!("audit_unavailable")));
    // A record written to a device that keeps nothing does not count.
    #[cfg(target_os = "linux")]
    {
        let server = Server::start(&folder, &["--key", "my.key", "--audit-log", "/dev/null"]);
        let answer = server.post("/v1/completions", &completion(json!({})));
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (503, &json!("audit_unavailable")));
    }
    folder.run(&["serve", "--audit-log", "none/audit.jsonl", "--port", "0"]).fails("none/audit.jsonl");
}

/// If the client disconnects before anything was sent, the answer is not recorded.
#[test]
fn answers_that_did_not_begin_are_not_on_record() {
    let folder = Folder::with_key();
    let server = Server::start(&folder, &["--key", "my.key", "--audit-log", "audit.jsonl"]);
    let left = server.ask("/v1/completions", &completion(json!({"max_tokens": 2000, "ignore_eos": true})));
    std::thread::sleep(Duration::from_millis(100));
    drop(left);
    let metrics = || server.get("/metrics").text;
    until(|| metrics().contains(r#"request_success_total{finished_reason="abort"} 1"#), metrics);
    assert_eq!(server.post("/v1/completions", &completion(json!({"max_tokens": 4}))).status, 200);
    let outcomes: Vec<Value> = all_lines(&folder, "audit.jsonl").iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["whole"]);
}

/// Streams that the end of the server cuts are recorded, even if it does not wait for them.
#[test]
fn streams_that_the_server_cuts_are_on_record() {
    let folder = Folder::with_key();
    let server = Server::start(&folder, &["--key", "my.key", "--audit-log", "audit.jsonl"]);
    let endless = completion(json!({"max_tokens": 4000, "ignore_eos": true, "n": 8, "stream": true}));
    let mut running = server.ask("/v1/completions", &endless);
    running.read_exact(&mut [0; 300]).unwrap();
    server.stop(|server| {
        std::thread::sleep(Duration::from_millis(200));
        // The second signal ends it at once.
        server.tell_to_stop();
    });
    let outcomes: Vec<Value> = all_lines(&folder, "audit.jsonl").iter().map(|line| line["outcome"].clone()).collect();
    assert_eq!(outcomes, ["begun", "cut"]);
}

/// When the server is killed in the middle of many answers, each answer that was received completely is recorded once.
#[test]
fn every_answer_that_came_whole_is_on_record_whatever_happens() {
    let folder = Folder::with_key();
    let server = Server::start(&folder, &["--key", "my.key", "--audit-log", "audit.jsonl"]);
    let ids: Vec<String> = std::thread::scope(|scope| {
        let ask = |worker: usize| {
            let server = &server;
            move || {
                let mut whole = Vec::new();
                for number in 0..10_000 {
                    let body = completion(
                        json!({"stream": (worker + number).is_multiple_of(2), "max_tokens": 4 + number % 9}),
                    );
                    let Some(answer) = server.try_post("/v1/completions", &body) else { break };
                    if let Some(id) = whole_id(&answer) {
                        whole.push(id);
                    }
                }
                whole
            }
        };
        let workers: Vec<_> = (0..8).map(|worker| scope.spawn(ask(worker))).collect();
        let recorded = || std::fs::read(folder.path("audit.jsonl")).unwrap();
        let count = || recorded().iter().filter(|byte| **byte == b'\n').count();
        until(|| count() >= 100, || format!("{} lines are recorded", count()));
        server.tell("-KILL");
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let text = folder.read("audit.jsonl");
    let on_record: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["outcome"] != "begun")
        .map(|line| line["answer_id"].as_str().unwrap().to_owned())
        .collect();
    assert!(ids.len() >= 40, "{} complete answers", ids.len());
    for id in &ids {
        assert_eq!(on_record.iter().filter(|other| *other == id).count(), 1, "{id}");
    }
}

/// The id of an answer that was received completely.
fn whole_id(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let first = match head.to_lowercase().contains("text/event-stream") {
        true if body.trim_end().ends_with("data: [DONE]") => body.lines().next()?.strip_prefix("data: ")?,
        true => return None,
        false => body,
    };
    Some(serde_json::from_str::<Value>(first).ok()?["id"].as_str()?.to_owned())
}
