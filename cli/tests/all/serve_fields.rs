//! The server, over HTTP: fields that clients of other servers send.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::server::{Answer, Server};
use crate::support::{Folder, until, with};

/// A chat template that shows reasoning of earlier answers, as those of reasoning models do.
const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {% if m.reasoning_content %}<{{ m.reasoning_content }}> \
    {% endif %}{{ m.content }}{{ '\n' }}{% endfor %}\
    {% if add_generation_prompt %}assistant: {% endif %}";

fn server(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::with_chat(TEMPLATE);
    let options = ["--model", "teller", "--key", "my.key", "--max-tokens", "150", "--log-format", "json"];
    let server = Server::start(&folder, &[&options[..], more].concat());
    (folder, server)
}

fn chat(server: &Server, more: &Value) -> Answer {
    let body = json!({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 12, "seed": 5});
    server.post("/v1/chat/completions", &with(body, more))
}

#[track_caller]
fn text(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

/// Fields that have no effect change no text, and other spellings mean the same as the usual ones.
#[test]
fn fields_of_other_servers_mean_what_they_say() {
    let (_folder, server) = server(&[]);
    let plain = text(&chat(&server, &json!({})));
    for more in [
        json!({"prompt_cache_key": "a", "prompt_cache_retention": "24h", "store": true, "metadata": {"a": "b"},
            "modalities": ["text"], "verbosity": "low", "include": ["x"], "truncation": "auto", "num_ctx": 4096,
            "keep_alive": "5m", "cache_prompt": true, "id_slot": 1, "prediction": {"type": "content", "content": "x"},
            "reasoning_effort": "none", "parallel_tool_calls": true, "web_search_options": null}),
        json!({"top_k": 0}),
        json!({"top_k": -1, "repeat_last_n": 64, "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1}),
        json!({"best_of": 1, "use_beam_search": false, "skip_special_tokens": true, "stop_token_ids": []}),
        json!({"max_tokens": null, "num_predict": 12}),
        json!({"max_tokens": null, "n_predict": 12}),
        json!({"max_tokens": null, "max_new_tokens": 12}),
    ] {
        let answer = chat(&server, &more);
        assert_eq!(text(&answer), plain, "{more}");
        assert_eq!(answer.header("x-ignored-fields"), None, "{more}");
    }
    let penalty = text(&chat(&server, &json!({"repetition_penalty": 1.9})));
    assert_eq!(text(&chat(&server, &json!({"repeat_penalty": 1.9, "repeat_last_n": -1}))), penalty);
    assert_ne!(penalty, plain);
    let schema = json!({"enum": ["yes", "no"]});
    let gbnf = "root ::= \"\\\"\" (\"yes\" | \"no\") \"\\\"\"";
    for more in [
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}),
        json!({"response_format": {"type": "json_object", "schema": schema}}),
        json!({"response_format": {"type": "json", "value": schema}}),
        json!({"response_format": {"type": "regex", "value": "\"(yes|no)\""}}),
        json!({"guided_json": schema}),
        json!({"guided_choice": ["\"yes\"", "\"no\""]}),
        json!({"guided_regex": "\"(yes|no)\""}),
        json!({"json_schema": schema}),
        json!({"grammar": {"type": "json", "value": schema}}),
        json!({"grammar": {"type": "lark", "value": "start: \"\\\"yes\\\"\" | \"\\\"no\\\"\""}}),
        json!({"grammar": gbnf}),
        json!({"guided_grammar": gbnf}),
        json!({"ebnf": gbnf}),
        json!({"structured_outputs": {"grammar": gbnf}}),
        json!({"structural_tag": {"type": "structural_tag", "format": {"type": "grammar", "grammar": gbnf}}}),
        json!({"structured_outputs": {"json": schema}}),
    ] {
        let text = text(&chat(&server, &more));
        assert!(["\"yes\"", "\"no\""].contains(&text.as_str()), "{more}: {text}");
    }
    for (more, param) in [
        (json!({"best_of": 2}), "best_of"),
        (json!({"logits_processors": ["x"]}), "logits_processors"),
        (json!({"stop_token_ids": [2]}), "stop_token_ids"),
        (json!({"suppress_tokens": [2]}), "suppress_tokens"),
        (json!({"entropy_threshold": 1}), "entropy_threshold"),
        (json!({"modalities": ["text", "audio"]}), "modalities"),
        (json!({"guided_whitespace_pattern": " ?"}), "guided_whitespace_pattern"),
        (json!({"reasoning_effort": "high"}), "reasoning_effort"),
        (json!({"thinking_token_budget": 5}), "thinking_token_budget"),
        (json!({"enable_thinking": true}), "enable_thinking"),
        (json!({"repeat_penalty": 1.1, "repeat_last_n": 64}), "repeat_last_n"),
        (json!({"web_search_options": {}}), "web_search_options"),
    ] {
        let answer = chat(&server, &more);
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (400, &json!("unsupported_field")), "{more}: {error}");
        assert_eq!(error["param"], param, "{more}");
    }
}

