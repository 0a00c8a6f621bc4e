//! Arrays: their items, their length and what they contain.

use serde_json::json;

use super::check;

#[test]
fn arrays() {
    check(
        json!({"type": "array", "items": {"type": "integer"}}),
        &["[]", "[1]", "[1, 2,3]"],
        &["[1,]", "[,1]", "[\"a\"]", "[1"],
    );
    check(json!({"type": "array", "items": {"const": 1}, "minItems": 2}), &["[1,1]", "[1,1,1,1]"], &["[]", "[1]"]);
    check(json!({"type": "array", "items": {"const": 1}, "maxItems": 2}), &["[]", "[1]", "[1,1]"], &["[1,1,1]"]);
    check(
        json!({"type": "array", "items": {"const": 1}, "minItems": 1, "maxItems": 2.0}),
        &["[1]", "[1,1]"],
        &["[]", "[1,1,1]"],
    );
    check(
        json!({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": false}),
        &["[]", "[1]", "[1,2]"],
        &["[2]", "[1,2,3]"],
    );
    check(
        json!({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 0}, "minItems": 1}),
        &["[1]", "[1,0,0]"],
        &["[]", "[0]"],
    );
    check(json!({"type": "array", "items": false}), &["[]"], &["[1]"]);
    check(json!({"type": "array", "maxItems": 0}), &["[]"], &["[1]"]);
}

#[test]
fn several_kinds_of_items_are_counted() {
    check(
        json!({"type": "array", "allOf": [
            {"contains": {"type": "string"}, "minContains": 2}, {"contains": {"minLength": 2, "type": "string"}, "maxContains": 1},
            {"contains": {"type": "null"}}]}),
        &["[\"a\",\"bc\",null]", "[null,\"ab\",1,\"c\",\"d\"]"],
        &["[\"a\",\"bc\"]", "[null,\"ab\"]", "[null,\"ab\",\"cd\"]", "[null,\"a\",\"b\"]"],
    );
}
