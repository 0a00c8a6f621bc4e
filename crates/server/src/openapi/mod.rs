//! The OpenAPI document at `/openapi.json`: every address, every field of a request, and the schemas of answers.
//!
//! Bodies are read field by field, so that unknown fields are refused by name. There are no Rust types from which the
//! document could be derived: it is a file, and tests check that exactly the documented fields are read. The sampling
//! options and the version are added to it.

use serde_json::{Value, json};
use verdigris::{Field, Sampling};

/// The requests that have the sampling options.
const SAMPLED: [&str; 3] = ["ChatRequest", "CompletionRequest", "ResponseRequest"];

/// The document.
pub(crate) fn document() -> Value {
    let mut document: Value = serde_json::from_str(include_str!("openapi.json")).expect("the document is JSON");
    document["info"]["version"] = env!("CARGO_PKG_VERSION").into();
    for request in SAMPLED {
        let properties = &mut document["components"]["schemas"][request]["properties"];
        for field in Sampling::fields() {
            properties[field.name] = json!({"anyOf": [schema(field), {"type": "null"}]});
        }
    }
    document
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
    use crate::protocol::ask::Ask;
    use crate::protocol::fields::taken;
    use crate::protocol::responses;
    use std::collections::BTreeSet;

    fn schemas() -> Map<String, Value> {
        document()["components"]["schemas"].as_object().unwrap().clone()
    }

    fn documented(schema: &str) -> BTreeSet<String> {
        schemas()[schema]["properties"].as_object().unwrap().keys().cloned().collect()
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
        let routes = router.split(".route(\"").skip(1).map(|rest| {
            let (path, rest) = rest.split_once("\", ").unwrap();
            (path.to_owned(), rest.split_once('(').unwrap().0.to_owned())
        });
        // The page is for people.
        let routes: BTreeSet<(String, String)> =
            routes.filter(|(path, _)| path != "/" && path != "/page/{file}").collect();
        assert!(routes.len() > 10);
        let document = document();
        let of_path = |(path, methods): (&String, &Value)| -> Vec<(String, String)> {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())).collect()
        };
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.iter().flat_map(of_path).collect::<BTreeSet<_>>(), routes);
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
