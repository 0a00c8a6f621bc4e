//! Arrays whose items differ.

use serde_json::json;

use super::{accepts, check, fault, machine, masks_agree, masks_are_of, with};
use crate::json::style::{Escapes, NumberForms, Style};

/// All lists of up to three values, with all tokens after all their prefixes.
#[test]
fn unique_items_come_once() {
    let machine = machine(&json!({"type": "array", "uniqueItems": true, "maxItems": 3, "minItems": 2,
        "items": {"enum": ["a", "ab", 1, 1.5, true, null]}}));
    let values = ["\"a\"", "\"ab\"", "1", "1.5", "true", "null"];
    let mut lists = Vec::new();
    for a in values {
        for b in values.iter().filter(|b| **b != a) {
            for first in [",", ", "] {
                lists.push(format!("[{a}{first}{b}]"));
                for c in values.iter().filter(|c| *c != b && **c != a) {
                    lists.extend([",", ", "].map(|second| format!("[{a}{first}{b}{second}{c}]")));
                }
            }
        }
    }
    masks_are_of(&machine, lists, 17);
    check(
        json!({"type": "array", "uniqueItems": true, "items": {"type": ["string", "number"]}}),
        &["[]", "[\"\",\"a\",\"aa\",1,12,1.2]", "[\"1\",1]", "[10,1,100]"],
        &["[\"a\",\"b\",\"a\"]", "[1,2,1]", "[1,1.0]", "[0.5,0.50]", "[\"\",\"\"]"],
    );
    assert_eq!(
        fault(json!({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}, "minItems": 3})).fault,
        "no finite text obeys it"
    );
}

/// Items with parts are compared as values: all lists of up to two of them, with all tokens after all their prefixes.
#[test]
fn unique_items_with_parts_come_once() {
    let item = json!({"type": "object", "properties": {"a": {"enum": [1, 12]}, "b": {"const": [true]}},
        "required": ["a"], "additionalProperties": false});
    // All spellings of each of the four values.
    let mut items = Vec::new();
    for (value, a) in ["1", "12"].into_iter().enumerate() {
        for colon in [":", ": "] {
            items.push((value, format!("{{\"a\"{colon}{a}}}")));
            for (second, comma) in [(":", ","), (": ", ","), (":", ", "), (": ", ", ")] {
                items.push((value + 2, format!("{{\"a\"{colon}{a}{comma}\"b\"{second}[true]}}")));
                items.push((value + 2, format!("{{\"b\"{colon}[true]{comma}\"a\"{second}{a}}}")));
            }
        }
    }
    for least in [0, 1] {
        let schema = json!({"type": "array", "uniqueItems": true, "items": item, "minItems": least, "maxItems": 2});
        let mut lists = Vec::new();
        if least < 1 {
            lists.push("[]".to_owned());
        }
        for (value, item) in &items {
            lists.push(format!("[{item}]"));
            for (_, other) in items.iter().filter(|(other, _)| other != value) {
                lists.extend([",", ", "].map(|comma| format!("[{item}{comma}{other}]")));
            }
        }
        masks_are_of(&with(&schema, Style::default().any_order()), lists, 61);
    }
}

/// When few values are left, a text is led to one of them.
#[test]
fn unique_items_end_where_no_value_is_left() {
    let flag = json!({"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"],
        "additionalProperties": false});
    let machine = machine(&json!({"type": "array", "uniqueItems": true, "items": flag}));
    let all = "[{\"on\":true},{\"on\":false}]";
    assert!(accepts(&machine, all));
    masks_agree(&machine, all);
    for (begun, more) in [("[{\"on\":true}", ","), ("[{\"on\":true},{\"on\":", "f"), (&all[..all.len() - 1], "]")] {
        let at = machine.next(machine.start(), begun.as_bytes());
        let bytes: Vec<u8> = (0..=u8::MAX)
            .filter(|&byte| machine.goes_on(machine.next(at, &[byte])) || machine.accepts(machine.next(at, &[byte])))
            .collect();
        assert!(bytes.contains(&more.as_bytes()[0]), "{begun}: {bytes:?}");
        assert!(!bytes.contains(if more == "]" { &b',' } else { &b't' }), "{begun}: {bytes:?}");
        let end = machine.completion(at).expect("a way to the end");
        assert_eq!(end.len() as u64, machine.to_end(at));
    }
}

#[test]
fn unique_items_with_parts_differ_as_values() {
    check(
        json!({"type": "array", "uniqueItems": true, "minItems": 1}),
        &[
            "[{}]",
            "[{},[],{\"a\":1},{\"a\":2},[1],[1,1],[[1]],1,\"[]\"]",
            "[{\"a\":{\"b\":[]}},{\"a\":{\"b\":{}}}]",
            "[{\"a\":2},{\"a\":2,\"a\":1}]",
            "[1,12,\"\",\"1\",true,null]",
        ],
        &[
            "[]",
            "[{},{}]",
            "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]",
            "[{\"a\":1,\"b\":2},{\"b\": 2, \"a\": 1}]",
            "[[1, 2],[1,2]]",
            "[{\"a\":1.0},{\"a\":1}]",
            "[\"a\",{},\"a\"]",
            "[true,{},true]",
            "[12,{},12]",
            // Of repeated names the last one counts.
            "[{\"a\":2},{\"a\":1,\"a\":2}]",
        ],
    );
    check(
        json!({"type": "array", "uniqueItems": true, "prefixItems": [{"type": "boolean"}, {"type": "boolean"}]}),
        &["[]", "[true]", "[true,false]", "[false,true,1,\"a\",{}]"],
        &["[true,true]", "[true,false,true]", "[1]", "[false,true,1,1]"],
    );
    // Lists of lists of lists, each with items that differ.
    let lists = json!({"$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}, "uniqueItems": true}},
        "$ref": "#/$defs/list"});
    check(lists, &["[]", "[[],[[]]]", "[[[]],[[],[[]]]]"], &["[[],[]]", "[[[],[]]]", "[[[[]],[]],[[[]],[]]]"]);
    let machine = machine(&json!({"type": "array", "uniqueItems": true, "items": {"type": "object"}}));
    masks_agree(&machine, "[{\"a\": [1, \"x\"]}, {\"a\":[1,\"y\"]},{}]");
    masks_agree(&machine, "[{\"a\":1},{\"a\":2,\"a\":3}]");
    // Numbers and strings in all their notations.
    let forms = Style::default().numbers(NumberForms::Full).escapes(Escapes::Any);
    let machine = with(&json!({"type": "array", "uniqueItems": true}), forms);
    assert!(accepts(&machine, "[[1.0],[\"\\u0061\"],[10],[\"b\"]]"));
    for same in ["[[1.0],[1]]", "[[10],[1e1]]", "[[\"\\u0061\"],[\"a\"]]"] {
        assert!(!accepts(&machine, same), "{same}");
    }
}
