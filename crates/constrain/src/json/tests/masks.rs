//! Masks and completions, compared with all texts of a schema.

use serde_json::json;

use super::{accepts, machine, masks_are_of};
use crate::Machine;

/// Every state has a way to the end: whatever is chosen at random, the text can be completed.
#[test]
fn masks_never_lead_astray() {
    let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
        "a": {"type": "string", "pattern": "^[ab]+c$", "maxLength": 4}, "b": {"enum": [12, "x"]}}});
    let machine = machine(&schema);
    let texts: Vec<String> = {
        let inner = |n: u32| {
            (0..1u32 << n)
                .map(move |bits| (0..n).map(|i| if bits >> i & 1 == 1 { 'a' } else { 'b' }).collect::<String>() + "c")
        };
        let values: Vec<String> = (1..=3).flat_map(inner).collect();
        let mut texts = Vec::new();
        for value in values {
            for colon in [":", ": "] {
                texts.push(format!("{{\"a\"{colon}\"{value}\"}}"));
                for comma in [",", ", "] {
                    for other in ["12", "\"x\""] {
                        for second in [":", ": "] {
                            texts.push(format!("{{\"a\"{colon}\"{value}\"{comma}\"b\"{second}{other}}}"));
                        }
                    }
                }
            }
        }
        texts
    };
    masks_are_of(&machine, texts, 7);
}

#[test]
fn completions_are_the_shortest() {
    let schema = json!({"type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
        "a": {"type": "string", "minLength": 2}, "b": {"anyOf": [{"const": 100}, {"type": "array", "items": {"$ref": "#"}}]}}});
    let machine = machine(&schema);
    for (begun, shortest) in [
        ("", 17),
        ("{\"a\":\"", 11),
        ("{\"a\":\"xyz", 9),
        ("{\"a\":\"xy\",\"b\":", 3),
        ("{\"a\":\"xy\",\"b\":1", 3),
        ("{\"a\":\"xy\",\"b\":[{\"a\"", 15),
        ("{\"a\":\"xy\",\"b\":[]}", 0),
    ] {
        let rest = machine.completion(machine.next(machine.start(), begun.as_bytes())).unwrap();
        let text = format!("{begun}{}", String::from_utf8(rest.clone()).unwrap());
        assert!(accepts(&machine, &text), "{text}");
        assert_eq!(rest.len(), shortest, "{text}");
    }
    assert_eq!(machine.completion(machine.next(machine.start(), b"x")), None);
}

#[test]
fn a_completion_has_the_memory_of_states() {
    let schema = json!({"type": "string", "minLength": 5_000});
    let completion = |machine: Machine| machine.completion(machine.start()).map(|rest| rest.len());
    assert_eq!(completion(machine(&schema)), Some(5_002));
    assert_eq!(completion(machine(&schema).with_states_memory(1 << 14)), None);
}
