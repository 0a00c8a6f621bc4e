//! Demands on what no other keyword has evaluated.

use serde_json::json;

use super::check;

#[test]
fn what_nothing_has_looked_at_obeys() {
    check(
        json!({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": {"type": "null"},
            "anyOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}, {"patternProperties": {"^c": {"const": 2}}, "required": ["c"]}]}),
        &[
            "{\"a\":0,\"b\":1}",
            "{\"b\":1,\"c\":2}",
            "{\"b\":1,\"c\":null}",
            "{\"c\":2,\"c3\":2}",
            "{\"b\":1,\"z\":null}",
        ],
        &["{\"a\":0}", "{\"b\":1,\"c\":3}", "{\"b\":1,\"z\":0}", "{\"b\":2,\"c\":2}"],
    );
    check(
        json!({"type": "array", "if": {"prefixItems": [{"const": 1}]}, "then": {"prefixItems": [true, {"const": 2}]},
            "contains": {"type": "string"}, "unevaluatedItems": {"type": "null"}, "minItems": 1}),
        &["[1,2,\"x\"]", "[1,2,null,\"a\"]", "[null,\"b\"]"],
        &["[1,2]", "[1,3,\"a\"]", "[2,\"a\"]", "[1,2,3,\"a\"]"],
    );
}
