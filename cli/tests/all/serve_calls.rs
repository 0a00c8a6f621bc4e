//! The server, over HTTP: calls in the syntaxes of families of models, and structural tags.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL};

/// The calls of one message of a chat template, whose call is `c`.
fn rendering(calls: &str) -> String {
    format!(
        "{{% if tools %}}Tools:{{% for t in tools %}} {{{{ t | tojson }}}}{{% endfor %}}\n{{% endif %}}\
         {{% for m in messages %}}{{{{ m.role }}}}: {{{{ m.content }}}}{{% for c in m.tool_calls %}}{calls}\
         {{% endfor %}}\n{{% endfor %}}assistant: "
    )
}

/// Asserts that the calls of an answer obey the schemas of the tools, and that a streamed answer is the same.
fn obey_their_schemas(server: &Server, tools: &Value, what: &str) {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Note."}], "tools": tools, "tool_choice": "required",
        "seed": 3, "n": 2, "max_tokens": 300,
    });
    let answer = server.post("/v1/chat/completions", &body).json();
    body["stream"] = json!(true);
    let events = server.post("/v1/chat/completions", &body).events();
    for index in 0..2 {
        let choice = &answer["choices"][index];
        assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("tool_calls"), &json!(null)));
        let mut streamed: Vec<(Value, String)> = Vec::new();
        for event in events.iter().filter(|event| event["choices"][0]["index"] == index) {
            let Some(delta) = event["choices"][0]["delta"]["tool_calls"].get(0) else { continue };
            let function = &delta["function"];
            match function["name"].is_string() {
                true => streamed.push((function["name"].clone(), String::new())),
                false => streamed.last_mut().unwrap().1.push_str(function["arguments"].as_str().unwrap()),
            }
        }
        let calls = choice["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(streamed.len(), calls.len(), "{what}");
        for (call, (name, arguments)) in calls.iter().zip(streamed) {
            let function = &call["function"];
            assert_eq!((&function["name"], function["arguments"].as_str()), (&name, Some(&*arguments)), "{what}");
            let tool = tools.as_array().unwrap().iter().find(|tool| tool["function"]["name"] == name).unwrap();
            let judge = jsonschema::draft202012::new(&tool["function"]["parameters"]).unwrap();
            let value: Value = serde_json::from_str(&arguments).unwrap_or_else(|e| panic!("{what} {e}: {arguments}"));
            assert!(judge.is_valid(&value), "{what}: {arguments}");
        }
    }
}

fn notes() -> Value {
    let parameters = json!({
        "type": "object", "required": ["text", "tags"], "additionalProperties": false,
        "properties": {
            "text": {"type": "string", "maxLength": 12},
            "where": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
            "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["a", true, null, 3]}},
            "at": {"type": "object", "properties": {"hour": {"type": "integer", "maximum": 24}}, "required": ["hour"]},
        },
    });
    json!([{"type": "function", "function": {"name": "note", "description": "Notes.", "parameters": parameters}}])
}

/// One family for each notation of arguments.
#[test]
fn arguments_in_each_notation_obey_their_schemas() {
    for (family, calls) in [
        (
            "qwen3-coder",
            "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments|items %}\
             {{ '<parameter=' + k + '>\\n' ~ v ~ '\\n</parameter>\\n' }}{% endfor %}</function>\n</tool_call>",
        ),
        (
            "lfm2",
            "<|tool_call_start|>[{{ c.function.name }}({% for k, v in c.function.arguments|items %}{{ k }}={{ v }}\
             {% endfor %})]<|tool_call_end|>",
        ),
        (
            "gemma-4",
            "<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments|items %}{{ k }}:{{ v }}\
             {% endfor %}{{ '}<tool_call|>' }}",
        ),
    ] {
        let folder = Folder::with_key();
        folder.copy_model(TALE_SMALL, "teller");
        folder.write("teller/chat_template.jinja", &rendering(calls));
        let server = Server::start(&folder, &["--model", "teller", "--key", "my.key"]);
        obey_their_schemas(&server, &notes(), family);
    }
}

#[test]
fn calls_are_found_between_control_tokens() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "teller");
    let calls = "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}";
    folder.write("teller/chat_template.jinja", &rendering(calls));
    folder.add_control_tokens("teller", &["[TOOL_CALLS]", "[ARGS]"]);
    let server = Server::start(&folder, &["--model", "teller"]);
    obey_their_schemas(&server, &notes(), "mistral-13");
    let body = json!({
        "messages": [{"role": "user", "content": "x"}], "tools": notes(), "tool_choice": "required", "seed": 3,
        "return_token_ids": true, "max_tokens": 300,
    });
    let answer = server.post("/v1/chat/completions", &body).json();
    let tokens = answer["choices"][0]["token_ids"].as_array().unwrap();
    assert_eq!((&tokens[0], tokens.contains(&json!(4095))), (&json!(4094), true), "{answer}");
    // A structural tag has control tokens too, which are not part of the content.
    let format = json!({"type": "sequence", "elements": [
        {"type": "const_string", "value": "[TOOL_CALLS]"},
        {"type": "tag", "begin": "<", "content": {"type": "json_schema", "json_schema": {"enum": [1, 2]}}, "end": ">"},
        {"type": "token", "token": "[ARGS]"},
    ]});
    let tag = json!({"type": "structural_tag", "format": format});
    for constraint in
        [json!({"response_format": tag}), json!({"structured_outputs": {"structural_tag": tag.to_string()}})]
    {
        let mut body = json!({"messages": [{"role": "user", "content": "x"}], "return_token_ids": true});
        body.as_object_mut().unwrap().extend(constraint.as_object().unwrap().clone());
        let answer = server.post("/v1/chat/completions", &body).json();
        let choice = &answer["choices"][0];
        assert!(["<1>", "<2>"].contains(&choice["message"]["content"].as_str().unwrap()), "{answer}");
        assert_eq!(choice["token_ids"][0], 4094, "{answer}");
    }
    let refused = json!({"messages": [{"role": "user", "content": "x"}], "response_format": {
        "type": "structural_tag", "format": {"type": "any_text", "max_tokens": 3},
    }});
    let answer = server.post("/v1/chat/completions", &refused);
    let error = &answer.json()["error"];
    let expected = (400, Some("response_format"), Some("invalid_structural_tag"));
    assert_eq!((answer.status, error["param"].as_str(), error["code"].as_str()), expected, "{error}");
    assert!(error["message"].as_str().unwrap().contains("max_tokens"), "{error}");
}
