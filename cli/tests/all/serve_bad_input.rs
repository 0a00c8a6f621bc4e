//! Bad requests: each has a status and a code that `docs/serve.md` documents, and an error in OpenAI's format.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::Folder;
use crate::support::server::Server;

const KEY: &str = "0123456789abcdef";

/// Bad fields of a completion request that is good without them.
const FIELDS: &[(&str, u16, &str, &str)] = &[
    (r#""model": "gpt-4""#, 404, "model_not_found", "model"),
    (r#""model": 5"#, 400, "invalid_type", "model"),
    (r#""max_tokens": -1"#, 400, "invalid_value", "max_tokens"),
    (r#""max_tokens": 0"#, 400, "invalid_value", "max_tokens"),
    (r#""max_tokens": 1.5"#, 400, "invalid_value", "max_tokens"),
    (r#""max_tokens": "9""#, 400, "invalid_value", "max_tokens"),
    (r#""max_tokens": 1e300"#, 400, "invalid_value", "max_tokens"),
    (r#""max_tokens": 18446744073709551616"#, 400, "invalid_value", "max_tokens"),
    (r#""max_tokens": [8]"#, 400, "invalid_value", "max_tokens"),
    (r#""min_tokens": -1"#, 400, "invalid_value", "min_tokens"),
    (r#""temperature": 900"#, 400, "invalid_value", "temperature"),
    (r#""temperature": -0.1"#, 400, "invalid_value", "temperature"),
    (r#""temperature": "hot""#, 400, "invalid_type", "temperature"),
    (r#""temperature": {}"#, 400, "invalid_type", "temperature"),
    (r#""top_p": 0"#, 400, "invalid_value", "top_p"),
    (r#""top_p": 1.1"#, 400, "invalid_value", "top_p"),
    (r#""top_k": -7"#, 400, "invalid_value", "top_k"),
    (r#""top_k": 99999999999999999999"#, 400, "invalid_value", "top_k"),
    (r#""min_p": 2"#, 400, "invalid_value", "min_p"),
    (r#""presence_penalty": 101"#, 400, "invalid_value", "presence_penalty"),
    (r#""frequency_penalty": -101"#, 400, "invalid_value", "frequency_penalty"),
    (r#""repetition_penalty": 0"#, 400, "invalid_value", "repetition_penalty"),
    (r#""logit_bias": [5]"#, 400, "invalid_type", "logit_bias"),
    (r#""logit_bias": {"x": 1}"#, 400, "invalid_value", "logit_bias.x"),
    (r#""logit_bias": {"5": 101}"#, 400, "invalid_value", "logit_bias.5"),
    (r#""logit_bias": {"99999999": 5}"#, 400, "invalid_value", "logit_bias"),
    (r#""seed": 0.5"#, 400, "invalid_type", "seed"),
    (r#""seed": 1e40"#, 400, "invalid_type", "seed"),
    (r#""n": 0"#, 400, "invalid_value", "n"),
    (r#""n": 129"#, 400, "invalid_value", "n"),
    (r#""n": true"#, 400, "invalid_value", "n"),
    (r#""stop": 5"#, 400, "invalid_type", "stop"),
    (r#""stop": ["a", ""]"#, 400, "invalid_value", "stop"),
    (r#""stop": ["a", "b", "c", "d", "e"]"#, 400, "invalid_value", "stop"),
    (r#""logprobs": 21"#, 400, "invalid_value", "logprobs"),
    (r#""logprobs": true"#, 400, "invalid_value", "logprobs"),
    (r#""echo": "yes""#, 400, "invalid_type", "echo"),
    (r#""stream": "yes""#, 400, "invalid_type", "stream"),
    (r#""stream_options": {}"#, 400, "invalid_value", "stream_options"),
    (r#""stream": true, "stream_options": {"chunks": 1}"#, 400, "unknown_field", "stream_options.chunks"),
    (r#""alpha": 0.5"#, 400, "alpha_not_allowed", "alpha"),
    (r#""alpha": -1"#, 400, "invalid_value", "alpha"),
    (r#""alpha": "more""#, 400, "invalid_value", "alpha"),
    (r#""best_of": 3"#, 400, "unsupported_field", "best_of"),
    (r#""suffix": "y""#, 400, "unsupported_field", "suffix"),
    (r#""sufix": "y""#, 400, "unknown_field", "sufix"),
    (r#""\u0000": 1"#, 400, "unknown_field", "\u{0}"),
    (r#""watermarking": "yes""#, 400, "invalid_type", "watermarking"),
    (r#""watermarking": false"#, 400, "watermark_enforced", "watermarking"),
    (r#""watermark": {"enabled": false}"#, 400, "watermark_enforced", "watermark.enabled"),
    (r#""watermark": {"enabled": true}, "watermarking": false"#, 400, "contradiction", "watermark.enabled"),
    (r#""watermark": {"key": "00"}"#, 400, "unknown_field", "watermark.key"),
    (r#""watermark": true"#, 400, "invalid_type", "watermark"),
    (r#""response_format": "json_object""#, 400, "invalid_type", "response_format"),
    (r#""response_format": {"type": "grammar"}"#, 400, "invalid_value", "response_format.type"),
    (r#""response_format": {"type": "json_schema"}"#, 400, "missing_field", "response_format.json_schema"),
    (r#""structured_outputs": {}"#, 400, "missing_field", "structured_outputs"),
    (r#""structured_outputs": {"regex": "a", "choice": ["b"]}"#, 400, "two_constraints", "structured_outputs"),
    (
        r#""structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}"#,
        400,
        "two_constraints",
        "structured_outputs.regex",
    ),
    (r#""structured_outputs": {"grammar": "root ::= x"}"#, 400, "invalid_grammar", "structured_outputs.grammar"),
    (r#""structured_outputs": {"regex": "("}"#, 400, "invalid_regex", "structured_outputs.regex"),
    (r#""structured_outputs": {"regex": "((a{999}){999}){999}"}"#, 400, "invalid_regex", "structured_outputs.regex"),
    (r#""structured_outputs": {"regex": 3}"#, 400, "invalid_type", "structured_outputs.regex"),
    (r#""structured_outputs": {"choice": []}"#, 400, "invalid_choice", "structured_outputs.choice"),
    (r#""structured_outputs": {"choice": [1]}"#, 400, "invalid_type", "structured_outputs.choice"),
    (r#""structured_outputs": {"json": "{"}"#, 400, "invalid_json_schema", "structured_outputs.json"),
    (r#""structured_outputs": {"json": {"type": "nothing"}}"#, 400, "invalid_json_schema", "structured_outputs.json"),
    (r#""structured_outputs": {"json": {"$ref": "http://x/"}}"#, 400, "invalid_json_schema", "structured_outputs.json"),
    (r##""structured_outputs": {"json": {"$ref": "#/none"}}"##, 400, "invalid_json_schema", "structured_outputs.json"),
    (r#""structured_outputs": {"json": false}"#, 400, "invalid_json_schema", "structured_outputs.json"),
    (
        r#""structured_outputs": {"json": {"type": "integer", "minimum": 5, "maximum": 4}}"#,
        400,
        "invalid_json_schema",
        "structured_outputs.json",
    ),
    (r#""structured_outputs": {"json": {"type": "string", "minLength": 5000}}"#, 400, "no_room", "max_tokens"),
];

/// Bad bodies, with the path, the status and the code.
const BODIES: &[(&str, &str, u16, &str)] = &[
    ("/v1/completions", "", 400, "invalid_json"),
    ("/v1/completions", "{", 400, "invalid_json"),
    ("/v1/completions", "null", 400, "invalid_type"),
    ("/v1/completions", "[]", 400, "invalid_type"),
    ("/v1/completions", "\"prompt\"", 400, "invalid_type"),
    ("/v1/completions", "{}", 400, "missing_field"),
    ("/v1/completions", r#"{"prompt": null}"#, 400, "missing_field"),
    ("/v1/completions", r#"{"prompt": 7}"#, 400, "invalid_type"),
    ("/v1/completions", r#"{"prompt": []}"#, 400, "invalid_value"),
    ("/v1/completions", r#"{"prompt": [3, "a"]}"#, 400, "invalid_type"),
    ("/v1/completions", r#"{"prompt": [99999999]}"#, 400, "invalid_value"),
    ("/v1/completions", r#"{"prompt": "a"} {"prompt": "b"}"#, 400, "invalid_json"),
    ("/v1/completions", r#"{"prompt": "a", "prompt": "b"}"#, 400, "invalid_json"),
    ("/v1/completions", r#"{"prompt": "a", "watermarking": true, "watermarking": false}"#, 400, "invalid_json"),
    ("/v1/completions", r#"{"prompt": "\ud800"}"#, 400, "invalid_json"),
    ("/v1/completions", r#"{"prompt": "a", "temperature": NaN}"#, 400, "invalid_json"),
    ("/v1/completions", "prompt=a&max_tokens=3", 400, "invalid_json"),
    ("/v1/chat/completions", "{}", 400, "missing_field"),
    ("/v1/chat/completions", r#"{"messages": []}"#, 400, "invalid_value"),
    ("/v1/chat/completions", r#"{"messages": "hello"}"#, 400, "invalid_type"),
    ("/v1/chat/completions", r#"{"messages": [{"role": "robot", "content": "x"}]}"#, 400, "invalid_value"),
    ("/v1/chat/completions", r#"{"messages": [{"role": "user", "content": 7}]}"#, 400, "invalid_type"),
    (
        "/v1/chat/completions",
        r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#,
        400,
        "unsupported_content",
    ),
    ("/v1/chat/completions", r#"{"messages": [{"role": "user", "content": "x", "weight": 1}]}"#, 400, "unknown_field"),
    ("/v1/chat/completions", r#"{"messages": [{"role": "user", "content": "x"}]}"#, 400, "no_chat_template"),
    ("/tokenize", "{}", 400, "missing_field"),
    ("/tokenize", r#"{"prompt": 5}"#, 400, "invalid_type"),
    ("/tokenize", r#"{"prompt": "a", "model": "x"}"#, 404, "model_not_found"),
    ("/detokenize", r#"{"tokens": [-1]}"#, 400, "invalid_type"),
    ("/detokenize", r#"{"tokens": [99999999]}"#, 400, "invalid_value"),
    ("/detect", "{}", 400, "missing_field"),
    ("/detect", r#"{"text": "a", "key_id": "other"}"#, 400, "unknown_key"),
    ("/detect", r#"{"text": "a", "level": 0}"#, 400, "invalid_value"),
    ("/detect", r#"{"text": "a", "token_ids": [1]}"#, 400, "contradiction"),
];

/// Bad request heads with a valid API key, with the status and the code. An empty code means that the server cannot
/// parse the request and answers with the status alone.
const HEADS: &[(&str, u16, &str)] = &[
    ("GET /v1/completions HTTP/1.1", 405, "method_not_allowed"),
    ("PUT /v1/completions HTTP/1.1", 405, "method_not_allowed"),
    ("DELETE /v1/models/tale HTTP/1.1", 405, "method_not_allowed"),
    ("OPTIONS /v1/models HTTP/1.1", 405, "method_not_allowed"),
    ("POST /health HTTP/1.1", 405, "method_not_allowed"),
    ("GET /nothing HTTP/1.1", 404, "unknown_route"),
    ("GET /v1/models/../../etc/passwd HTTP/1.1", 404, "unknown_route"),
    ("GET /v1/models/..%2f..%2fetc%2fpasswd HTTP/1.1", 404, "model_not_found"),
    ("GET /v1/models/%00 HTTP/1.1", 404, "model_not_found"),
    ("GET /v1/models/%ff HTTP/1.1", 404, "model_not_found"),
    ("GET /v1/models/ HTTP/1.1", 404, "unknown_route"),
    ("GET //health HTTP/1.1", 404, "unknown_route"),
    ("GET /%68ealth HTTP/1.1", 404, "unknown_route"),
    ("GET /health/ HTTP/1.1", 404, "unknown_route"),
    ("POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999", 413, "body_too_large"),
    ("POST /v1/completions HTTP/1.1\r\nContent-Length: -5", 400, ""),
    ("POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999999", 400, ""),
    ("POST /v1/completions HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4", 400, ""),
    ("POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 0", 415, "unsupported_media_type"),
    ("POST /v1/completions HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x", 415, "unsupported_media_type"),
    ("POST /v1/completions HTTP/1.1\r\nContent-Encoding: gzip", 415, "unsupported_media_type"),
    ("POST /v1/completions HTTP/1.1\r\nSec-Fetch-Site: cross-site", 403, "cross_site"),
    ("POST /v1/completions HTTP/1.1\r\nSec-Fetch-Site: same-site", 403, "cross_site"),
    ("GET /health HTTP/9.9", 400, ""),
    ("PRI * HTTP/2.0", 400, ""),
    ("GET /hea lth HTTP/1.1", 400, ""),
    ("\u{0}\u{1}\u{2}", 400, ""),
];

/// Requests with a missing or wrong API key. Only `/health` and the page are public.
const STRANGERS: &[(&str, u16)] = &[
    ("GET /health HTTP/1.1", 200),
    ("HEAD /health HTTP/1.1", 200),
    ("GET /health HTTP/1.0", 200),
    ("GET http://localhost/health HTTP/1.1", 200),
    // The page contains no secrets, and asks for the key itself.
    ("GET / HTTP/1.1", 200),
    ("GET /page/page.js HTTP/1.1", 200),
    ("GET /page/%ff HTTP/1.1", 404),
    ("GET /page/../metrics HTTP/1.1", 404),
    ("POST / HTTP/1.1", 405),
    ("GET /about HTTP/1.1", 401),
    ("GET /page HTTP/1.1", 401),
    ("GET /ready HTTP/1.1", 401),
    ("GET /metrics HTTP/1.1", 401),
    ("HEAD /metrics HTTP/1.1", 401),
    ("OPTIONS /v1/models HTTP/1.1", 401),
    ("TRACE /v1/models HTTP/1.1", 401),
    ("GET /v1/completions HTTP/1.1", 401),
    ("GET /nothing HTTP/1.1", 401),
    ("GET //health HTTP/1.1", 401),
    ("GET /%68ealth HTTP/1.1", 401),
    ("GET /health/ HTTP/1.1", 401),
    ("GET /health/../metrics HTTP/1.1", 401),
    ("GET /metrics?x=/health HTTP/1.1", 401),
    ("CONNECT localhost:80 HTTP/1.1", 401),
    ("POST /v1/completions HTTP/1.1\r\nContent-Length: 999999", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Bearer", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Bearer ", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdeg", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef0", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Bearer 0123456789ABCDEF", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Basic 0123456789abcdef", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: 0123456789abcdef", 401),
    ("GET /metrics HTTP/1.1\r\nX-Api-Key: 0123456789abcdeg", 401),
    ("GET /metrics HTTP/1.1\r\nX-Api-Key: ", 401),
    ("GET /metrics HTTP/1.1\r\nX-Api-Key: Bearer 0123456789abcdef", 401),
    // The right key, without the right.
    ("GET /metrics HTTP/1.1\r\nX-Api-Key: 0123456789abcdef", 403),
    ("GET /metrics?api_key=0123456789abcdef HTTP/1.1", 401),
    ("GET /metrics HTTP/1.1\r\nAuthorization: Bearer \u{ff}", 401),
];

fn server() -> (Folder, Server) {
    let folder = Folder::with_key();
    folder.write("keys.txt", &format!("ann {KEY}\n"));
    let keys = ["--key", "my.key", "--enforce-all", "--api-key-file", "keys.txt", "--strict"];
    let limits = ["--max-body", "20000", "--max-read-seconds", "2"];
    let server = Server::start(&folder, &[&keys[..], &limits].concat());
    (folder, server)
}

/// A raw HTTP request with the right API key.
fn posted(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
    [&with_key(&head), body].concat()
}

fn with_key(head: &str) -> Vec<u8> {
    format!("{}\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {KEY}\r\n\r\n", head.trim_end())
        .into_bytes()
}

/// Asserts that a request is refused with this status and code. Returns the body.
#[track_caller]
fn refuses(server: &Server, name: &str, request: &[u8], status: u16, code: &str) -> Value {
    let answer = server.raw(request).unwrap_or_else(|| panic!("{name}: no answer"));
    assert_eq!(answer.status, status, "{name}: {answer:?}");
    if code.is_empty() {
        assert_eq!(answer.text, "", "{name}");
        return Value::Null;
    }
    assert!(answer.head.contains("content-type: application/json"), "{name}: {answer:?}");
    assert!(answer.head.contains("x-request-id: "), "{name}: {answer:?}");
    let body = answer.json();
    let error = body["error"].as_object().unwrap_or_else(|| panic!("{name}: {answer:?}"));
    assert_eq!(error["code"], code, "{name}: {error:?}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty() && !message.contains('\n')), "{name}");
    assert!(error["type"].is_string() && error.len() == 4, "{name}: {error:?}");
    body
}

#[test]
fn every_bad_request_has_its_own_refusal() {
    let (_folder, server) = server();
    for &(field, status, code, param) in FIELDS {
        let body = format!(r#"{{"prompt": "The", "max_tokens": 8, {field}}}"#);
        // Avoids a duplicate name.
        let body = if field.contains("max_tokens\":") { body.replacen(r#""max_tokens": 8, "#, "", 1) } else { body };
        let error = refuses(&server, field, &posted("/v1/completions", body.as_bytes()), status, code);
        assert_eq!(error["error"]["param"], param, "{field}: {error}");
        // A stream is refused before it begins, like everything else.
        if !field.contains("stream") {
            let body = body.replacen('{', r#"{"stream": true, "#, 1);
            refuses(&server, field, &posted("/v1/completions", body.as_bytes()), status, code);
        }
    }
    for &(path, body, status, code) in BODIES {
        refuses(&server, body, &posted(path, body.as_bytes()), status, code);
    }
    for &(head, status, code) in HEADS {
        refuses(&server, head, &with_key(head), status, code);
    }
    let deep = |one: &str| format!("{{\"prompt\": {}", one.repeat(500));
    let schema = (0..200).fold(json!({}), |inner, _| json!({"type": "array", "items": inner}));
    let deep_schema = json!({"prompt": "a", "structured_outputs": {"json": schema}}).to_string();
    let long = json!({"prompt": "word ".repeat(3000)}).to_string();
    let many = json!({"prompt": vec!["a"; 129]}).to_string();
    let stop = json!({"prompt": "a", "stop": "x".repeat(2000)}).to_string();
    let texts = json!({"texts": vec!["a"; 1001]}).to_string();
    for (name, path, body, status, code) in [
        ("deep arrays", "/v1/completions", deep("[").as_bytes(), 400, "invalid_json"),
        ("deep objects", "/v1/completions", deep("{\"a\": ").as_bytes(), 400, "invalid_json"),
        ("a deep schema", "/v1/completions", deep_schema.as_bytes(), 400, "invalid_json"),
        ("a long prompt", "/v1/completions", long.as_bytes(), 400, "context_length_exceeded"),
        ("many prompts", "/v1/completions", many.as_bytes(), 400, "invalid_value"),
        ("a long stop string", "/v1/completions", stop.as_bytes(), 400, "invalid_value"),
        ("many texts", "/detect", texts.as_bytes(), 400, "invalid_value"),
        ("no UTF-8", "/v1/completions", &b"\xff\xfe\x00"[..], 400, "invalid_json"),
        ("no UTF-8 in a string", "/v1/completions", &b"{\"prompt\": \"\xc3\x28\"}"[..], 400, "invalid_json"),
        ("a long body", "/v1/completions", &[b' '; 30_000][..], 413, "body_too_large"),
    ] {
        refuses(&server, name, &posted(path, body), status, code);
    }
    let header =
        |name: &str, bytes: usize| with_key(&format!("GET /v1/models HTTP/1.1\r\n{name}: {}", "x".repeat(bytes)));
    refuses(&server, "a long header", &header("X-Long", 20_000), 431, "headers_too_large");
    // The connection decides how much of a far too long head is read, and so whether the answer has a body.
    assert_eq!(server.raw(&header("X-Long", 300_000)).map(|answer| answer.status), Some(431));
    let path = format!("GET /v1/models/{} HTTP/1.1", "x".repeat(20_000));
    refuses(&server, "a long address", &with_key(&path), 431, "headers_too_large");
    let all: String = (0..600).map(|number| format!("\r\nX-{number}: x")).collect();
    refuses(&server, "many headers", &with_key(&format!("GET /v1/models HTTP/1.1{all}")), 431, "");
    let chunked = |body: &str| {
        let head = with_key("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked");
        [&head[..], body.as_bytes()].concat()
    };
    let long = format!("7530\r\n{}\r\n0\r\n\r\n", " ".repeat(30_000));
    refuses(&server, "chunks beyond the limit", &chunked(&long), 413, "body_too_large");
    refuses(&server, "a bad chunk", &chunked("xyz\r\n"), 400, "invalid_body");
    refuses(&server, "chunks of bad JSON", &chunked("1\r\n{\r\n0\r\n\r\n"), 400, "invalid_json");
    refuses(
        &server,
        "a body that never comes",
        &with_key("POST /detect HTTP/1.1\r\nContent-Length: 9"),
        408,
        "body_too_slow",
    );
    // If a head never ends, the connection is closed.
    assert!(server.raw(b"GET /health HTTP/1.1\r\nX-Slow: ").is_none_or(|answer| answer.status == 408));

    let good = server.raw(&posted("/v1/completions", br#"{"prompt": "The", "max_tokens": 3}"#)).unwrap();
    assert_eq!(good.status, 200, "the server still answers: {good:?}");
    assert!(!server.log().iter().any(|line| line.contains("panicked")), "{:?}", server.log());
}

#[test]
fn who_has_no_key_sees_nothing_but_health_and_the_page() {
    let (_folder, server) = server();
    for &(head, status) in STRANGERS {
        let request = format!("{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = server.raw(request.as_bytes()).unwrap_or_else(|| panic!("{head}: no answer"));
        assert_eq!(answer.status, status, "{head}: {answer:?}");
        if status == 401 && !head.starts_with("HEAD") && !head.starts_with("CONNECT") {
            assert_eq!(answer.json()["error"]["code"], "invalid_api_key", "{head}");
        }
    }
}

/// DNS rebinding: a page whose name resolves to this machine sends requests that look like those of the server's own
/// page, except for the name.
#[test]
fn a_page_that_rebinds_its_name_is_refused() {
    let (_folder, server) = Server::marking(&["--allowed-host", "models.lan"]);
    let body = r#"{"text": "The captain of the ship", "tokens": true}"#;
    let ask = |host: &str, more: &str| {
        let head = format!("POST /detect HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let answer = server.raw(request.as_bytes()).expect("an answer");
        (answer.status, answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let rebound = "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n";
    assert_eq!(ask("evil.example", rebound), (403, "unknown_host".into()));
    assert_eq!(ask("evil.example", ""), (403, "unknown_host".into()));
    assert_eq!(ask("localhost:8702", rebound), (403, "cross_site".into()));
    for host in ["localhost:8702", "127.0.0.1", "[::1]:1", "models.lan"] {
        assert_eq!(ask(host, &format!("Origin: http://{host}\r\n")).0, 200, "{host}");
    }
    // The page itself is not served under another name either.
    let page = server.raw(b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(page.status, 403);
    // Probes use an address, and so may clients with an API key, which a page does not have.
    let get = |server: &Server, path: &str, more: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 10.0.0.7:8000\r\nConnection: close\r\n{more}\r\n");
        server.raw(request.as_bytes()).expect("an answer").status
    };
    assert_eq!((get(&server, "/health", ""), get(&server, "/v1/models", "")), (200, 403));
    let folder = Folder::with_key();
    folder.write("api-keys", "ann 0123456789abcdef\n");
    let server = Server::start(&folder, &["--allowed-host", "models.lan", "--api-key-file", "api-keys"]);
    let key = "Authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(get(&server, "/v1/models", key), 200);
    assert_eq!(get(&server, "/v1/models", "Authorization: Bearer 0123456789abcdeg\r\n"), 403);
    assert_eq!(get(&server, "/v1/models", &format!("{key}Origin: http://10.0.0.7:8000\r\n")), 403);
}
