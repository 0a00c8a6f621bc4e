//! The server, over HTTP: Ollama's protocol.
#![cfg(feature = "serve")]

use serde_json::{Value, json};

use crate::support::server::{Answer, Server};
use crate::support::{Folder, with};

const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ";

fn server(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::with_chat(TEMPLATE);
    let options = ["--model", "teller", "--key", "my.key", "--max-tokens", "150"];
    let server = Server::start(&folder, &[&options[..], more].concat());
    (folder, server)
}

fn chat(server: &Server, more: &Value) -> Answer {
    let body = json!({"model": "teller", "messages": [{"role": "user", "content": "Hi"}]});
    server.post("/api/chat", &with(body, more))
}

/// The fields at the end of an answer that do not depend on the time.
fn ending(object: &Value) -> Value {
    let names = ["done_reason", "prompt_eval_count", "eval_count", "watermark", "model", "done", "logprobs"];
    names.iter().map(|name| ((*name).to_owned(), object[*name].clone())).collect()
}

/// Streams are lines, the default, and have the text, the calls and the end of the whole answer.
#[test]
fn lines_are_the_whole_answer() {
    let (_folder, server) = server(&[]);
    let parameters = json!({
        "type": "object", "required": ["city"], "additionalProperties": false,
        "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    });
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": parameters}}]);
    let options = json!({"seed": 5, "num_predict": 12, "num_ctx": 512, "top_k": 0, "repeat_penalty": 1.2});
    for (more, reason) in [
        (json!({"options": options}), "length"),
        (
            json!({"options": options, "logprobs": true, "top_logprobs": 2, "keep_alive": "5m", "think": false}),
            "length",
        ),
        (json!({"options": {"seed": 5, "stop": ["\n", ".", "!", "?", ","]}}), "stop"),
        (json!({"options": {"seed": 5}, "format": {"enum": ["yes", "no"]}}), "stop"),
        (json!({"options": {"seed": 5}, "tools": tools, "tool_choice": "required"}), "stop"),
    ] {
        let whole = chat(&server, &with(more.clone(), &json!({"stream": false}))).json();
        assert_eq!(
            (&whole["done"], &whole["done_reason"], &whole["model"]),
            (&json!(true), &json!(reason), &json!("teller")),
            "{whole}"
        );
        assert!(whole["watermark"]["status"].is_string(), "{whole}");
        let times =
            ["total_duration", "prompt_eval_duration", "eval_duration"].map(|name| whole[name].as_u64().unwrap());
        assert!(times[0] == times[1] + times[2] && times[1] > 0 && whole["load_duration"] == 0, "{whole}");
        let created = whole["created_at"].as_str().unwrap();
        assert!(created.ends_with('Z') && created.contains('T'), "{created}");

        let lines = chat(&server, &more).lines();
        let (last, lines) = lines.split_last().unwrap();
        assert_eq!(ending(last), ending(&whole));
        assert!(lines.iter().all(|line| line["done"] == false && line["message"]["role"] == "assistant"));
        let text: String = lines.iter().map(|line| line["message"]["content"].as_str().unwrap()).collect();
        assert_eq!(text, whole["message"]["content"].as_str().unwrap());
        let functions = |message: &Value| -> Vec<Value> {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            calls.map(|call| json!([call["function"]["name"], call["function"]["arguments"]])).collect()
        };
        let called: Vec<Value> = lines.iter().flat_map(|line| functions(&line["message"])).collect();
        assert_eq!(called, functions(&whole["message"]));
        if more["tools"].is_array() {
            assert!(
                !called.is_empty() && ["Oslo", "Rome"].contains(&called[0][1]["city"].as_str().unwrap()),
                "{whole}"
            );
        }
        if more["format"].is_object() {
            assert!(["\"yes\"", "\"no\""].contains(&text.as_str()));
        }
        if more["logprobs"] == true {
            assert_eq!(whole["logprobs"].as_array().unwrap().len(), 12);
        }
    }
}

/// The texts are those of OpenAI's protocol, in chats and completions.
#[test]
fn texts_are_those_of_the_other_protocols() {
    let (_folder, server) = server(&[]);
    let post = |path: &str, body: &Value| server.post(path, body).json();
    let call = json!({"function": {"name": "weather", "arguments": {"city": "Oslo"}}});
    let messages = json!([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_name": "weather", "content": "Sun"},
    ]);
    let options = json!({"seed": 5, "num_predict": 12, "temperature": 0.5});
    let answer = post(
        "/api/chat",
        &json!({"model": "teller:latest", "messages": messages, "options": options, "stream": false}),
    );
    assert_eq!(answer["model"], "teller:latest");
    let call =
        json!({"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Oslo\"}"}});
    let messages = json!([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"},
        {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "Sun"},
    ]);
    let same = json!({"messages": messages, "seed": 5, "max_tokens": 12, "temperature": 0.5});
    let same = post("/v1/chat/completions", &same);
    assert_eq!(answer["message"]["content"], same["choices"][0]["message"]["content"]);
    assert_eq!(answer["prompt_eval_count"], same["usage"]["prompt_tokens"]);

    let generate = |more: Value| {
        post(
            "/api/generate",
            &with(json!({"model": "teller", "prompt": "Hi", "options": options, "stream": false}), &more),
        )
    };
    let raw = generate(json!({"raw": true}));
    let same = post("/v1/completions", &json!({"prompt": "Hi", "seed": 5, "max_tokens": 12, "temperature": 0.5}));
    assert_eq!(raw["response"], same["choices"][0]["text"]);
    let messages = json!([{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]);
    let same = json!({"messages": messages, "seed": 5, "max_tokens": 12, "temperature": 0.5});
    let same = post("/v1/chat/completions", &same);
    assert_eq!(generate(json!({"system": "S"}))["response"], same["choices"][0]["message"]["content"]);
    let lines = server.post("/api/generate", &json!({"prompt": "Hi", "raw": true, "options": options})).lines();
    let text: String = lines.iter().map(|line| line["response"].as_str().unwrap()).collect();
    assert_eq!(text, raw["response"].as_str().unwrap());
    // Without a prompt a client loads or unloads a model.
    assert_eq!(generate(json!({"prompt": ""}))["done_reason"], "load");
    let unload = post("/api/chat", &json!({"model": "teller", "messages": [], "keep_alive": 0}));
    assert_eq!((&unload["done_reason"], &unload["message"]["content"]), (&json!("unload"), &json!("")));
}

#[test]
fn the_model_is_described_and_errors_are_texts() {
    let (_folder, server) = server(&[]);
    let tags = server.get("/api/tags").json();
    assert_eq!((&tags["models"][0]["name"], &tags["models"][0]["model"]), (&json!("teller"), &json!("teller")));
    assert_eq!(server.get("/api/ps").json()["models"][0]["context_length"], 2048, "{}", server.get("/api/ps").text);
    let shown = server.post("/api/show", &json!({"model": "teller:latest"})).json();
    assert_eq!((&shown["capabilities"], &shown["template"]), (&json!(["completion", "tools"]), &json!(TEMPLATE)));
    assert!(shown["model_info"]["general.architecture"].is_string() && shown["details"].is_object());
    assert!(server.get("/api/version").json()["version"].as_str().unwrap().contains('.'));
    for (path, body, status, said) in [
        ("/api/chat", json!({"model": "llama3"}), 404, "llama3"),
        ("/api/show", json!({"model": "llama3"}), 404, "llama3"),
        ("/api/chat", json!({"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}), 400, "images"),
        ("/api/chat", json!({"messages": [{"role": "user", "content": "x"}], "think": true}), 400, "think"),
        ("/api/generate", json!({"prompt": "x", "format": "xml"}), 400, "format"),
        ("/api/generate", json!({"prompt": "x", "options": {"temperature": -3}}), 400, "temperature"),
        ("/api/embed", json!({"model": "teller"}), 400, "input"),
        ("/api/embeddings", json!({"model": "llama3", "prompt": "x"}), 404, "llama3"),
        ("/api/pull", json!({"model": "teller"}), 404, "nothing"),
    ] {
        let answer = server.post(path, &body);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(answer.json()["error"].as_str().unwrap().contains(said), "{answer:?}");
    }
    // A misspelled option is reported.
    let answer = chat(&server, &json!({"options": {"num_predict": 1, "tempature": 1}, "stream": false}));
    assert_eq!(answer.header("x-ignored-fields"), Some("options.tempature"));
}