/// Unknown fields are reported in a header and in the log, unless the operator wants them refused.
#[test]
fn unknown_fields_are_reported_or_refused() {
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "Hi", "weight": 2}], "mood": "x"}]);
    let body = json!({"messages": messages, "max_tokens": 3, "seed": 5, "tempature": 1, "a\r\nset-cookie: b": 1});
    let expected = "messages[0].content[0].weight, messages[0].mood, tempature, a??set-cookie??b";
    let (_folder, lenient) = server(&[]);
    for is_stream in [false, true] {
        let body = with(body.clone(), &json!({"stream": is_stream}));
        let answer = lenient.post("/v1/chat/completions", &body);
        assert_eq!((answer.status, answer.header("x-ignored-fields")), (200, Some(expected)), "{answer:?}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    let is_logged = || lenient.log().iter().any(|line| line.contains(&format!("\"ignored_fields\":\"{expected}\"")));
    until(is_logged, || format!("{:?}", lenient.log()));
    let many: Value = (0..40).map(|number| (format!("field{number:02}"), json!(1))).collect();
    let answer = lenient.post("/v1/completions", &with(many, &json!({"prompt": "a", "max_tokens": 1})));
    let names = answer.header("x-ignored-fields").unwrap();
    assert!(names.starts_with("field00, ") && names.ends_with("field15, and 24 more"), "{names}");
    // Within constraints and choices of a mark, an unknown field could change the answer.
    for (more, param) in [
        (json!({"structured_outputs": {"regexp": "a"}}), "structured_outputs.regexp"),
        (json!({"response_format": {"type": "json_object", "strict": true}}), "response_format.strict"),
        (json!({"watermark": {"enabled": true, "key": "00"}}), "watermark.key"),
    ] {
        let answer = lenient.post("/v1/completions", &with(json!({"prompt": "a"}), &more));
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{error}");
    }
    let document = lenient.get("/openapi.json").json();
    assert!(document["components"]["schemas"]["ChatRequest"]["additionalProperties"].is_null());

    let (_folder, strict) = server(&["--strict"]);
    let answer = strict.post("/v1/chat/completions", &body);
    let error = &answer.json()["error"];
    assert_eq!((answer.status, &error["code"]), (400, &json!("unknown_field")), "{error}");
    assert_eq!(error["param"], "messages[0].content[0].weight");
    let document = strict.get("/openapi.json").json();
    assert_eq!(document["components"]["schemas"]["ChatRequest"]["additionalProperties"], false);
    assert_eq!(text(&chat(&strict, &json!({"user": "a", "num_ctx": 5}))), text(&chat(&lenient, &json!({}))));
}

/// Functions, OpenAI's first protocol for tools, are called and answered in its own fields.
#[test]
fn functions_are_called() {
    let (_folder, server) = server(&[]);
    let parameters = json!({
        "type": "object", "required": ["city"], "additionalProperties": false,
        "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    });
    let functions = json!([{"name": "weather", "description": "Does it.", "parameters": parameters}]);
    let more = json!({"functions": functions, "function_call": {"name": "weather"}, "max_tokens": 60});
    let answer = chat(&server, &more).json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "function_call", "{answer}");
    let call = &choice["message"]["function_call"];
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert!(call["name"] == "weather" && ["Oslo", "Rome"].contains(&arguments["city"].as_str().unwrap()), "{call}");
    assert!(choice["message"]["tool_calls"].is_null());

    let events = chat(&server, &with(more.clone(), &json!({"stream": true}))).events();
    let deltas = || events.iter().map(|event| &event["choices"][0]["delta"]["function_call"]);
    let streamed: String = deltas().filter_map(|delta| delta["arguments"].as_str()).collect();
    assert_eq!(Some(streamed.as_str()), call["arguments"].as_str());
    assert_eq!(deltas().filter(|delta| delta["name"] == "weather").count(), 1);
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "function_call");

    let messages = json!([
        {"role": "user", "content": "Hi"}, choice["message"], {"role": "function", "name": "weather", "content": "Sun"},
    ]);
    let after = chat(&server, &json!({"messages": messages, "functions": functions, "function_call": "none"}));
    assert!(!text(&after).is_empty());
}

/// A message can be continued, and reasoning of earlier answers is part of the prompt. `/tokenize` shows the prompts.
#[test]
fn prompts_end_where_the_request_says() {
    let (_folder, server) = server(&[]);
    let prompt = |more: Value| {
        let tokens = server.post("/tokenize", &more).json()["tokens"].clone();
        server.post("/detokenize", &json!({"tokens": tokens})).json()["prompt"].as_str().unwrap().to_owned()
    };
    let messages = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "The captain"}]);
    let within = json!({"messages": messages, "continue_final_message": true, "add_generation_prompt": false});
    assert_eq!(prompt(json!({"messages": messages})), "user: Hi\nassistant: The captain\nassistant: ");
    assert_eq!(prompt(within.clone()), "user: Hi\nassistant: The captain");
    let reasoned = json!([
        {"role": "user", "content": "Hi"}, {"role": "assistant", "reasoning": "Hm.", "content": "Yo"},
        {"role": "assistant", "reasoning_content": "Ah.", "content": "Oh"},
    ]);
    let expected = "user: Hi\nassistant: <Hm.> Yo\nassistant: <Ah.> Oh\nassistant: ";
    assert_eq!(prompt(json!({"messages": reasoned})), expected);

    // A continued message is written as the text after the same prompt.
    let continued = text(&chat(&server, &within));
    let body = json!({"prompt": prompt(within), "max_tokens": 12, "seed": 5});
    assert_eq!(server.post("/v1/completions", &body).json()["choices"][0]["text"], continued);
    let user = chat(&server, &json!({"continue_final_message": true}));
    assert_eq!((user.status, &user.json()["error"]["param"]), (400, &json!("continue_final_message")));
}
