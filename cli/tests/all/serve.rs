//! The server, over HTTP.
#![cfg(feature = "serve")]

use std::io::Read;

use serde_json::{Value, json};

use crate::support::Folder;
use crate::support::server::Server;

/// A completion request with the fields `more`.
fn completion(more: Value) -> Value {
    let mut body = json!({"model": "tale", "prompt": "The captain", "max_tokens": 40, "seed": 3});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn an_answer_is_marked_and_found() {
    let (_folder, server) = Server::marking(&[]);
    let answer = server.post("/v1/completions", &completion(json!({"max_tokens": 300, "ignore_eos": true})));
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("text_completion"), &json!("tale")));
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    assert_eq!(body["usage"]["completion_tokens"], 300);
    assert_eq!(
        (&body["watermark"]["status"], &body["watermark"]["key_id"]),
        (&json!("watermarked"), &json!("vg-c0ffee00"))
    );
    let text = body["choices"][0]["text"].as_str().unwrap();
    let found = server.post("/detect", &json!({"text": text})).json();
    assert_eq!((&found["verdict"], &found["is_watermarked"]), (&json!("marked"), &json!(true)), "{found}");
    assert!(found["p_value"].as_f64().unwrap() < 1e-5);
    let many = server.post("/detect", &json!({"texts": [text, "A text that somebody else has written."]})).json();
    assert_eq!(many["results"][0]["verdict"], "marked");
    assert_eq!(many["results"][1]["is_watermarked"], false);

    let plain = server.post("/v1/completions", &completion(json!({"max_tokens": 300, "watermarking": false}))).json();
    assert_eq!(plain["watermark"]["status"], "not_watermarked");
    let found = server.post("/detect", &json!({"text": plain["choices"][0]["text"]})).json();
    assert_eq!(found["is_watermarked"], false, "{found}");
}

/// A streamed answer equals the whole answer with the same seed.
#[test]
fn pieces_are_the_whole() {
    let (_folder, server) = Server::marking(&[]);
    let whole = server.post("/v1/completions", &completion(json!({"n": 2, "logprobs": 2, "return_token_ids": true})));
    let whole = whole.json();
    let options = json!({
        "n": 2, "logprobs": 2, "return_token_ids": true, "stream": true, "stream_options": {"include_usage": true},
    });
    let events = server.post("/v1/completions", &completion(options)).events();
    for index in 0..2 {
        let of_choice = |event: &&Value| event["choices"][0]["index"] == index;
        let text: String =
            events.iter().filter(of_choice).filter_map(|event| event["choices"][0]["text"].as_str()).collect();
        let choice = &whole["choices"][index];
        assert_eq!(text, choice["text"].as_str().unwrap());
        let last = &events.iter().rfind(of_choice).unwrap()["choices"][0];
        for field in ["finish_reason", "logprobs", "token_ids", "watermark"] {
            assert_eq!(last[field], choice[field], "{field}");
        }
        assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().len(), 40);
    }
    let usage = events.last().unwrap();
    assert_eq!((&usage["usage"], &usage["choices"]), (&whole["usage"], &json!([])));
    assert_ne!(whole["choices"][0]["text"], whole["choices"][1]["text"]);
}

#[test]
fn json_obeys_its_schema() {
    let (_folder, server) = Server::marking(&[]);
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    });
    for form in [
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}}),
        json!({"structured_outputs": {"json": schema}}),
    ] {
        let body = server.post("/v1/completions", &completion(form)).json();
        let written: Value = serde_json::from_str(body["choices"][0]["text"].as_str().unwrap()).unwrap();
        assert!(written["age"].as_u64().unwrap() < 100 && written["name"].is_string(), "{written}");
    }
    let choice = completion(json!({"structured_outputs": {"choice": ["yes"]}}));
    let body = server.post("/v1/completions", &choice).json();
    assert_eq!(body["choices"][0]["text"], "yes");
    assert_eq!(body["watermark"]["status"], "skipped", "{body}");
}

