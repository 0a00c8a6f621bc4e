//! The server, over HTTP: thoughts before answers.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use super::reasoning::THINKS;
use crate::support::server::Server;
use crate::support::{Folder, with};

fn server() -> (Folder, Server) {
    let folder = Folder::with_chat(THINKS);
    let server = Server::start(&folder, &["--model", "teller", "--key", "my.key", "--max-tokens", "120"]);
    (folder, server)
}

fn chat(more: Value) -> Value {
    let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}}});
    let body = json!({
        "messages": [{"role": "user", "content": "A number?"}], "seed": 5, "thinking_token_budget": 15,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
    });
    with(body, &more)
}

#[track_caller]
fn is_answer(content: &Value) {
    let answer: Value = serde_json::from_str(content.as_str().unwrap()).unwrap_or_else(|_| panic!("{content}"));
    assert!(answer["n"].as_u64().unwrap() < 100, "{content}");
}

#[test]
fn answers_have_their_thoughts_beside_them() {
    let (_folder, server) = server();
    let post = |body: &Value| server.post("/v1/chat/completions", body);
    let answer = post(&chat(json!({}))).json();
    let message = &answer["choices"][0]["message"];
    is_answer(&message["content"]);
    let thought = message["reasoning_content"].as_str().unwrap();
    assert!(thought.len() > 10 && message["reasoning"] == thought, "{answer}");
    let tokens = answer["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap();
    assert!((16..30).contains(&tokens), "{answer}");

    // The stream has the same sections, in order.
    let events = post(&chat(json!({"stream": true}))).events();
    let joined = |field: &str| -> String {
        let deltas = events.iter().filter_map(|event| event["choices"][0]["delta"][field].as_str());
        deltas.collect()
    };
    assert_eq!((joined("reasoning_content"), joined("reasoning")), (thought.to_owned(), thought.to_owned()));
    assert_eq!(json!(joined("content")), message["content"]);
    let first_of = |field: &str| {
        let is_filled =
            |event: &Value| event["choices"][0]["delta"][field].as_str().is_some_and(|text| !text.is_empty());
        events.iter().position(is_filled).unwrap()
    };
    assert!(first_of("reasoning_content") < first_of("content"));

    let without = post(&chat(json!({"include_reasoning": false}))).json();
    let silent = &without["choices"][0]["message"];
    assert!(silent.get("reasoning").is_none() && silent["content"] == message["content"], "{without}");
    // Neither are its tokens returned.
    let with_tokens = |more: Value| {
        let all = json!({"return_token_ids": true, "logprobs": true});
        let choice = post(&chat(with(all, &more))).json()["choices"][0].clone();
        let texts = choice["logprobs"]["content"].as_array().unwrap().iter().map(|one| one["token"].as_str().unwrap());
        (choice["token_ids"].as_array().unwrap().clone(), texts.collect::<String>())
    };
    let (all, text_of_all) = with_tokens(json!({}));
    let (shown, text) = with_tokens(json!({"include_reasoning": false}));
    assert!(all.len() > shown.len() + 10 && all.ends_with(&shown), "{} of {}", shown.len(), all.len());
    assert!(text_of_all.contains(&thought[..8]) && !text.contains(&thought[..8]), "{text}");
    assert_eq!(json!(text.trim_start_matches('\n')), message["content"]);
    for off in [
        json!({"reasoning_effort": "none", "thinking_token_budget": null}),
        json!({"chat_template_kwargs": {"enable_thinking": false}}),
        json!({"reasoning": {"enabled": false}}),
    ] {
        let answer = post(&chat(off.clone())).json();
        is_answer(&answer["choices"][0]["message"]["content"]);
        assert!(answer["choices"][0]["message"].get("reasoning").is_none(), "{off}: {answer}");
    }
    // A thought that the limit cuts has no answer.
    let cut = json!({"response_format": null, "thinking_token_budget": null, "max_tokens": 6});
    let cut = &post(&chat(cut)).json()["choices"][0];
    assert_eq!((&cut["finish_reason"], &cut["message"]["content"]), (&json!("length"), &json!("")), "{cut}");
    assert_eq!(
        (&cut["watermark"]["status"], cut["message"]["reasoning"].is_string()),
        (&json!("skipped"), true),
        "{cut}"
    );
    let refusal = post(&chat(json!({"reasoning_effort": "huge"})));
    assert_eq!((refusal.status, &refusal.json()["error"]["param"]), (400, &json!("reasoning_effort")));
}

#[test]
fn responses_have_reasoning_items() {
    let (_folder, server) = server();
    let body = json!({"input": "A number?", "seed": 5, "max_output_tokens": 90, "reasoning": {"max_tokens": 12},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "integer", "maximum": 99}}}});
    let answer = server.post("/v1/responses", &body).json();
    let types = |items: &Value| -> Vec<Value> { items.as_array().unwrap().iter().map(|i| i["type"].clone()).collect() };
    assert_eq!(types(&answer["output"]), ["reasoning", "message"], "{answer}");
    let thought = &answer["output"][0]["content"][0];
    assert_eq!(thought["type"], "reasoning_text");
    let number = answer["output"][1]["content"][0]["text"].as_str().unwrap();
    assert!(number.trim().parse::<i64>().unwrap() < 100, "{answer}");

    let mut stream = body.clone();
    stream["stream"] = json!(true);
    let events = server.post("/v1/responses", &stream).named_events();
    let deltas = |kind: &str| -> String {
        events.iter().filter(|event| event["type"] == kind).map(|event| event["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(deltas("response.reasoning_text.delta"), thought["text"]);
    assert_eq!(deltas("response.output_text.delta"), number);
    let last = &events.last().unwrap()["response"];
    assert_eq!(types(&last["output"]), ["reasoning", "message"]);
    assert!(last["usage"]["output_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 12, "{last}");

    // A thought that the limit cuts is incomplete, and the only item, in both.
    let cut = json!({"input": "A number?", "seed": 5, "max_output_tokens": 5});
    let whole = server.post("/v1/responses", &cut).json();
    let events = server.post("/v1/responses", &with(cut, &json!({"stream": true}))).named_events();
    for answer in [&whole, &events.last().unwrap()["response"]] {
        let items = answer["output"].as_array().unwrap();
        let about: Vec<(&Value, &Value)> = items.iter().map(|item| (&item["type"], &item["status"])).collect();
        assert_eq!(about, [(&json!("reasoning"), &json!("incomplete"))], "{answer}");
    }
}
