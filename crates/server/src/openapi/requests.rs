//! The schemas of requests.

use serde_json::{Map, Value, json};
use verdigris::{Field, Sampling};

use super::named;

/// Fields of one object, with their schemas.
type Fields = Vec<(&'static str, Value)>;

/// An object of these fields only. Fields that are not `required` may also be null.
fn object(fields: Fields, required: &[&str]) -> Value {
    let properties: Map<String, Value> = fields
        .into_iter()
        .map(|(name, schema)| {
            let or_null = || json!({"anyOf": [schema, {"type": "null"}]});
            (name.to_owned(), if required.contains(&name) { schema.clone() } else { or_null() })
        })
        .collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn number(least: f64, most: f64, description: &str) -> Value {
    json!({"type": "number", "minimum": least, "maximum": most, "description": description})
}

fn count(least: u64, most: Option<u64>, description: &str) -> Value {
    let mut schema = json!({"type": "integer", "minimum": least, "description": description});
    schema["maximum"] = most.unwrap_or(i64::MAX as u64).into();
    schema
}

fn list(items: Value, description: &str) -> Value {
    json!({"type": "array", "items": items, "description": description})
}

/// A field that is accepted and has no effect.
fn ignored() -> Value {
    json!({"description": "Has no effect"})
}

/// The fields of all requests for texts.
fn of_texts() -> Fields {
    let object_of = |value: Value| json!({"type": "object", "additionalProperties": value});
    let bias = number(-100.0, 100.0, "What is added to the logit");
    let mut fields = vec![
        ("model", text("The name of the model")),
        ("n", count(1, Some(128), "The number of answers to each prompt, with consecutive seeds")),
        ("logit_bias", object_of(bias)),
        ("alpha", number(0.0, f64::from(f32::MAX), "The weight of experts, where the server takes one")),
        ("ignore_eos", flag("The text does not end by itself")),
        (
            "seed",
            json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX,
            "description": "The same request with the same seed has the same answer"}),
        ),
        (
            "stop",
            json!({"description": "Strings that end the text", "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 1024},
                {"type": "array", "maxItems": 4, "items": {"type": "string", "minLength": 1, "maxLength": 1024}},
            ]}),
        ),
        ("response_format", named("ResponseFormat")),
        ("structured_outputs", named("StructuredOutputs")),
        ("return_token_ids", flag("Whether to return the tokens of each text")),
        ("watermarking", flag("false: do not mark; true: refuse the request if the server has no key")),
        ("watermark", object(vec![("enabled", flag("The same as watermarking"))], &[])),
        ("user", ignored()),
        ("safety_identifier", ignored()),
        ("prompt_cache_key", ignored()),
        ("service_tier", ignored()),
    ];
    fields.extend(Sampling::fields().iter().map(|field| (field.name, sampling(field))));
    fields
}

/// The schema of a sampling option.
fn sampling(field: &Field) -> Value {
    let Field { about, range, .. } = field;
    let number = |value: f64| if range.whole { json!(value as i64) } else { json!(value) };
    let mut schema = json!({"type": if range.whole { "integer" } else { "number" }, "description": about});
    // vLLM's word for all tokens is 0 or -1.
    let least = if field.name == "top_k" { -1.0 } else { range.least };
    schema[if range.above_least { "exclusiveMinimum" } else { "minimum" }] = number(least);
    schema[if range.below_most { "exclusiveMaximum" } else { "maximum" }] = number(range.most);
    if let Some(default) = field.default() {
        schema["default"] = number(default);
    }
    schema
}

fn of_streams() -> Fields {
    let options = vec![
        ("include_usage", flag("Whether an additional event has the numbers of tokens")),
        ("include_obfuscation", ignored()),
    ];
    vec![("stream", flag("Whether to send the answer as a stream of events")), ("stream_options", object(options, &[]))]
}

fn of_tools(tool: &str, choice: &str) -> Fields {
    let tools = json!({"type": "array", "maxItems": 128, "items": named(tool)});
    vec![
        ("tools", tools),
        ("tool_choice", named(choice)),
        ("parallel_tool_calls", flag("Whether an answer may have several calls; true by default")),
    ]
}

