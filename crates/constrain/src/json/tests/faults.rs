//! Refused schemas: the error names the location and the keyword.

use serde_json::{Value, json};

use super::fault;

#[test]
fn what_is_not_understood_is_named() {
    let at = |schema: Value| fault(schema).to_string();
    let is = |schema: Value, path: &str, part: &str| {
        let message = at(schema);
        assert!(message.contains(&format!("{path}: ")) && message.contains(part), "{message}");
    };
    is(
        json!({"type": "object", "properties": {"a/b": {"not": {"unevaluatedItems": false}}}}),
        "#/properties/a~1b/not",
        "\"unevaluatedItems\" below \"not\"",
    );
    let two = json!({"uniqueItems": true, "minItems": 2});
    is(json!({"type": "array", "items": two}), "#/items", "\"minItems\" above 1 with \"uniqueItems\" of arrays");
    let some = json!({"uniqueItems": true, "contains": true});
    is(json!({"type": "array", "items": some}), "#/items", "\"uniqueItems\" with \"contains\"");
    is(json!({"type": "integer", "multipleOf": 0}), "#", "\"multipleOf\"");
    is(json!({"type": "integer", "multipleOf": 65536}), "#", "the zeros at its end it may be at most 4096");
    is(json!({"not": {"uniqueItems": true}}), "#/not", "\"uniqueItems\" below \"not\"");
    is(json!({"not": {"additionalProperties": false}, "maxProperties": 3}), "#", "\"maxProperties\"");
    is(json!({"type": "strin"}), "#", "\"strin\"");
    is(json!({"type": "string", "pattern": "(?=a)"}), "#", "looks around");
    is(json!({"type": "string", "pattern": "a("}), "#", "unclosed group");
    is(json!({"anyOf": [{"$ref": "http://example.org/x"}]}), "#/anyOf/0", "leads out");
    is(json!({"$ref": "#/$defs/nothing"}), "#", "leads nowhere");
    is(json!({"minimum": "x"}), "#", "\"minimum\"");
    is(json!({"minLength": -1}), "#", "\"minLength\"");
    is(json!({"minLength": 1.5}), "#", "\"minLength\"");
    for least in [100_000_000u64, 4_294_967_296, u64::MAX] {
        is(json!({"minLength": least}), "#", "\"minLength\" or \"maxLength\" is too large");
    }
    is(json!({"$schema": "http://json-schema.org/draft-03/schema#"}), "#/$schema", "drafts before draft 4");
    is(json!({"required": "a"}), "#", "\"required\"");
    is(json!(3), "#", "a schema is");
    is(json!({"$ref": "#"}), "#", "refers to itself");
    is(json!({"anyOf": [{"$ref": "#/anyOf/1"}, {"$ref": "#/anyOf/0"}]}), "#/anyOf/0", "refers to itself");
    is(json!(false), "#", "no finite text");
    is(json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}), "#", "no finite text");
    is(json!({"type": "integer", "minimum": 2, "maximum": 1}), "#", "no finite text");
}
