//! The server, over HTTP: Anthropic's protocol.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::server::{Answer, Server};
use crate::support::{Folder, with};

const TEMPLATE: &str = "{% if tools %}Tools:{% for t in tools %} {{ t | tojson }}{% endfor %}\n{% endif %}\
    {% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}\
    {{ '\n<tool_call>\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}\
    {{ '}\n</tool_call>' }}{% endfor %}{{ '\n' }}{% endfor %}\
    {% if add_generation_prompt %}assistant: {% endif %}";

fn server(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::with_chat(TEMPLATE);
    folder.write("keys.txt", "ann 0123456789abcdef\n");
    let options = ["--model", "teller", "--key", "my.key", "--max-tokens", "150"];
    let server = Server::start(&folder, &[&options[..], more].concat());
    (folder, server)
}

fn body(more: &Value) -> Value {
    let body = json!({"model": "teller", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "seed": 5});
    with(body, more)
}

fn ask(server: &Server, more: &Value) -> Answer {
    server.post("/v1/messages", &body(more))
}

/// The message that the events of a stream make, as Anthropic's clients read them.
#[track_caller]
fn collected(events: &[Value]) -> Value {
    assert_eq!(events[0]["type"], "message_start");
    let mut message = events[0]["message"].clone();
    assert_eq!((&message["content"], &message["stop_reason"]), (&json!([]), &json!(null)));
    let mut open: Option<(Value, String)> = None;
    for event in &events[1..events.len() - 1] {
        let kind = event["type"].as_str().unwrap();
        if kind.starts_with("content_block") {
            assert_eq!(event["index"], message["content"].as_array().unwrap().len());
        }
        match kind {
            "ping" => (),
            "content_block_start" => assert!(open.replace((event["content_block"].clone(), String::new())).is_none()),
            "content_block_delta" => {
                let (block, json) = open.as_mut().unwrap();
                let delta = &event["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => {
                        let text = [block["text"].as_str().unwrap(), delta["text"].as_str().unwrap()].concat();
                        block["text"] = text.into();
                    }
                    "input_json_delta" => json.push_str(delta["partial_json"].as_str().unwrap()),
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let (mut block, json) = open.take().unwrap();
                if block["type"] == "tool_use" {
                    assert_eq!(block["input"], json!({}));
                    block["input"] = serde_json::from_str(&json).unwrap();
                }
                message["content"].as_array_mut().unwrap().push(block);
            }
            "message_delta" => {
                assert!(open.is_none() && event["watermark"]["status"].is_string(), "{event}");
                let message = message.as_object_mut().unwrap();
                message.extend(event["delta"].as_object().unwrap().clone());
                message.insert("usage".into(), event["usage"].clone());
                message.insert("watermark".into(), event["watermark"].clone());
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(events.last().unwrap(), &json!({"type": "message_stop"}));
    message
}

/// A message without the ids, which are new in each answer.
fn without_ids(mut message: Value) -> Value {
    message["id"] = json!(null);
    message["content"].as_array_mut().unwrap().iter_mut().for_each(|block| {
        block.as_object_mut().unwrap().remove("id");
    });
    message
}

/// A stream has the blocks of the whole message, and both say whether the text is marked.
#[test]
fn a_stream_is_the_whole_message() {
    let (_folder, server) = server(&[]);
    let tools = json!([
        {"name": "weather", "description": "Does it.", "input_schema": {
            "type": "object", "required": ["city"], "additionalProperties": false,
            "properties": {"city": {"enum": ["Oslo", "Rome"]}},
        }},
        {"name": "now", "input_schema": {"type": "object", "additionalProperties": false}},
    ]);
    for (more, reason) in [
        (json!({}), "max_tokens"),
        (json!({"temperature": 0, "top_k": 3, "stop_sequences": ["\n", "."], "max_tokens": 150}), "stop_sequence"),
        (
            json!({"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"enum": [17]}}}}),
            "end_turn",
        ),
        (json!({"tools": tools, "tool_choice": {"type": "any"}, "max_tokens": 100}), "tool_use"),
        (
            json!({"tools": tools, "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": true},
                "max_tokens": 100}),
            "tool_use",
        ),
    ] {
        let whole = ask(&server, &more).json();
        assert_eq!(
            (&whole["type"], &whole["role"], &whole["model"]),
            (&json!("message"), &json!("assistant"), &json!("teller"))
        );
        assert!(whole["id"].as_str().unwrap().starts_with("msg_"), "{whole}");
        assert_eq!(whole["stop_reason"], reason, "{whole}");
        let stop: Vec<Value> =
            if reason == "stop_sequence" { vec![json!("\n"), json!(".")] } else { vec![json!(null)] };
        assert!(stop.contains(&whole["stop_sequence"]), "{whole}");
        assert!(whole["watermark"]["status"].is_string() && whole["usage"]["input_tokens"].as_u64().unwrap() > 3);
        assert_eq!(whole["usage"]["cache_read_input_tokens"], 0);
        let mut stream = more.clone();
        stream["stream"] = json!(true);
        let events = ask(&server, &stream).named_events();
        assert_eq!(events[0]["message"]["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
        assert_eq!(without_ids(collected(&events)), without_ids(whole.clone()), "{more}");
        let content = whole["content"].as_array().unwrap();
        match reason {
            "tool_use" => {
                let calls: Vec<&Value> = content.iter().filter(|block| block["type"] == "tool_use").collect();
                assert!(!calls.is_empty());
                for call in calls {
                    match call["name"].as_str().unwrap() {
                        "weather" => assert!(["Oslo", "Rome"].contains(&call["input"]["city"].as_str().unwrap())),
                        _ => assert_eq!(call["input"], json!({})),
                    }
                }
            }
            "end_turn" => assert_eq!(content, &[json!({"type": "text", "text": "17"})]),
            _ => assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text"))),
        }
    }
}

/// The text is that of the same chat in OpenAI's protocol: with instructions, calls, results, reasoning, a continued
/// answer, and the fields that Claude Code sends.
#[test]
fn conversations_are_those_of_chats() {
    let (_folder, server) = server(&[]);
    let messages = json!([
        {"role": "user", "content": [{"type": "text", "text": "Weather?", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call00001", "name": "weather", "input": {"city": "Oslo"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "call00001", "content": [{"type": "text", "text": "Sun"}], "is_error": false},
            {"type": "text", "text": "So?"},
        ]},
        {"role": "assistant", "content": "There is"},
    ]);
    let system = json!([
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.0; cch=aa11"},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ]);
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let claude = json!({
        "system": system, "messages": messages, "metadata": {"user_id": "u"}, "thinking": {"type": "disabled"},
        "tools": [{"name": "weather", "description": "Does it.", "input_schema": parameters, "cache_control": null}],
        "tool_choice": {"type": "none"}, "diagnostics": {}, "speed": "standard",
        "context_management": {"edits": [{"type": "clear_thinking_20251015"}]}, "service_tier": "auto",
    });
    let answer = ask(&server, &claude);
    assert_eq!((answer.status, answer.header("x-ignored-fields")), (200, None), "{answer:?}");
    let call = json!({"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}});
    let chat = json!({
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call00001", "content": "Sun"},
            {"role": "user", "content": "So?"},
            {"role": "assistant", "content": "There is"},
        ],
        "continue_final_message": true, "add_generation_prompt": false, "max_tokens": 12, "seed": 5,
    });
    let expected = server.post("/v1/chat/completions", &chat).json();
    let answer = answer.json();
    assert_eq!(answer["content"][0]["text"], expected["choices"][0]["message"]["content"], "{answer}");
    assert_eq!(answer["usage"]["input_tokens"], expected["usage"]["prompt_tokens"]);

    // Its tokens can be counted; tools that may be called are part of the prompt.
    let mut count = claude.clone();
    count["model"] = json!("teller");
    let counted = server.post("/v1/messages/count_tokens", &count).json();
    assert_eq!(counted, json!({"input_tokens": answer["usage"]["input_tokens"]}));
    count["tool_choice"] = json!({"type": "auto"});
    let with_tools = server.post("/v1/messages/count_tokens", &count).json();
    assert!(with_tools["input_tokens"].as_u64() > counted["input_tokens"].as_u64());
    let unmarked = ask(&server, &json!({"watermarking": false, "return_token_ids": true})).json();
    assert_eq!(unmarked["watermark"]["status"], "not_watermarked");
    assert_eq!(unmarked["token_ids"].as_array().unwrap().len(), 12);
}

/// Errors have Anthropic's format, whatever their cause, and an API key may come in `x-api-key`.
#[test]
fn errors_have_their_own_format() {
    let (_folder, server) = server(&["--api-key-file", "keys.txt", "--max-body", "3000", "--strict"]);
    let post = |path: &str, headers: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}");
        server.raw(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap()
    };
    let key = "X-Api-Key: 0123456789abcdef\r\nAnthropic-Version: 2023-06-01\r\n";
    let good = body(&json!({})).to_string();
    let answer = post("/v1/messages", key, &good);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
    assert_eq!(post("/v1/messages", "Authorization: Bearer 0123456789abcdef\r\n", &good).status, 200);
    let text = |more: Value| body(&more).to_string();
    for (path, headers, body, status, kind) in [
        ("/v1/messages", "", good.clone(), 401, "authentication_error"),
        ("/v1/messages", "X-Api-Key: 0123456789abcdeg\r\n", good.clone(), 401, "authentication_error"),
        ("/v1/messages/count_tokens", "", good.clone(), 401, "authentication_error"),
        ("/v1/messages", key, "{".into(), 400, "invalid_request_error"),
        ("/v1/messages", key, text(json!({"messages": []})), 400, "invalid_request_error"),
        ("/v1/messages", key, text(json!({"mood": 1})), 400, "invalid_request_error"),
        (
            "/v1/messages",
            key,
            text(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}})),
            400,
            "invalid_request_error",
        ),
        ("/v1/messages", key, text(json!({"model": "claude"})), 404, "not_found_error"),
        ("/v1/messages/count_tokens", key, good.clone(), 400, "invalid_request_error"),
        ("/v1/messages", key, " ".repeat(4000), 413, "request_too_large"),
        ("/v1/none", key, "{}".into(), 404, "not_found_error"),
        (
            "/v1/messages",
            "Sec-Fetch-Site: cross-site\r\nX-Api-Key: 0123456789abcdef\r\n",
            good.clone(),
            403,
            "permission_error",
        ),
    ] {
        let answer = post(path, headers, &body);
        let error = answer.json();
        assert_eq!((answer.status, &error["type"]), (status, &json!("error")), "{path} {error}");
        assert_eq!(error["error"]["type"], kind, "{error}");
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
        assert!(answer.head.contains("content-type: application/json"), "{answer:?}");
    }
    // Other clients get OpenAI's format, and the list of models has the names of both.
    assert_eq!(
        post("/v1/none", "Authorization: Bearer 0123456789abcdef\r\n", "{}").json()["error"]["code"],
        "unknown_route"
    );
    let models = server.get_as("/v1/models", "Bearer 0123456789abcdef").json();
    assert_eq!((&models["data"][0]["display_name"], &models["has_more"]), (&json!("teller"), &json!(false)));
}

/// A text that is refused at its end ends a stream with an error, in the format of each protocol.
#[test]
fn a_refused_text_ends_its_stream_with_an_error() {
    let (_folder, server) = server(&["--unmarkable", "refuse"]);
    let whole = ask(&server, &json!({"max_tokens": 2}));
    assert_eq!((whole.status, &whole.json()["error"]["code"]), (422, &json!("unmarkable")), "{whole:?}");
    let events = ask(&server, &json!({"max_tokens": 2, "stream": true})).named_events();
    let (last, before) = events.split_last().unwrap();
    assert_eq!((&last["type"], &last["error"]["code"]), (&json!("error"), &json!("unmarkable")), "{events:?}");
    assert!(before.iter().all(|event| event["type"] != "message_stop"));
    let options = json!({"num_predict": 2, "seed": 5});
    let lines = server.post("/api/generate", &json!({"prompt": "Hi", "options": options})).lines();
    assert!(lines.last().unwrap()["error"].as_str().unwrap().contains("mark"), "{lines:?}");
}