fn choice(function: Value) -> Value {
    json!({"anyOf": [{"enum": ["auto", "required", "none"]}, function]})
}

fn function() -> Fields {
    vec![
        ("name", json!({"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"})),
        ("description", text("The purpose of the function")),
        (
            "parameters",
            json!({"type": "object", "description": "The JSON Schema of the arguments, which are an object"}),
        ),
        ("strict", flag("Has no effect: the schema is always obeyed")),
    ]
}

fn kind(of: &str) -> Value {
    json!({"const": of})
}

fn content() -> Value {
    let kinds = json!({"enum": ["text", "input_text", "output_text"]});
    let part = vec![("type", kinds), ("text", text("")), ("annotations", ignored()), ("logprobs", ignored())];
    json!({"anyOf": [{"type": "string"}, list(object(part, &["type", "text"]), "Parts, which are concatenated")]})
}

/// A format of either protocol, where `more` has the fields of a schema other than its type.
fn format(more: Fields, required: &[&str]) -> Value {
    let plain = object(vec![("type", json!({"enum": ["text", "json_object"]}))], &["type"]);
    let schema = [vec![("type", kind("json_schema"))], more].concat();
    json!({"anyOf": [plain, object(schema, required)]})
}

fn schema() -> Fields {
    vec![
        ("name", ignored()),
        ("description", ignored()),
        ("schema", json!({"description": "A JSON Schema", "type": ["object", "boolean"]})),
        ("strict", ignored()),
    ]
}

