//! The built program with schemas of all kinds: its output is checked by an independent validator.

use crate::support::{Folder, TALE_SMALL};
use serde_json::{Value, json};

/// Texts that the program writes under a schema, which the validator must accept.
#[track_caller]
fn written(folder: &Folder, schema: &Value, more: &[&str]) -> Vec<Value> {
    let judge = jsonschema::options().should_validate_formats(true).build(schema).unwrap();
    folder.write("s.json", &schema.to_string());
    let write = |seed: u32| {
        let seed = seed.to_string();
        let arguments = ["generate", "It is", "--model", TALE_SMALL, "--json-schema", "s.json", "--seed", &seed];
        let run = folder.run(&[&arguments[..], more].concat());
        // Where its tokens ran out it is valid all the same, and that is said.
        let is_closed = run.status == 3 && run.err.contains("closed by the constraint when its tokens ran out");
        assert!(run.status == 0 || is_closed, "{schema}: {run:?}");
        let value = run.json();
        assert!(judge.is_valid(&value), "{schema} does not allow {value}");
        value
    };
    (0..3).map(write).collect()
}

#[test]
fn integers_beside_all_other_types() {
    let folder = Folder::new();
    let types = json!(["string", "null", "array", "object", "integer", "boolean"]);
    // Numbers only, since the model might never begin with a digit by itself.
    let schema = json!({"type": types, "not": {"type": ["string", "null", "array", "object", "boolean"]}});
    for value in written(&folder, &schema, &["--max-tokens", "60"]) {
        assert!(value.is_i64() || value.is_u64(), "{value}");
    }
}

#[test]
fn bounds_that_are_far_away() {
    let folder = Folder::new();
    for schema in [
        json!({"type": "number", "minimum": 1e15}),
        json!({"type": "integer", "minimum": 1e20}),
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1e-20}),
    ] {
        written(&folder, &schema, &[]);
    }
}

#[test]
fn predicates_in_predicates() {
    let some = json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1});
    let schema = json!({"oneOf": [
        {"type": "object", "properties": {"and": some}, "required": ["and"]},
        {"type": "object", "properties": {"or": some}, "required": ["or"]},
        {"type": "object", "properties": {"not": {"$ref": "#"}}, "required": ["not"]},
        {"type": "object", "properties": {"is": {"enum": ["here", "there"]}}, "required": ["is"]},
    ]});
    written(&Folder::new(), &schema, &["--max-tokens", "200"]);
    let any = json!({"anyOf": schema["oneOf"]});
    written(&Folder::new(), &any, &["--max-tokens", "200"]);
}

/// `id` is an ordinary property name except in draft 4, and a draft ignores keywords of later drafts.
#[test]
fn drafts_know_their_keywords() {
    let folder = Folder::new();
    for draft in ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"] {
        let schema = json!({
            "$schema": draft,
            "type": "object",
            "id": "https://example.com/other.json",
            "properties": {"id": {"$ref": "#/definitions/id"}},
            "required": ["id"],
            "additionalProperties": false,
            "definitions": {"id": {"id": "number", "enum": [7, 8]}},
        });
        written(&folder, &schema, &[]);
    }
    let four = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "string", "enum": ["a"], "const": "b", "if": {}, "then": false,
    });
    assert_eq!(written(&folder, &four, &[]), ["a", "a", "a"]);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let folder = Folder::new();
    folder.write("s.json", "\u{feff}{\"const\": [1]}");
    let run = folder.run(&["generate", "It is", "--model", TALE_SMALL, "--json-schema", "s.json"]);
    assert_eq!((run.status, run.out.trim()), (0, "[1]"), "{run:?}");
}

#[test]
fn what_is_written_for_a_format_is_one() {
    let folder = Folder::new();
    for format in ["date-time", "time", "duration", "uri"] {
        written(&folder, &json!({"type": "string", "format": format}), &["--max-tokens", "120"]);
    }
}
