//! Branches: `anyOf`, `oneOf`, `not` and `if`, and schemas that refer to themselves.

use serde_json::{Value, json};

use super::check;

#[test]
fn branches_and_recursion() {
    check(
        json!({"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "b$"}, {"type": "null"}]}),
        &["\"a\"", "\"xb\"", "\"ab\"", "null"],
        &["\"x\""],
    );
    let tree = json!({
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
            "required": ["v"], "additionalProperties": false}},
    });
    check(
        tree,
        &["{\"v\":1}", "{\"v\":1,\"kids\":[{\"v\":2,\"kids\":[]},{\"v\":3,\"kids\":[{\"v\":4}]}]}"],
        &["{\"v\":1,\"kids\":[{}]}", "{\"v\":1,\"kids\":[{\"v\":2]}"],
    );
    check(json!({"type": "array", "items": {"$ref": "#"}}), &["[]", "[[],[[]]]"], &["[1]", "[[]"]);
    check(json!({}), &["{\"a\":[1,{\"b\":null}],\"c\":\"x\"}", "[]", "\"\\n\"", "-0.5"], &["{a:1}", "[1 ]", "\"\n\""]);
    // A branch without a finite text is left out.
    check(
        json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/endless"}, {"type": "null"}]}}, "additionalProperties": false,
            "$defs": {"endless": {"type": "object", "properties": {"more": {"$ref": "#/$defs/endless"}}, "required": ["more"]}}}),
        &["{}", "{\"next\":null}"],
        &["{\"next\":{\"more\":null}}"],
    );
}

#[test]
fn one_of_is_any_of_where_branches_exclude_each_other() {
    let tagged = |tag: &str| json!({"type": "object", "properties": {"kind": {"const": tag}, "x": {"type": "integer"}}, "required": ["kind"]});
    check(json!({"oneOf": [{"const": "a"}, {"const": "b"}, {"type": "integer"}]}), &["\"a\"", "3"], &["\"c\""]);
    check(json!({"oneOf": [tagged("a"), tagged("b")]}), &["{\"kind\":\"a\",\"x\":1}"], &["{\"kind\":\"c\"}"]);
    let outer = |name: &str| json!({"type": "object", "properties": {name: {"type": "null"}}, "required": [name], "additionalProperties": false});
    check(
        json!({"oneOf": [outer("a"), outer("b"), {"enum": ["c"]}]}),
        &["{\"a\":null}", "\"c\""],
        &["{\"a\":null,\"b\":null}"],
    );
    // Values that both branches allow are excluded.
    check(json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}), &["1.5"], &["1", "1.0"]);
    check(json!({"oneOf": [{"const": 1}, {"const": 1.0}, {"const": 2}]}), &["2"], &["1", "1.0"]);
    check(json!({"oneOf": [{"type": "string", "minLength": 1}, {"const": "a"}]}), &["\"b\"", "\"aa\""], &["\"a\""]);
    check(
        json!({"oneOf": [tagged("a"), {"type": "object"}]}),
        &["{}", "{\"kind\":\"b\"}", "{\"kind\":\"a\",\"x\":\"\"}"],
        &["{\"kind\":\"a\"}", "{\"kind\":\"a\",\"x\":1}"],
    );
    check(json!({"oneOf": [{}, {"const": "a"}]}), &["\"b\"", "1"], &["\"a\""]);
}

