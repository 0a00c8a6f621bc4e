//! Objects: the order of properties, their names, and what must not hold for all of them.

use serde_json::{Value, json};

use super::{accepts, check, with};
use crate::json::style::Style;

#[test]
fn objects_in_the_order_of_the_schema() {
    let schema = json!({
        "properties": {"name": {"type": "string", "maxLength": 3}, "age": {"type": "integer", "minimum": 0}, "ok": {"type": "boolean"}},
        "required": ["age"], "type": "object", "additionalProperties": false,
    });
    check(
        schema,
        &[
            "{\"age\":1}",
            "{\"name\": \"ab\", \"age\": 10}",
            "{\"name\":\"\",\"age\":0,\"ok\":true}",
            "{\"age\":1, \"ok\": false}",
        ],
        &[
            "{}",
            "{\"name\":\"abcd\",\"age\":1}",
            "{\"age\":1,\"name\":\"a\"}",
            "{,\"age\":1}",
            "{\"age\":1,}",
            "{\"age\":01}",
            "{\"age\":1,\"x\":1}",
            "{\"age\":1} ",
        ],
    );
    let open = json!({"type": "object", "properties": {"a": {"type": "null"}, "é": {"type": "null"}}, "additionalProperties": {"type": "integer"}});
    check(
        open,
        &["{}", "{\"a\":null,\"b\":1,\"aa\": 2}", "{\"z\":1,\"y\":2}", "{\"é\":null, \"è\":1}"],
        &["{\"a\":1}", "{\"b\":null}", "{\"b\":1,\"a\":null}", "{\"b\":1,\"a\":1}", "{\"é\":2}", "{\"\\u0061\":1}"],
    );
    let required = json!({"type": "object", "required": ["x", "y"], "additionalProperties": {"type": "null"}, "properties": {"y": {"const": 1}}});
    check(
        required,
        &["{\"y\":1,\"x\":null}", "{\"y\":1,\"x\":null,\"z\":null}"],
        &["{\"y\":1}", "{\"x\":null}", "{\"y\":1,\"x\":1}"],
    );
    let closed = with(&json!({"type": "object", "properties": {"a": {"type": "null"}}}), Style::default().closed());
    assert!(accepts(&closed, "{\"a\":null}") && accepts(&closed, "{}") && !accepts(&closed, "{\"b\":null}"));
}

/// A name that matches two patterns must have a value for both; if there is none, other names remain allowed.
#[test]
fn names_without_a_value_cannot_come() {
    check(
        json!({"type": "object", "patternProperties": {"[0-9]{2}": {"type": "boolean"}, "X": {"type": "string"}}}),
        &["{\"a 1\":3}", "{\"12\":true}", "{\"X\":\"a\",\"b\":null}", "{}"],
        &["{\"12\":1}", "{\"X\":true}", "{\"X12\":true}", "{\"X12\":\"a\"}"],
    );
}

#[test]
fn properties_come_in_any_order_where_they_may() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["b"]});
    let machine = with(&schema, Style::default().any_order());
    for text in ["{\"b\":null}", "{\"b\":null,\"a\":null}", "{\"x\":1,\"b\":null}", "{\"a\":null,\"x\":1,\"b\":null}"] {
        assert!(accepts(&machine, text), "{text}");
    }
    for text in ["{}", "{\"a\":null}", "{\"b\":null,\"b\":null}", "{\"b\":null,\"a\":1}"] {
        assert!(!accepts(&machine, text), "{text}");
    }
}

/// If a demand on all other properties must not hold, one of them breaks it.
#[test]
fn some_property_breaks_what_must_not_hold() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "null"}}, "not": {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}}),
        &["{\"b\":\"x\"}", "{\"a\":null,\"b\":1,\"c\":null}", "{\"b\":[],\"c\":1}"],
        &["{}", "{\"a\":null}", "{\"b\":1}", "{\"a\":null,\"b\":1,\"c\":2}", "{\"a\":1,\"b\":\"x\"}"],
    );
    let closed = |names: &[&str]| {
        let properties: Vec<(String, Value)> = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        json!({"properties": serde_json::Map::from_iter(properties), "additionalProperties": false})
    };
    check(
        json!({"type": "object", "oneOf": [closed(&["a", "b"]), closed(&["b", "c"])]}),
        &["{\"a\":1}", "{\"c\":1}", "{\"a\":1,\"b\":2}", "{\"b\":1,\"c\":2}"],
        &["{}", "{\"b\":1}", "{\"a\":1,\"c\":2}", "{\"d\":1}"],
    );
    check(
        json!({"type": "object", "not": {"patternProperties": {"^x": {"type": "string"}}}}),
        &["{\"x\":1}", "{\"x\":\"a\",\"xy\":null}", "{\"a\":1,\"x1\":2}"],
        &["{}", "{\"a\":1}", "{\"x\":\"a\"}"],
    );
    check(
        json!({"type": "object", "not": {"propertyNames": {"maxLength": 2}}}),
        &["{\"abc\":1}", "{\"a\":1,\"abcd\":2}"],
        &["{}", "{\"ab\":1}"],
    );
    check(
        json!({"not": {"enum": [1, "x", [1, {"a": 2}], {"b": [3], "c": null}]}}),
        &[
            "2",
            "\"y\"",
            "[]",
            "[1,{\"a\":3}]",
            "[1,{}]",
            "[1,{\"a\":2},0]",
            "{}",
            "{\"b\":[3]}",
            "{\"b\":[3],\"c\":1}",
            "{\"b\":[3],\"c\":null,\"d\":1}",
            "[1,{\"a\":2,\"b\":1}]",
        ],
        &["1", "\"x\"", "[1,{\"a\":2}]", "{\"b\":[3],\"c\":null}", "[1, {\"a\": 2}]"],
    );
    check(
        json!({"type": "array", "not": {"prefixItems": [{"const": 0}], "items": {"type": "null"}}}),
        &["[1]", "[0,1]", "[0,null,3,null]"],
        &["[]", "[0]", "[0,null]"],
    );
}
