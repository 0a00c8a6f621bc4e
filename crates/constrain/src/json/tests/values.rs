//! Types, listed values, and keywords that have no effect.

use serde_json::{Value, json};

use super::check;

#[test]
fn types_and_values() {
    check(json!({"type": "null"}), &["null"], &["", "nul", "nulls", "0", " null"]);
    check(json!({"type": ["boolean", "null"]}), &["true", "false", "null"], &["0"]);
    check(
        json!({"enum": ["a\"b", 1.5, null, [1, "x"], {"k": []}]}),
        &["\"a\\\"b\"", "1.5", "null", "[1,\"x\"]", "{\"k\":[]}"],
        &["1"],
    );
    check(json!({"type": "integer", "enum": [1, "1", 2.5, 3.0]}), &["1", "3"], &["\"1\"", "2.5"]);
    check(json!({"const": {"b": 1, "a": 2}}), &["{\"b\":1,\"a\":2}"], &["{}"]);
    check(json!({"type": ["integer", "number"], "minimum": 2}), &["2", "2.5"], &["1.5", "1"]);
    check(json!({"type": "integer", "format": "uint8"}), &["0", "255"], &["256", "-1"]);
    check(json!({"type": "integer", "format": "int8", "minimum": -5}), &["-5", "127"], &["128", "-6"]);
    // Whether or not a validator knows the format, exactly one branch holds.
    let branch = |name: &str, of: Value| json!({"type": "object", "properties": {(name): of}, "required": [name]});
    let one = json!({"oneOf": [branch("a", json!({"type": "integer", "format": "uint8"})), branch("b", json!({"type": "string"}))]});
    check(
        one,
        &["{\"a\":1}", "{\"b\":\"x\"}", "{\"b\":\"x\",\"a\":\"x\"}"],
        &["{\"a\":256}", "{\"b\":\"x\",\"a\":256}", "{\"b\":\"x\",\"a\":1}"],
    );
}

/// Annotations, and keywords for other types, have no effect.
#[test]
fn what_says_nothing_is_passed_over() {
    check(
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x", "title": "t", "type": "integer", "minLength": 3, "default": 1, "properties": {"a": {}}}),
        &["1"],
        &["\"abc\""],
    );
    check(json!({"minLength": 3, "minimum": 5}), &["\"abc\"", "5", "null", "[]"], &["\"ab\"", "4"]);
}
