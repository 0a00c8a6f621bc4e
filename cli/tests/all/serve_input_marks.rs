//! `serve --input-marks report`: marks and manifests in messages and prompts are noticed.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::detection::{PLAIN, marked};
use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL};

/// A text with a C2PA manifest in invisible characters (C2PA 2.4, A.8): U+FEFF, and a variation selector for each byte.
fn signed(text: &str) -> String {
    let selector = |byte: u8| match byte {
        0..16 => 0xfe00 + u32::from(byte),
        _ => 0xe0100 + u32::from(byte) - 16,
    };
    let bytes = [&b"C2PATXT\0"[..], &[1, 0, 0, 0, 4], b"jumb"].concat();
    let manifest: String = bytes.into_iter().map(|byte| char::from_u32(selector(byte)).unwrap()).collect();
    format!("{text}\u{feff}{manifest}")
}

/// A server with a model that chats, and the same key as `my.key`.
fn world(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::with_key();
    folder.copy_model(TALE_SMALL, "teller");
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ";
    folder.write("teller/chat_template.jinja", template);
    let options = ["--model", "teller", "--key", "my.key", "--max-tokens", "8", "--audit-log", "audit.jsonl"];
    let server = Server::start(&folder, &[&options[..], more].concat());
    (folder, server)
}

fn lines(folder: &Folder) -> Vec<Value> {
    folder.read("audit.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_marked_text_that_is_sent_back_is_reported() {
    let (folder, server) = world(&["--input-marks", "report"]);
    let text = marked(&folder);
    let quoting = format!("Please summarise the following text in one sentence.\n\n{text}");
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": PLAIN.repeat(8)},
        {"role": "user", "content": [{"type": "text", "text": quoting}]},
        {"role": "user", "content": signed("Dear friend")},
        {"role": "assistant", "content": signed(&text)},
    ]);
    let expected = json!([
        {"index": 0, "role": "system", "verdict": "too short", "manifest": false},
        {"index": 1, "role": "user", "verdict": "not marked", "manifest": false},
        {"index": 2, "role": "user", "verdict": "marked", "key_id": "vg-c0ffee00", "manifest": false},
        {"index": 3, "role": "user", "verdict": "too short", "manifest": true},
        {"index": 4, "role": "assistant", "verdict": "marked", "key_id": "vg-c0ffee00", "manifest": true},
    ]);
    let chat = json!({"messages": messages, "max_tokens": 4});
    let answer = server.post("/v1/chat/completions", &chat);
    assert_eq!((answer.status, &answer.json()["input_marks"]), (200, &expected), "{answer:?}");
    let mut stream = chat.clone();
    stream["stream"] = json!(true);
    let events = server.post("/v1/chat/completions", &stream).events();
    assert_eq!(events.last().unwrap()["input_marks"], expected);
    assert_eq!(events.iter().filter(|event| event.get("input_marks").is_some()).count(), 1);
    let items: Vec<Value> = messages.as_array().unwrap()[1..].to_vec();
    let response = json!({"instructions": "Be brief.", "input": items, "max_output_tokens": 4});
    assert_eq!(server.post("/v1/responses", &response).json()["input_marks"], expected);
    let mut stream = response;
    stream["stream"] = json!(true);
    let events = server.post("/v1/responses", &stream).named_events();
    assert_eq!(events.last().unwrap()["response"]["input_marks"], expected);

    // Of prompts, as text and as tokens.
    let ids = server.post("/tokenize", &json!({"prompt": text, "add_special_tokens": false})).json()["tokens"].clone();
    for (prompt, verdicts) in [(json!([text, "The sea."]), vec!["marked", "too short"]), (ids, vec!["marked"])] {
        let body = json!({"prompt": prompt, "max_tokens": 4});
        let answer = server.post("/v1/completions", &body).json();
        let marks = answer["input_marks"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert!(marks.iter().map(|mark| mark["verdict"].as_str().unwrap()).eq(verdicts), "{marks:?}");
        assert!(marks.iter().all(|mark| mark.get("role").is_none()));
    }

    // The audit log has the same, and no text.
    let audit = lines(&folder);
    assert_eq!(audit.len(), 8, "two of each stream");
    assert!(audit[..6].iter().all(|line| line["input_marks"] == expected), "{audit:?}");
    assert!(!folder.read("audit.jsonl").contains(&text[20..50]));
}

/// Findings have no numbers, for any API key, and only keys that the client may use are looked for.
#[test]
fn clients_get_the_verdicts_of_their_own_keys_only() {
    let folder = Folder::with_key();
    let text = marked(&folder);
    std::fs::create_dir(folder.path("ring")).unwrap();
    folder.run(&["key", "new", "ring/ann.key", "--id", "ann-key", "--tenant", "ann"]).done();
    folder.write("keys.txt", "ann 0123456789abcdef-ann\neve 0123456789abcdef-eve\n");
    let server = Server::start(&folder, &["--ring", "ring", "--api-key-file", "keys.txt", "--input-marks", "report"]);
    let marked = json!({"prompt": "The captain", "max_tokens": 300, "ignore_eos": true, "seed": 3});
    let marked = server.post_as("/v1/completions", "0123456789abcdef-ann", &marked).json();
    assert_eq!(marked["watermark"]["key_id"], "ann-key");
    let prompts = [&marked["choices"][0]["text"], &json!(text)];
    let body = json!({"prompt": prompts, "max_tokens": 4, "watermarking": false});
    let found = |client: &str| server.post_as("/v1/completions", client, &body).json()["input_marks"].clone();
    let expected = json!([
        {"index": 0, "verdict": "marked", "key_id": "ann-key", "manifest": false},
        {"index": 1, "verdict": "not marked", "manifest": false},
    ]);
    assert_eq!(found("0123456789abcdef-ann"), expected);
    let unknown = json!([
        {"index": 0, "verdict": "not examined", "manifest": false},
        {"index": 1, "verdict": "not examined", "manifest": false},
    ]);
    assert_eq!(found("0123456789abcdef-eve"), unknown);
}

#[test]
fn without_the_option_nothing_is_looked_for() {
    let (folder, server) = world(&[]);
    let body = json!({"prompt": signed(&marked(&folder)), "max_tokens": 4});
    assert!(server.post("/v1/completions", &body).json().get("input_marks").is_none());
    assert!(lines(&folder).iter().all(|line| line.get("input_marks").is_none()));
    folder.run(&["serve", "--input-marks", "refuse"]).fails("--input-marks");
}