/// Each is refused with a documented status and an error in OpenAI's format.
#[test]
fn bad_requests_are_refused() {
    let (_folder, server) = Server::marking(&["--enforce-all", "--max-body", "20000"]);
    let format = |schema: Value| json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}});
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    for (body, status, param, code) in [
        (json!({"model": "gpt-4"}), 404, json!("model"), "model_not_found"),
        (json!({"max_tokens": -1}), 400, json!("max_tokens"), "invalid_value"),
        (json!({"temperature": 900}), 400, json!("temperature"), "invalid_value"),
        (json!({"prompt": null}), 400, json!("prompt"), "missing_field"),
        (json!({"best_of": 3}), 400, json!("best_of"), "unsupported_field"),
        (json!({"watermarking": false}), 400, json!("watermarking"), "watermark_enforced"),
        (json!({"logit_bias": {"99999999": 5}}), 400, json!("logit_bias"), "invalid_value"),
        (json!({"structured_outputs": {"regex": "("}}), 400, json!("structured_outputs.regex"), "invalid_regex"),
        (format(json!({"type": "nothing"})), 400, json!("response_format.json_schema.schema"), "invalid_json_schema"),
        (format(json!({"$ref": "http://x/"})), 400, json!("response_format.json_schema.schema"), "invalid_json_schema"),
        (format(json!({"minLength": 5000, "type": "string"})), 400, json!("max_tokens"), "no_room"),
        (json!({"prompt": "word ".repeat(3000)}), 400, json!("prompt"), "context_length_exceeded"),
    ] {
        let answer = server.post("/v1/completions", &completion(body.clone()));
        let error = &answer.json()["error"];
        let got = (answer.status, &error["param"], error["code"].as_str().unwrap());
        assert_eq!(got, (status, &param, code), "{body}: {error}");
        assert!(error["message"].is_string() && error["type"].is_string());
        // A stream is refused before it begins.
        let mut stream = completion(body);
        stream["stream"] = json!(true);
        let answer = server.post("/v1/completions", &stream);
        assert_eq!(answer.status, status, "{answer:?}");
    }
    for (head, body, status) in [
        ("POST /v1/completions", &b"{"[..], 400),
        ("POST /v1/completions", b"\xff\xfe", 400),
        ("POST /v1/completions", deep.as_bytes(), 400),
        ("POST /v1/completions", &[b' '; 30_000], 413),
        ("POST /v1/chat/completions", br#"{"messages": [{"role": "user", "content": "Hi"}]}"#, 400),
        ("GET /v1/completions", b"", 405),
        ("GET /v1/models/../../etc/passwd", b"", 404),
        ("GET /nothing", b"", 404),
        ("POST /detect", b"{}", 400),
        ("POST /detect", br#"{"text": "a", "key_id": "other"}"#, 400),
        ("POST /detokenize", br#"{"tokens": [99999999]}"#, 400),
    ] {
        let answer = server.send(head, body);
        assert_eq!(answer.status, status, "{head}: {answer:?}");
        assert!(answer.json()["error"]["message"].is_string(), "{head}");
    }
    assert_eq!(server.get("/health").status, 200, "the server still answers");
}

#[test]
fn what_else_is_there() {
    let (_folder, server) = Server::marking(&["--served-model-name", "teller"]);
    assert_eq!(server.get("/v1/models").json()["data"][0]["id"], "teller");
    assert_eq!(server.get("/v1/models/teller").json()["max_model_len"], 2048);
    let tokens = server.post("/tokenize", &json!({"prompt": "The captain"})).json();
    let text = server.post("/detokenize", &json!({"tokens": tokens["tokens"]})).json();
    assert_eq!(text["prompt"], "The captain");
    assert_eq!(server.get("/version").json()["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(server.get("/ready").status, 200);
    let refused = server.get("/manifest/cmpl-1");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (404, &json!("no_ledger")));
    let refused = server.post("/detokenize", &json!({"tokens": [9_999_999]}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("tokens")));
    server.post("/v1/completions", &json!({"prompt": "The", "max_tokens": 5, "ignore_eos": true}));
    // The count of running requests is updated after the end of one is reported.
    let mut looks = std::iter::repeat_with(|| server.get("/metrics").text).take(1000);
    let metrics = looks.find(|text| text.contains("verdigris_num_requests_running 0"));
    let metrics = metrics.expect("nothing runs any more");
    for line in
        ["verdigris_requests_total{route=\"/v1/completions\",status=\"200\"} 1", "verdigris_generation_tokens_total 5"]
    {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

/// With an echoed prompt, each token is at its offset in the text.
#[test]
fn tokens_are_at_their_offsets() {
    let (_folder, server) = Server::marking(&[]);
    let short =
        json!({"prompt": "She was", "max_completion_tokens": 3, "ignore_eos": true, "echo": true, "logprobs": 0});
    let answer = server.post("/v1/completions", &short).json();
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    let (choice, columns) = (&answer["choices"][0], &answer["choices"][0]["logprobs"]);
    for (token, offset) in columns["tokens"].as_array().unwrap().iter().zip(columns["text_offset"].as_array().unwrap())
    {
        let rest: String = choice["text"].as_str().unwrap().chars().skip(offset.as_u64().unwrap() as usize).collect();
        assert!(rest.starts_with(token.as_str().unwrap()), "{choice}");
    }
}

#[test]
fn who_has_no_key_is_not_answered() {
    let folder = Folder::new();
    folder.write("keys.txt", "ann 0123456789abcdef\n");
    let server = Server::start(&folder, &["--api-key-file", "keys.txt"]);
    for path in ["/v1/models", "/metrics", "/version", "/ready", "/nothing"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get_as("/v1/models", "Bearer 0123456789abcdef").status, 200);
    assert_eq!(server.get_as("/v1/models", "Bearer 0123456789abcdeg").status, 401);
    folder.run(&["serve", "--host", "0.0.0.0", "--port", "0"]).fails("--api-key-file");
    folder.run(&["serve", "--host", "here"]).fails("it must be an IP address of this machine, 0.0.0.0 for all, or");
    assert_eq!(Server::start(&folder, &["--host", "localhost"]).get("/health").status, 200);
    folder.run(&["serve", "--api-key-file", "none.txt"]).fails("none.txt");
    folder.run(&["serve", "--key", "none.key"]).fails("none.key");
}

/// Answers under way when the server is stopped are completed, and new requests are refused.
#[cfg(unix)]
#[test]
fn a_stop_waits_for_what_has_begun() {
    let (_folder, server) = Server::marking(&[]);
    let body = completion(json!({"max_tokens": 400, "ignore_eos": true, "stream": true}));
    let mut running = server.ask("/v1/completions", &body);
    let mut first = [0; 100];
    running.read_exact(&mut first).unwrap();
    let status = server.stop(|server| {
        let refused = std::iter::repeat_with(|| server.get("/health").status).take(200).find(|status| *status != 200);
        assert!(matches!(refused, Some(503)), "{refused:?}");
        let mut rest = String::new();
        running.read_to_string(&mut rest).unwrap();
        assert!(rest.trim_end().ends_with("data: [DONE]"), "{rest}");
    });
    assert_eq!(status, Some(0));
}

/// After a second signal, or when the drain time is over, the server stops without waiting.
#[cfg(unix)]
#[test]
fn a_stop_need_not_wait() {
    for (drain, tell_again) in [("60", true), ("0", false)] {
        let (_folder, server) = Server::marking(&["--drain", drain]);
        let body = completion(json!({"max_tokens": 1900, "ignore_eos": true, "stream": true, "n": 50}));
        let mut running = server.ask("/v1/completions", &body);
        running.read_exact(&mut [0; 100]).unwrap();
        let status = server.stop(|server| {
            if tell_again {
                let refused = std::iter::repeat_with(|| server.get("/health").status).find(|status| *status != 200);
                assert_eq!(refused, Some(503));
                server.tell_to_stop();
            }
        });
        assert_eq!(status, Some(0));
        let mut rest = String::new();
        let _ = running.read_to_string(&mut rest);
        assert!(!rest.contains("[DONE]"), "it was cut off");
    }
}
