//! The OpenAPI document at `/openapi.json`: every address, every field of a request, and the schemas of answers.
//!
//! Bodies are read field by field, so that unknown fields are refused by name. There are no Rust types from which the
//! document could be derived, so it is written by hand, and tests check that exactly the documented fields are read.
//!
//! | module | holds |
//! |---|---|
//! | `requests` | schemas of requests |
//! | `answers` | schemas of answers |

mod answers;
mod requests;

use serde_json::{Map, Value, json};

/// The statuses of errors, with their causes.
const ERRORS: [(&str, &str); 8] = [
    ("400", "The request cannot be answered as specified"),
    ("401", "The API key is missing or wrong"),
    ("404", "The model does not exist"),
    ("405", "The address requires another method"),
    ("413", "The body is too large"),
    ("429", "Too many requests: try again later"),
    ("500", "An internal error of the server"),
    ("503", "The server is shutting down, or cannot answer now"),
];

/// The document.
pub(crate) fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Verdigris", "version": env!("CARGO_PKG_VERSION"),
            "description": "OpenAI's protocol: every answer is marked or says why not; every constraint is obeyed, or \
                            the request is refused. A field that is null counts as absent.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {}],
        "paths": paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
        },
    })
}

fn schemas() -> Map<String, Value> {
    requests::schemas().into_iter().chain(answers::schemas()).collect()
}

fn paths() -> Value {
    let model = json!([{"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}]);
    let mut one_model = get("The model with this name", "getModel", "Model");
    one_model["parameters"] = model;
    let mut health = get("Whether requests are accepted", "health", "");
    health["security"] = json!([]);
    json!({
        "/v1/chat/completions": {
            "post": streamed("The next message of a conversation", "chat", "ChatRequest", "Chat", "ChatChunk"),
        },
        "/v1/completions": {
            "post": streamed(
                "Texts that continue prompts", "complete", "CompletionRequest", "Completion", "Completion",
            ),
        },
        "/v1/responses": {
            "post": streamed(
                "The next items of a conversation; nothing is stored", "respond", "ResponseRequest", "Response",
                "ResponseEvent",
            ),
        },
        "/v1/models": {"get": get("The one model that is served", "listModels", "Models")},
        "/v1/models/{model}": {"get": one_model},
        "/tokenize": {"post": post("Text or messages to tokens", "tokenize", "TokenizeRequest", "Tokens")},
        "/detokenize": {"post": post("Tokens to text", "detokenize", "DetokenizeRequest", "Text")},
        "/detect": {"post": post("Is a text marked?", "detect", "DetectRequest", "Found")},
        "/health": {"get": health},
        "/ready": {"get": get("Whether requests are accepted", "ready", "")},
        "/metrics": {"get": plain("Metrics for Prometheus", "metrics", "application/openmetrics-text")},
        "/version": {"get": get("The program's version", "version", "Version")},
        "/about": {"get": get("Information for the page", "about", "About")},
        "/openapi.json": {"get": get("This document", "openapi", "Document")},
    })
}

/// A reference to a schema by its name.
fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The responses of an operation: `content` by media type, or an error.
fn responses(content: Value) -> Value {
    let mut all = Map::new();
    let mut good = json!({"description": "The answer"});
    if content.as_object().is_some_and(|kinds| !kinds.is_empty()) {
        good["content"] = content;
    }
    all.insert("200".into(), good);
    for (status, why) in ERRORS {
        let mut error = json!({"description": why, "content": {"application/json": {"schema": named("Error")}}});
        if matches!(status, "429" | "503") {
            let about = "The number of seconds after which to try again";
            error["headers"] = json!({"Retry-After": {"description": about, "schema": {"type": "integer"}}});
        }
        all.insert(status.into(), error);
    }
    Value::Object(all)
}

fn plain(summary: &str, id: &str, kind: &str) -> Value {
    let text = json!({kind: {"schema": {"type": "string"}}});
    json!({"summary": summary, "operationId": id, "responses": responses(text)})
}

/// An operation that returns the schema `answer`, or nothing if that is empty.
fn get(summary: &str, id: &str, answer: &str) -> Value {
    let content = if answer.is_empty() { json!({}) } else { json!({"application/json": {"schema": named(answer)}}) };
    json!({"summary": summary, "operationId": id, "responses": responses(content)})
}

fn post(summary: &str, id: &str, request: &str, answer: &str) -> Value {
    let mut operation = get(summary, id, answer);
    operation["requestBody"] = json!({
        "required": true, "content": {"application/json": {"schema": named(request)}},
    });
    operation
}

/// An operation whose answer may be a stream of events, each of the schema `event`.
fn streamed(summary: &str, id: &str, request: &str, answer: &str, event: &str) -> Value {
    let mut operation = post(summary, id, request, answer);
    operation["responses"]["200"]["content"]["text/event-stream"] = json!({
        "schema": {"type": "string", "description": format!("Events whose data is JSON, each a {event}")},
        "x-event-schema": named(event),
    });
    operation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ask::Ask;
    use crate::protocol::fields::taken;
    use crate::protocol::responses;
    use std::collections::BTreeSet;

    fn documented(schema: &str) -> BTreeSet<String> {
        let schemas = schemas();
        let names = schemas[schema]["properties"].as_object().unwrap().keys();
        names.cloned().collect()
    }

    /// The documented top-level fields are those that are read.
    #[test]
    fn fields_are_those_that_are_taken() {
        let chat = json!({"messages": [{"role": "user", "content": "x"}]});
        for (schema, names) in [
            ("ChatRequest", taken(|| drop(Ask::chat(chat).unwrap()))),
            ("CompletionRequest", taken(|| drop(Ask::completion(json!({"prompt": "x"})).unwrap()))),
            ("ResponseRequest", taken(|| drop(responses::take(json!({"input": "x"})).unwrap()))),
        ] {
            let names: BTreeSet<String> = names.into_iter().collect();
            assert!(names.len() > 20, "{names:?}");
            assert_eq!(documented(schema), names, "{schema}");
            assert_eq!(schemas()[schema]["additionalProperties"], false);
        }
    }

    /// The addresses are those of the router, with their methods.
    #[test]
    fn addresses_are_those_that_there_are() {
        let router = include_str!("../routes/mod.rs");
        let routes: BTreeSet<(String, &str)> = router
            .split(".route(\"")
            .skip(1)
            .map(|rest| {
                let (path, rest) = rest.split_once("\", ").unwrap();
                (path.to_owned(), rest.split_once('(').unwrap().0)
            })
            .collect();
        assert!(routes.len() > 10);
        let paths = paths();
        let of_path = |(path, methods): (&String, &Value)| -> Vec<(String, String)> {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())).collect()
        };
        let documented: Vec<(String, String)> = paths.as_object().unwrap().iter().flat_map(of_path).collect();
        let missing = routes.iter().filter(|(path, method)| {
            // The page is for people.
            path != "/"
                && path != "/page/{file}"
                && !documented.iter().any(|(known, of_known)| known == path && of_known == method)
        });
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&(String, &str)>::new());
        for (path, method) in &documented {
            assert!(routes.contains(&(path.clone(), method.as_str())), "unknown: {method} {path}");
        }
    }

    /// Every reference has a schema, and every schema a reference.
    #[test]
    fn schemas_are_those_that_are_named() {
        let text = document().to_string();
        let named: BTreeSet<&str> =
            text.split("#/components/schemas/").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        let schemas = schemas();
        assert_eq!(named, schemas.keys().map(String::as_str).collect());
    }
}