#[test]
fn branches_are_exact() {
    check(json!({"not": {"type": ["string", "null"]}}), &["1", "[]", "{}", "true"], &["\"a\"", "null"]);
    check(
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "not": {"required": ["a", "b"]}}),
        &["{}", "{\"a\":1}", "{\"b\":1}"],
        &["{\"a\":1,\"b\":1}", "{\"a\":\"x\"}"],
    );
    check(
        json!({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "x": {}}, "required": ["kind"],
            "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["x"]}, "else": {"properties": {"x": false}}}),
        &["{\"kind\":\"a\",\"x\":1}", "{\"kind\":\"b\"}"],
        &["{\"kind\":\"a\"}", "{\"kind\":\"b\",\"x\":1}"],
    );
    check(
        json!({"allOf": [{"type": "string", "maxLength": 4}, {"pattern": "^a"}, {"not": {"pattern": "b$"}}]}),
        &["\"a\"", "\"abc\""],
        &["\"b\"", "\"ab\"", "\"aaaaa\""],
    );
    check(
        json!({"type": "object", "dependentRequired": {"a": ["b"], "b": ["c"]}, "properties": {"a": {}, "b": {}, "c": {}}}),
        &["{}", "{\"c\":1}", "{\"b\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"],
        &["{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1}"],
    );
    check(
        json!({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}, "maxContains": 2}),
        &["[5]", "[1,7]", "[7,8,1]"],
        &["[]", "[1]", "[5,6,7]"],
    );
    check(
        json!({"type": "number", "multipleOf": 0.25, "minimum": 0}),
        &["0", "0.5", "1.750", "3"],
        &["0.3", "0.125", "-1"],
    );
    check(
        json!({"type": "object", "minProperties": 2, "maxProperties": 2, "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": false}),
        &["{\"a\":1,\"b\":1}", "{\"a\":1,\"c\":1}"],
        &["{}", "{\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}"],
    );
    check(
        json!({"type": "object", "propertyNames": {"maxLength": 2}, "additionalProperties": {"type": "null"}}),
        &["{}", "{\"ab\":null}"],
        &["{\"abc\":null}", "{\"ab\":1}"],
    );
}

/// Overlapping branches, distinguished by a tag that need not be present.
#[test]
fn many_branches_that_overlap() {
    let kinds = ["car", "bus", "tram", "ship", "ferry", "plane", "train", "bike", "cab", "sled"];
    let branch = |(at, kind): (usize, &&str)| {
        json!({"type": "object", "properties": {"kind": {"enum": [kind]}, "note": {"type": "string"},
            (format!("seats{at}")): {"type": "integer"}, "wheels": {"type": "integer", "maximum": at}}})
    };
    let branches: Vec<Value> = kinds.iter().enumerate().map(branch).collect();
    check(
        json!({ "oneOf": branches }),
        &[
            "{\"kind\":\"bus\",\"note\":\"\",\"seats1\":40,\"wheels\":0}",
            "{\"kind\":\"car\",\"seats1\":true}",
            "{\"wheels\":9}",
        ],
        &["{}", "{\"kind\":\"boat\"}", "{\"kind\":\"car\",\"wheels\":1}", "{\"wheels\":8}", "{\"note\":\"\"}", "1"],
    );
    let not_one = json!({"type": "object", "not": { "anyOf": branches }});
    check(
        not_one,
        &["{\"kind\":\"boat\"}", "{\"note\":1}"],
        &["{}", "{\"kind\":\"car\"}", "{\"kind\":\"car\",\"seats9\":true}"],
    );
    // Closed branches differ by the one name that each of them has.
    let closed = kinds.map(|kind| json!({"type": "object", "properties": {(kind): {}}, "additionalProperties": false}));
    check(
        json!({ "oneOf": closed }),
        &["{\"car\":1}", "{\"sled\":[]}"],
        &["{}", "{\"boat\":1}", "{\"car\":1,\"bus\":1}"],
    );
    // Conditions, each of which also holds if the tag is absent.
    let conditions = kinds.map(|kind| {
        json!({"if": {"properties": {"kind": {"const": kind}}},
            "then": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": [kind]}]}})
    });
    check(
        json!({ "type": "object", "allOf": conditions }),
        &["{\"kind\":\"boat\"}", "{\"kind\":\"car\",\"car\":1}", "{\"a\":1}"],
        &["{}", "{\"kind\":\"car\",\"bus\":1}", "{\"car\":1}"],
    );
}