/// The schemas of requests, by name.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let tokens = list(json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}), "Token ids");
    let call = vec![
        ("id", text("The id that the result of the tool refers to")),
        ("type", kind("function")),
        (
            "function",
            object(
                vec![
                    ("name", text("")),
                    ("arguments", text("A JSON object, as text")),
                    ("parsed_arguments", ignored()),
                ],
                &["name", "arguments"],
            ),
        ),
        ("index", ignored()),
    ];
    let message = vec![
        ("role", json!({"enum": ["system", "developer", "user", "assistant", "tool"]})),
        ("content", content()),
        ("tool_calls", list(object(call, &["id", "function"]), "The calls of the model")),
        ("tool_call_id", text("The id of the call that has this result")),
        ("name", ignored()),
        ("refusal", ignored()),
        ("annotations", ignored()),
        ("parsed", ignored()),
    ];
    let messages = json!({"type": "array", "minItems": 1, "items": named("Message")});
    let chat = [
        vec![
            ("messages", messages.clone()),
            ("max_tokens", count(1, None, "The older name of max_completion_tokens")),
            ("max_completion_tokens", count(1, None, "The maximum number of tokens, up to the server's limit")),
            ("logprobs", flag("Whether to return log-probabilities")),
            ("top_logprobs", count(0, Some(20), "The number of most probable tokens to return with each token")),
            ("metadata", ignored()),
            ("store", ignored()),
        ],
        of_tools("Tool", "ToolChoice"),
        of_streams(),
        of_texts(),
    ];
    let prompt = json!({"anyOf": [
        {"type": "string"}, {"type": "array", "minItems": 1, "maxItems": 128, "items": {"type": "string"}}, tokens,
        {"type": "array", "minItems": 1, "maxItems": 128, "items": tokens},
    ]});
    let completion = [
        vec![
            ("prompt", prompt),
            ("max_tokens", count(1, None, "The maximum number of tokens, up to the server's limit")),
            ("logprobs", count(0, Some(20), "The number of most probable tokens to return with each token")),
            ("echo", flag("Whether to return the prompt before the text")),
        ],
        of_streams(),
        of_texts(),
    ];
    let included = json!({"enum": ["message.output_text.logprobs", "reasoning.encrypted_content"]});
    let text_field = vec![("format", named("TextFormat"))];
    let response = [
        vec![
            (
                "input",
                json!({"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": named("InputItem")}]}),
            ),
            ("instructions", text("The system prompt")),
            ("max_output_tokens", count(1, None, "The maximum number of tokens, up to the server's limit")),
            ("text", object(text_field, &[])),
            ("include", list(included, "Additional contents of the answer")),
            ("top_logprobs", count(0, Some(20), "The number of most probable tokens to return with each token")),
            ("stream", flag("Whether to send the answer as a stream of events")),
            ("stream_options", object(vec![("include_obfuscation", ignored())], &[])),
            ("metadata", ignored()),
            ("store", json!({"const": false, "description": "Nothing is stored"})),
            ("background", json!({"const": false})),
            ("previous_response_id", json!({"type": "null"})),
            ("conversation", json!({"type": "null"})),
            ("prompt", json!({"type": "null"})),
            ("truncation", kind("disabled")),
        ],
        of_tools("FlatTool", "FlatToolChoice"),
        of_texts(),
    ];
    let input_message = vec![
        ("type", kind("message")),
        ("role", json!({"enum": ["system", "developer", "user", "assistant"]})),
        ("content", content()),
        ("id", ignored()),
        ("status", ignored()),
        ("phase", ignored()),
    ];
    let input_call = vec![
        ("type", kind("function_call")),
        ("call_id", text("The id that the result of the tool refers to")),
        ("name", text("")),
        ("arguments", text("A JSON object, as text")),
        ("parsed_arguments", ignored()),
        ("id", ignored()),
        ("status", ignored()),
    ];
    let input_output = vec![
        ("type", kind("function_call_output")),
        ("call_id", text("The id of the call that has this result")),
        ("output", content()),
        ("id", ignored()),
        ("status", ignored()),
    ];
    let structured = vec![
        ("json", json!({"description": "A JSON Schema, or one as text"})),
        ("regex", text("A regular expression, in the syntax of the crate regex")),
        ("choice", list(json!({"type": "string"}), "One of these")),
        ("json_object", flag("Any JSON object")),
    ];
    let tokenize = [
        vec![
            ("model", text("The name of the model")),
            ("prompt", text("A text")),
            ("add_special_tokens", flag("Whether to add the tokens that begin a prompt; true by default")),
            ("messages", messages),
        ],
        of_tools("Tool", "ToolChoice"),
    ];
    let detect = vec![
        ("text", text("The text to test")),
        ("token_ids", tokens.clone()),
        ("texts", list(json!({"type": "string"}), "Several texts")),
        ("key_id", text("The id of the key to test")),
        ("level", number(1e-300, 1.0 - f64::EPSILON, "The p-value at which a text is called marked")),
        ("windows", flag("Look for marked passages")),
    ];
    let flat = [vec![("type", kind("function"))], function()].concat();
    let tool = vec![("type", kind("function")), ("function", object(function(), &["name"]))];
    let named_nested = object(
        vec![("type", kind("function")), ("function", object(vec![("name", text(""))], &["name"]))],
        &["type", "function"],
    );
    let named_flat = object(vec![("type", kind("function")), ("name", text(""))], &["type", "name"]);
    let in_object = vec![("json_schema", object(schema(), &["schema"]))];
    let schemas = [
        ("ChatRequest", object(chat.concat(), &["messages"])),
        ("CompletionRequest", object(completion.concat(), &["prompt"])),
        ("ResponseRequest", object(response.concat(), &["input"])),
        ("TokenizeRequest", object(tokenize.concat(), &[])),
        ("DetokenizeRequest", object(vec![("model", text("The name of the model")), ("tokens", tokens)], &["tokens"])),
        // docs/serve.md has the other fields.
        ("DetectRequest", json!({"type": "object", "properties": object(detect, &[])["properties"]})),
        ("Message", object(message, &["role"])),
        (
            "InputItem",
            json!({"anyOf": [
                object(input_message, &["role", "content"]),
                object(input_call, &["type", "call_id", "name", "arguments"]),
                object(input_output, &["type", "call_id", "output"]),
            ]}),
        ),
        ("Tool", object(tool, &["type", "function"])),
        ("FlatTool", object(flat, &["type", "name"])),
        ("ToolChoice", choice(named_nested)),
        ("FlatToolChoice", choice(named_flat)),
        ("ResponseFormat", format(in_object, &["type", "json_schema"])),
        ("TextFormat", format(schema(), &["type", "schema"])),
        ("StructuredOutputs", object(structured, &[])),
    ];
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}
