//! The fields that several requests have: those of every request for texts, and those of other servers.

use serde_json::{Value, json};
use verdigris::ReasoningEffort;

use crate::protocol::{anthropic, foreign, ollama, openai, other_constraints, reasoning, sampling};

/// The requests for texts.
const REQUESTS: [&str; 6] = [
    "ChatRequest",
    "CompletionRequest",
    "ResponseRequest",
    "MessagesRequest",
    "OllamaChatRequest",
    "OllamaGenerateRequest",
];

/// The fields of every request for texts, which are documented for chats.
const OF_CHATS: [&str; 8] = [
    "model",
    "alpha",
    "response_format",
    "structured_outputs",
    "return_token_ids",
    "c2pa",
    "watermarking",
    "watermark",
];

/// The further fields next to sampling options.
const OF_SAMPLING: [&str; 4] = ["logit_bias", "ignore_eos", "token_healing", "seed"];

/// Adds the fields to the schemas of requests.
pub(super) fn add(schemas: &mut Value) {
    let chats = schemas["ChatRequest"]["properties"].clone();
    for request in REQUESTS {
        OF_CHATS.iter().for_each(|name| put(schemas, request, name, chats[*name].clone()));
        other_constraints::NAMES.iter().for_each(|name| put(schemas, request, name, constraint(name)));
        reasoning_fields().into_iter().for_each(|(name, field)| put(schemas, request, name, optional(field)));
        foreign::NO_EFFECT.iter().chain(reasoning::NO_EFFECT).for_each(|name| put(schemas, request, name, no_effect()));
    }
    for request in ["MessagesRequest", "OllamaChatRequest", "OllamaGenerateRequest"] {
        put(schemas, request, "n", optional(json!({"const": 1, "description": "The number of answers"})));
    }
    for sampled in super::SAMPLED {
        OF_SAMPLING.iter().for_each(|name| put(schemas, sampled, name, chats[*name].clone()));
        for (name, alias) in sampling::ALIASES {
            let field = json!({"type": "number", "description": format!("The same as {name}")});
            put(schemas, sampled, alias, optional(field));
        }
        let about = "2: as mirostat_tau, which is 5 by default; 0: without mirostat";
        put(schemas, sampled, "mirostat", optional(json!({"enum": [0, 2], "description": about})));
    }
    for request in ["ChatRequest", "CompletionRequest"] {
        for name in openai::MAX_TOKENS {
            let count = json!({"type": "integer", "minimum": 1, "description": "The same as max_tokens"});
            put(schemas, request, name, optional(json!({"anyOf": [count, {"enum": [-1, -2]}]})));
        }
    }
    for (names, requests) in [
        (anthropic::NO_EFFECT, &["MessagesRequest", "CountRequest"][..]),
        (ollama::NO_EFFECT, &["OllamaChatRequest", "OllamaGenerateRequest"]),
        (ollama::NO_EFFECT, &["OllamaEmbedRequest", "OllamaEmbeddingRequest"]),
        (
            foreign::NO_EFFECT,
            &[
                "OllamaOptions",
                "CountRequest",
                "TokenizeRequest",
                "EmbeddingsRequest",
                "OllamaEmbedRequest",
                "OllamaEmbeddingRequest",
            ],
        ),
        (ollama::RUNNING, &["OllamaOptions"]),
        (reasoning::NO_EFFECT, &["CountRequest"]),
    ] {
        requests.iter().for_each(|request| names.iter().for_each(|name| put(schemas, request, name, no_effect())));
    }
}

/// The fields about thoughts.
fn reasoning_fields() -> [(&'static str, Value); 8] {
    let effort = json!({"enum": ReasoningEffort::ALL.map(ReasoningEffort::name), "description": "How much to think"});
    let budget = json!({"type": "integer", "minimum": 0, "description": "The most tokens of the thought"});
    [
        ("reasoning_effort", effort.clone()),
        ("thinking_token_budget", budget.clone()),
        ("include_reasoning", json!({"type": "boolean", "description": "Whether the answer has the thought"})),
        ("chat_template_kwargs", json!({"type": "object", "description": "Variables of the chat template"})),
        ("enable_thinking", json!({"type": "boolean", "description": "Whether to think"})),
        (
            "think",
            json!({"anyOf": [{"type": "boolean"}, effort.clone()], "description": "Whether to think, or how much"}),
        ),
        (
            "reasoning",
            json!({"type": "object", "additionalProperties": false, "properties": {
                "effort": optional(effort), "max_tokens": optional(budget.clone()),
                "enabled": optional(json!({"type": "boolean"})), "exclude": optional(json!({"type": "boolean"})),
                "summary": no_effect(), "generate_summary": no_effect(),
            }}),
        ),
        (
            "thinking",
            json!({"type": "object", "additionalProperties": false, "required": ["type"], "properties": {
                "type": {"enum": ["enabled", "disabled", "adaptive", "between-tools"]},
                "budget_tokens": optional(budget), "display": no_effect(),
            }}),
        ),
    ]
}

/// Adds a field to a schema that does not have it yet.
fn put(schemas: &mut Value, schema: &str, name: &str, field: Value) {
    let fields = &mut schemas[schema]["properties"];
    if fields.get(name).is_none() {
        fields[name] = field;
    }
}

fn optional(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

fn no_effect() -> Value {
    optional(json!({"description": "Has no effect"}))
}

/// The schema of a constraint in another server's field.
fn constraint(name: &str) -> Value {
    optional(match name {
        "guided_choice" => json!({
            "type": "array", "items": {"type": "string"}, "description": "The same as structured_outputs.choice",
        }),
        "guided_regex" | "regex" => json!({"type": "string", "description": "The same as structured_outputs.regex"}),
        "guided_grammar" => json!({"type": "string", "description": "The same as structured_outputs.grammar"}),
        "ebnf" => json!({"type": "string", "description": "A grammar in EBNF"}),
        "structural_tag" => json!({"description": "The same as structured_outputs.structural_tag"}),
        "grammar" => json!({
            "anyOf": [
                {"type": "string", "description": "A grammar in GBNF"},
                {
                    "type": "object", "required": ["type"], "additionalProperties": false,
                    "properties": {"type": {"enum": ["json", "json_object", "json_schema", "regex", "lark"]}, "value": {}},
                    "description": "A JSON Schema, a regular expression, or a grammar in Lark",
                },
            ],
        }),
        _ => json!({"description": "The same as structured_outputs.json"}),
    })
}
