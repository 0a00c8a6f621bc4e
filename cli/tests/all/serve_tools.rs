//! The server, over HTTP: tools, and `/v1/responses`.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL, with};

/// The chat template of a model that supports tools, modelled on Qwen's.
const KNOWS: &str = "{% if tools %}Tools:{% for t in tools %} {{ t | tojson }}{% endfor %}\n{% endif %}\
    {% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls %}\
    {{ '\n<tool_call>\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}{{ c.function.arguments | tojson }}\
    {{ '}\n</tool_call>' }}{% endfor %}\n{% endfor %}assistant: ";

/// The chat template of a model that does not.
const PLAIN: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ";

/// A server with a small model, this chat template and a key.
fn server(template: &str) -> (Folder, Server) {
    let folder = Folder::with_chat(template);
    let server = Server::start(&folder, &["--model", "teller", "--key", "my.key", "--max-tokens", "150"]);
    (folder, server)
}

fn tools() -> Value {
    let function = |name: &str, parameters: Value| json!({"type": "function", "function": {"name": name, "description": "Does it.", "parameters": parameters}});
    let weather = json!({
        "type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    });
    let sum = json!({
        "type": "object", "required": ["numbers"],
        "properties": {"numbers": {"type": "array", "items": {"type": "integer", "maximum": 99}, "maxItems": 4}},
    });
    json!([function("weather", weather), function("sum", sum)])
}

fn chat(more: Value) -> Value {
    let body = json!({"messages": [{"role": "user", "content": "Weather?"}], "tools": tools(), "seed": 5});
    with(body, &more)
}

/// Asserts that calls obey the schemas of the tools.
#[track_caller]
fn obey(calls: &Value) {
    let calls = calls.as_array().unwrap();
    assert!(!calls.is_empty());
    for call in calls {
        assert_eq!((call["type"].as_str(), call["id"].as_str().unwrap().len()), (Some("function"), 9));
        let arguments = call["function"]["arguments"].as_str().unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}: {call}"));
        let fields = arguments.as_object().unwrap();
        match call["function"]["name"].as_str().unwrap() {
            "weather" => {
                assert!(["Oslo", "Rome"].contains(&arguments["city"].as_str().unwrap()) && fields.len() == 2, "{call}");
                assert!((1..=9).contains(&arguments["days"].as_u64().unwrap()), "{call}");
            }
            "sum" => {
                let numbers = arguments["numbers"].as_array().unwrap();
                assert!(numbers.len() <= 4 && numbers.iter().all(|n| n.as_i64().unwrap() <= 99), "{call}");
            }
            other => panic!("no tool {other}"),
        }
    }
}

/// Calls obey their schemas with any template, and a streamed answer equals the whole one.
#[test]
fn calls_obey_their_schemas() {
    for template in [KNOWS, PLAIN] {
        let (_folder, server) = server(template);
        for (choice, several) in [
            (json!("required"), true),
            (json!("required"), false),
            (json!({"type": "function", "function": {"name": "sum"}}), true),
        ] {
            let body = chat(json!({"tool_choice": choice, "parallel_tool_calls": several, "n": 2}));
            let answer = server.post("/v1/chat/completions", &body).json();
            let mut stream = body.clone();
            stream["stream"] = json!(true);
            let events = server.post("/v1/chat/completions", &stream).events();
            for index in 0..2 {
                let whole = &answer["choices"][index];
                let calls = &whole["message"]["tool_calls"];
                assert_eq!(
                    (&whole["finish_reason"], &whole["message"]["content"]),
                    (&json!("tool_calls"), &json!(null))
                );
                obey(calls);
                let count = calls.as_array().unwrap().len();
                assert!(count == 1 || several && choice == "required", "{calls}");
                assert!(choice == "required" || calls[0]["function"]["name"] == "sum");
                // The mark of calls is reported like that of any other text.
                assert!(whole["watermark"]["scored_tokens"].is_u64(), "{whole}");

                let mut streamed: Vec<Value> = Vec::new();
                let of_choice = |event: &&Value| event["choices"][0]["index"] == index;
                for event in events.iter().filter(of_choice) {
                    let Some(delta) = event["choices"][0]["delta"]["tool_calls"].get(0) else { continue };
                    let at = delta["index"].as_u64().unwrap() as usize;
                    if at == streamed.len() {
                        assert_eq!(delta["id"].as_str().unwrap().len(), 9);
                        streamed.push(delta["function"].clone());
                    } else {
                        let more = delta["function"]["arguments"].as_str().unwrap();
                        let before = streamed[at]["arguments"].as_str().unwrap();
                        streamed[at]["arguments"] = format!("{before}{more}").into();
                    }
                }
                let calls: Vec<&Value> = calls.as_array().unwrap().iter().map(|call| &call["function"]).collect();
                assert_eq!(streamed.iter().collect::<Vec<_>>(), calls);
                assert_eq!(events.iter().rfind(of_choice).unwrap()["choices"][0]["finish_reason"], "tool_calls");
            }
        }
    }
}

/// A model may answer in words or call tools, and the results of tools are accepted as messages.
#[test]
fn a_model_chooses_between_words_and_calls() {
    let (_folder, server) = server(KNOWS);
    let words = server.post("/v1/chat/completions", &chat(json!({"max_tokens": 20}))).json();
    let message = &words["choices"][0]["message"];
    assert!(message["tool_calls"].is_null() && !message["content"].as_str().unwrap().is_empty(), "{words}");
    assert!(["stop", "length"].contains(&words["choices"][0]["finish_reason"].as_str().unwrap()));
    // The streamed words are the same.
    let pieces = server.post("/v1/chat/completions", &chat(json!({"max_tokens": 20, "stream": true}))).events();
    let streamed: String = pieces.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, message["content"].as_str().unwrap());

    // The model calls tools if the other allowed answer is made improbable.
    let three = server.post("/tokenize", &json!({"prompt": "3", "add_special_tokens": false})).json();
    let biases: serde_json::Map<String, Value> =
        three["tokens"].as_array().unwrap().iter().map(|token| (token.to_string(), json!(-100))).collect();
    let form = json!({"structured_outputs": {"regex": "3"}});
    let mut body = chat(form);
    let answer = server.post("/v1/chat/completions", &body).json();
    body["logit_bias"] = Value::Object(biases);
    let call = server.post("/v1/chat/completions", &body).json();
    obey(&call["choices"][0]["message"]["tool_calls"]);
    let message = &answer["choices"][0]["message"];
    assert!(message["content"] == "3" || message["tool_calls"].is_array(), "{answer}");

    let called = &call["choices"][0]["message"];
    let id = &called["tool_calls"][0]["id"];
    let mut messages = vec![json!({"role": "user", "content": "Weather?"}), called.clone()];
    let ids = called["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]);
    messages.extend(ids.map(|id| json!({"role": "tool", "tool_call_id": id, "content": "rain"})));
    let told = server.post("/v1/chat/completions", &chat(json!({"messages": messages, "max_tokens": 9})));
    assert_eq!(told.status, 200, "{told:?}");
    let prompt = |body: Value| server.post("/v1/chat/completions", &body).json()["usage"]["prompt_tokens"].clone();
    let (with, without) = (json!({"max_tokens": 1}), json!({"max_tokens": 1, "tool_choice": "none"}));
    assert!(prompt(chat(with)).as_u64() > prompt(chat(without)).as_u64(), "tools that may be called are in the prompt");
    messages[2]["tool_call_id"] = json!("another");
    let refused = server.post("/v1/chat/completions", &chat(json!({"messages": messages})));
    assert_eq!(
        (refused.status, refused.json()["error"]["param"].as_str()),
        (400, Some("messages[2].tool_call_id")),
        "{id}"
    );
}

#[test]
fn tools_that_cannot_be_obeyed_are_refused() {
    let (_folder, server) = server(PLAIN);
    let with = |parameters: Value| {
        let mut tools = tools();
        tools[1]["function"]["parameters"] = parameters;
        json!({"tools": tools})
    };
    for (body, param, code) in [
        (
            with(json!({"properties": {"a": {"items": {"type": "nothing"}, "type": "array"}}})),
            "tools[1].function.parameters",
            "invalid_json_schema",
        ),
        (with(json!({"type": "array"})), "tools[1].function.parameters", "invalid_json_schema"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type", "unsupported_tool"),
        (json!({"tools": [], "tool_choice": "required"}), "tool_choice", "missing_field"),
        (json!({"max_tokens": 3, "tool_choice": "required"}), "max_tokens", "no_room"),
    ] {
        let answer = server.post("/v1/chat/completions", &chat(body.clone()));
        let error = &answer.json()["error"];
        let got = (answer.status, error["param"].as_str(), error["code"].as_str());
        assert_eq!(got, (400, Some(param), Some(code)), "{body}: {error}");
        if code == "invalid_json_schema" && param.ends_with("parameters") && body.to_string().contains("nothing") {
            assert!(error["message"].as_str().unwrap().contains("#/properties/a/items"), "{error}");
        }
    }
}

/// `/v1/responses` gives the same texts as `/v1/chat/completions`.
#[test]
fn responses_say_what_chats_say() {
    let (_folder, server) = server(KNOWS);
    let flat: Vec<Value> = tools()
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let mut flat = tool["function"].clone();
            flat["type"] = json!("function");
            flat
        })
        .collect();
    let texts = [
        (json!({"max_output_tokens": 20, "tool_choice": "none"}), json!({"max_tokens": 20, "tool_choice": "none"})),
        (json!({"tool_choice": "required"}), json!({"tool_choice": "required"})),
        (
            json!({"tool_choice": "none", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"enum": [7, 8]}}}}),
            json!({"tool_choice": "none", "structured_outputs": {"json": {"enum": [7, 8]}}}),
        ),
    ];
    for (more, of_chat) in texts {
        let mut body = json!({
            "input": [{"role": "user", "content": "Weather?"}], "tools": flat, "seed": 5, "store": false,
            "include": ["message.output_text.logprobs"],
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let response = server.post("/v1/responses", &body).json();
        let chat = server.post("/v1/chat/completions", &chat(of_chat)).json();
        let message = &chat["choices"][0]["message"];
        let output = response["output"].as_array().unwrap();
        let said: Vec<&Value> = output.iter().filter(|item| item["type"] == "message").collect();
        assert_eq!(said.first().map_or(&json!(null), |item| &item["content"][0]["text"]), &message["content"]);
        let calls: Vec<&Value> = output.iter().filter(|item| item["type"] == "function_call").collect();
        let expected = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(calls.len(), expected.len());
        for (call, expected) in calls.iter().zip(expected) {
            assert_eq!(
                (&call["name"], &call["arguments"]),
                (&expected["function"]["name"], &expected["function"]["arguments"])
            );
        }
        let is_cut = chat["choices"][0]["finish_reason"] == "length";
        assert_eq!(response["status"], if is_cut { "incomplete" } else { "completed" }, "{response}");
        assert_eq!(response["usage"]["output_tokens"], chat["usage"]["completion_tokens"]);
        assert_eq!(response["watermark"], chat["watermark"]);
        assert_eq!(response["store"], false);
        if let Some(item) = said.first() {
            assert!(!item["content"][0]["logprobs"].as_array().unwrap().is_empty(), "{item}");
        }

        body["stream"] = json!(true);
        let events = server.post("/v1/responses", &body).named_events();
        let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
        assert_eq!(
            (&events[0]["type"], &events[1]["type"]),
            (&json!("response.created"), &json!("response.in_progress"))
        );
        let last = &events[events.len() - 1];
        assert_eq!(last["type"], if is_cut { "response.incomplete" } else { "response.completed" });
        // Equal except for ids, which are new.
        let without_names = |response: &Value| {
            let mut output = response["output"].clone();
            for item in output.as_array_mut().unwrap() {
                item["id"] = json!(null);
                item["call_id"] = json!(null);
            }
            (output, response["usage"].clone(), response["status"].clone(), response["tools"].clone())
        };
        assert_eq!(without_names(&last["response"]), without_names(&response));
        for (index, item) in last["response"]["output"].as_array().unwrap().iter().enumerate() {
            let of_item = |kind: &str| -> Vec<&Value> {
                events.iter().filter(|event| event["type"] == kind && event["output_index"] == index).collect()
            };
            let done = of_item("response.output_item.done");
            assert_eq!((done.len(), &done[0]["item"]), (1, item));
            assert_eq!(of_item("response.output_item.added")[0]["item"]["id"], item["id"]);
            let (deltas, whole) = match item["type"].as_str().unwrap() {
                "message" => ("response.output_text.delta", &item["content"][0]["text"]),
                _ => ("response.function_call_arguments.delta", &item["arguments"]),
            };
            let deltas: String = of_item(deltas).iter().map(|event| event["delta"].as_str().unwrap()).collect();
            assert_eq!(deltas, whole.as_str().unwrap());
        }
    }
    for (body, param) in [
        (json!({"input": "x", "previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"input": "x", "store": true}), "store"),
        (json!({"input": "word ".repeat(3000)}), "input"),
        (
            json!({"input": "x", "tools": [{"type": "function", "name": "f", "parameters": {"not": {}}}]}),
            "tools[0].parameters",
        ),
    ] {
        let answer = server.post("/v1/responses", &body);
        assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some(param)), "{answer:?}");
    }
}

/// A prompt may be given as token ids, which are used unchanged.
#[test]
fn a_prompt_may_be_tokens() {
    let folder = Folder::new();
    let server = Server::start(&folder, &["--model", TALE_SMALL]);
    let tokens = server.post("/tokenize", &json!({"prompt": "The captain"})).json()["tokens"].clone();
    let write = |prompt: Value| {
        let body = json!({"prompt": prompt, "max_tokens": 12, "seed": 2, "echo": true});
        server.post("/v1/completions", &body).json()
    };
    let (text, one) = (write(json!("The captain")), write(tokens.clone()));
    assert_eq!(text["choices"], one["choices"]);
    let two = write(json!([tokens, [tokens[0]]]));
    assert_eq!(two["choices"][0]["text"], text["choices"][0]["text"]);
    assert_eq!(two["choices"].as_array().unwrap().len(), 2);
    let bad = server.post("/v1/completions", &json!({"prompt": [99_999_999]}));
    assert_eq!((bad.status, bad.json()["error"]["param"].as_str()), (400, Some("prompt")), "{bad:?}");
}

/// In a stream a call is sent when it is complete, if a stop string may cut it: what is cut is text, as it is without a
/// stream.
#[test]
fn a_call_that_a_stop_string_cuts_is_text_in_streams_too() {
    let (_folder, server) = server(KNOWS);
    let parameters = json!({"type": "object", "required": ["a", "b"], "additionalProperties": false,
        "properties": {"a": {"type": "integer", "maximum": 9}, "b": {"const": "the end"}}});
    let tools = json!([{"type": "function", "function": {"name": "note", "parameters": parameters}}]);
    for (stop, calls) in [("end", 0), ("nowhere", 1)] {
        let mut body = json!({"messages": [{"role": "user", "content": "Note."}], "tools": tools,
            "tool_choice": "required", "parallel_tool_calls": false, "seed": 3, "max_tokens": 300, "stop": [stop]});
        let whole = server.post("/v1/chat/completions", &body).json();
        body["stream"] = json!(true);
        let (mut content, mut arguments, mut named) = (String::new(), String::new(), 0);
        for event in server.post("/v1/chat/completions", &body).events() {
            let delta = &event["choices"][0]["delta"];
            content += delta["content"].as_str().unwrap_or_default();
            let function = &delta["tool_calls"][0]["function"];
            named += usize::from(function["name"].is_string());
            arguments += function["arguments"].as_str().unwrap_or_default();
        }
        let message = &whole["choices"][0]["message"];
        assert_eq!(content, message["content"].as_str().unwrap_or_default(), "{stop}: {whole}");
        assert_eq!(named, calls, "{stop}: {whole}");
        let called = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap_or_default();
        assert_eq!(arguments, called, "{stop}: {whole}");
        assert_eq!(content.is_empty(), calls == 1, "{stop}: {whole}");
    }
}

/// A response has the sampling options that its text was written with, and is incomplete if a stop string broke its
/// constraint.
#[test]
fn a_response_describes_its_text() {
    let (_folder, server) = server(KNOWS);
    let response = server.post("/v1/responses", &json!({"input": "The", "max_output_tokens": 3})).json();
    assert_eq!((&response["temperature"], &response["top_p"]), (&json!(0.8), &json!(0.95)));
    let format = json!({"type": "json_schema", "name": "x", "schema": {"const": "a the b"}});
    let broken = json!({"input": "The", "stop": ["the"], "text": {"format": format}});
    let response = server.post("/v1/responses", &broken).json();
    assert_eq!(
        (&response["status"], &response["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("stop"))
    );
}
