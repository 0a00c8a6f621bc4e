//! The schemas of answers. Answers may have more fields than these.

use serde_json::{Map, Value, json};

use super::named;

/// An object that has at least these fields.
fn object(fields: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn or_null(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// The schemas of answers, by name.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let (text, whole) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let tokens = list(whole.clone());
    let reasons = json!({"enum": ["stop", "length", "tool_calls", null]});
    let call = object(&[
        ("id", text.clone()),
        ("type", json!({"const": "function"})),
        ("function", object(&[("name", text.clone()), ("arguments", text.clone())])),
    ]);
    let message = {
        let mut message = object(&[("role", json!({"const": "assistant"})), ("content", or_null("string"))]);
        message["properties"]["tool_calls"] = list(call);
        message
    };
    let choice = |content: (&str, Value)| {
        let mut choice = object(&[
            ("index", whole.clone()),
            content,
            ("finish_reason", reasons.clone()),
            ("logprobs", or_null("object")),
        ]);
        choice["properties"]["watermark"] = named("Watermark");
        choice["properties"]["token_ids"] = tokens.clone();
        choice["properties"]["stop_reason"] = text.clone();
        choice
    };
    let answer = |object_name: &str, choice: Value| {
        let mut answer = object(&[
            ("id", text.clone()),
            ("object", json!({"const": object_name})),
            ("created", whole.clone()),
            ("model", text.clone()),
            ("choices", list(choice)),
        ]);
        answer["properties"]["usage"] = named("Usage");
        answer["properties"]["watermark"] = named("Watermark");
        answer
    };
    let statuses = json!({"enum": ["watermarked", "too_weak", "skipped", "not_watermarked"]});
    let model = [
        ("id", text.clone()),
        ("object", json!({"const": "model"})),
        ("created", whole.clone()),
        ("owned_by", text.clone()),
        ("max_model_len", whole.clone()),
    ];
    let item = object(&[
        ("id", text.clone()),
        ("type", json!({"enum": ["message", "function_call"]})),
        ("status", text.clone()),
    ]);
    let used =
        object(&[("input_tokens", whole.clone()), ("output_tokens", whole.clone()), ("total_tokens", whole.clone())]);
    let response = {
        let mut response = object(&[
            ("id", text.clone()),
            ("object", json!({"const": "response"})),
            ("created_at", whole.clone()),
            ("model", text.clone()),
            ("status", json!({"enum": ["in_progress", "completed", "incomplete", "failed"]})),
            ("output", list(item)),
            ("tools", list(json!({"type": "object"}))),
            ("tool_choice", json!({"type": ["string", "object"]})),
            ("parallel_tool_calls", json!({"type": "boolean"})),
            ("store", json!({"const": false})),
        ]);
        response["properties"]["usage"] = json!({"anyOf": [used, {"type": "null"}]});
        response["properties"]["watermark"] = named("Watermark");
        response
    };
    let error =
        [("message", text.clone()), ("type", text.clone()), ("param", or_null("string")), ("code", or_null("string"))];
    let schemas = [
        ("Error", object(&[("error", object(&error))])),
        ("Chat", answer("chat.completion", choice(("message", message)))),
        ("ChatChunk", answer("chat.completion.chunk", choice(("delta", json!({"type": "object"}))))),
        ("Completion", answer("text_completion", choice(("text", text.clone())))),
        ("Response", response),
        ("ResponseEvent", object(&[("type", text.clone()), ("sequence_number", whole.clone())])),
        (
            "Usage",
            object(&[
                ("prompt_tokens", whole.clone()),
                ("completion_tokens", whole.clone()),
                ("total_tokens", whole.clone()),
            ]),
        ),
        (
            "Watermark",
            object(&[
                ("status", statuses),
                ("reason", or_null("string")),
                ("key_id", or_null("string")),
                ("scheme", or_null("string")),
                ("scored_tokens", whole.clone()),
            ]),
        ),
        ("Model", object(&model)),
        ("Models", object(&[("object", json!({"const": "list"})), ("data", list(named("Model")))])),
        ("Tokens", object(&[("count", whole.clone()), ("max_model_len", whole.clone()), ("tokens", tokens.clone())])),
        ("Text", object(&[("prompt", text.clone())])),
        // The output of `verdigris detect --json`, or `results` with one for each text.
        ("Found", json!({"type": "object"})),
        ("Version", object(&[("version", text)])),
        ("About", json!({"type": "object"})),
        ("Document", json!({"type": "object"})),
    ];
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}
