//! The OpenAPI document at `/openapi.json`: every address, every field of a request, and the schemas of answers.
//!
//! Bodies are read field by field. There are no Rust types from which the document could be derived: it is a file for
//! each protocol, and tests check that exactly the documented fields are read. The sampling options, fields that
//! several requests have ([`shared`]) and the version are added to it.

mod shared;

use serde_json::{Value, json};
use verdigris::{Field, Sampling};

/// The addresses and schemas of other protocols than OpenAI's.
const OTHERS: [&str; 2] = [include_str!("anthropic.json"), include_str!("ollama.json")];

/// The objects that have the sampling options.
const SAMPLED: [&str; 5] = ["ChatRequest", "CompletionRequest", "ResponseRequest", "MessagesRequest", "OllamaOptions"];

/// The schemas of requests for texts and of what they contain, whose unknown fields may be ignored.
const LENIENT: [&str; 16] = [
    "ChatRequest",
    "CompletionRequest",
    "ResponseRequest",
    "MessagesRequest",
    "CountRequest",
    "OllamaChatRequest",
    "OllamaGenerateRequest",
    "OllamaOptions",
    "OllamaShowRequest",
    "EmbeddingsRequest",
    "OllamaEmbedRequest",
    "OllamaEmbeddingRequest",
    "Message",
    "InputItem",
    "Tool",
    "FlatTool",
];

/// The document of a server that refuses unknown fields, or ignores them.
pub(crate) fn document(is_strict: bool) -> Value {
    let mut document: Value = serde_json::from_str(include_str!("openapi.json")).expect("the document is JSON");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for other in OTHERS {
        let mut other: Value = serde_json::from_str(other).expect("the document is JSON");
        extend(&mut document["paths"], other["paths"].take());
        extend(&mut document["components"]["schemas"], other["schemas"].take());
    }
    shared::add(&mut document["components"]["schemas"]);
    for request in SAMPLED {
        let properties = &mut document["components"]["schemas"][request]["properties"];
        for field in Sampling::fields() {
            properties[field.name] = json!({"anyOf": [schema(field), {"type": "null"}]});
        }
    }
    for request in LENIENT.iter().filter(|_| !is_strict) {
        allow_more(&mut document["components"]["schemas"][*request]);
    }
    document
}

/// Adds fields to an object.
fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// Lets the objects of a schema have unknown fields.
fn allow_more(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            keywords.retain(|name, value| name != "additionalProperties" || *value != json!(false));
            keywords.values_mut().for_each(allow_more);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_more),
        _ => (),
    }
}

/// The schema of a sampling option.
fn schema(field: &Field) -> Value {
    let Field { about, range, .. } = field;
    let number = |value: f64| if range.whole { json!(value as i64) } else { json!(value) };
    let mut schema = json!({"type": if range.whole { "integer" } else { "number" }, "description": about});
    // In vLLM, 0 and -1 mean all tokens.
    let least = if field.name == "top_k" { -1.0 } else { range.least };
    schema[if range.above_least { "exclusiveMinimum" } else { "minimum" }] = number(least);
    schema[if range.below_most { "exclusiveMaximum" } else { "maximum" }] = number(range.most);
    if let Some(default) = field.default() {
        schema["default"] = number(default);
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::protocol::fields::{Fields, taken};
    use crate::protocol::unknown::Unknown;
    use crate::protocol::{anthropic, embeddings, ollama, openai, responses};
    use std::collections::BTreeSet;

    fn schemas() -> Map<String, Value> {
        document(true)["components"]["schemas"].as_object().unwrap().clone()
    }

    fn fields(body: &Value) -> Fields {
        Fields::of(body.clone(), "").unwrap()
    }

    fn documented(schema: &str) -> BTreeSet<String> {
        schemas()[schema]["properties"].as_object().unwrap().keys().cloned().collect()
    }

    /// The documented top-level fields are those that are read.
    #[test]
    fn fields_are_those_that_are_taken() {
        let chat = json!({"messages": [{"role": "user", "content": "x"}]});
        for (schema, names) in [
            ("ChatRequest", taken(|| drop(openai::chat(fields(&chat)).unwrap()))),
            ("CompletionRequest", taken(|| drop(openai::completion(fields(&json!({"prompt": "x"}))).unwrap()))),
            ("ResponseRequest", taken(|| drop(responses::take(json!({"input": "x"}), &Unknown::refused()).unwrap()))),
            ("MessagesRequest", taken(|| drop(anthropic::take(fields(&chat)).unwrap()))),
            ("OllamaChatRequest", taken(|| drop(ollama::chat(fields(&chat)).unwrap()))),
            ("OllamaGenerateRequest", taken(|| drop(ollama::generate(fields(&json!({"prompt": "x"})), true).unwrap()))),
            ("EmbeddingsRequest", taken(|| drop(embeddings::openai(fields(&json!({"input": "x"}))).unwrap()))),
            ("OllamaEmbedRequest", taken(|| drop(embeddings::ollama(fields(&json!({"input": "x"}))).unwrap()))),
            (
                "OllamaEmbeddingRequest",
                taken(|| drop(embeddings::ollama_older(fields(&json!({"prompt": "x"}))).unwrap())),
            ),
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
        let routes = router.split(".route(\"").skip(1).map(|rest| {
            let (path, rest) = rest.split_once("\", ").unwrap();
            (path.to_owned(), rest.split_once('(').unwrap().0.to_owned())
        });
        // The page is for people.
        let routes: BTreeSet<(String, String)> =
            routes.filter(|(path, _)| path != "/" && path != "/page/{file}").collect();
        assert!(routes.len() > 10);
        let document = document(true);
        let of_path = |(path, methods): (&String, &Value)| -> Vec<(String, String)> {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())).collect()
        };
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.iter().flat_map(of_path).collect::<BTreeSet<_>>(), routes);
    }

    /// Every reference has a schema, and every schema a reference.
    #[test]
    fn schemas_are_those_that_are_named() {
        let text = document(true).to_string();
        let named: BTreeSet<&str> =
            text.split("#/components/schemas/").skip(1).map(|rest| rest.split_once('"').unwrap().0).collect();
        let schemas = schemas();
        assert_eq!(named, schemas.keys().map(String::as_str).collect());
    }
}
