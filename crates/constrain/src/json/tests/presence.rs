//! Conditions on which properties are present.

use serde_json::{Value, json};

use super::{accepts, with};
use crate::json::style::{Order, Style};

/// Conditions on presence are decided by the properties that are present, in either order.
#[test]
fn conditions_on_presence_are_exact() {
    let names = ["a", "b", "c", "d"];
    // All sets of these names, as objects, in two orders.
    let texts = || {
        (0..16u32).flat_map(|set| {
            let there: Vec<&str> = (0..4).filter(|i| set >> i & 1 == 1).map(|i| names[i]).collect();
            let text = |there: Vec<&str>| {
                let properties: Vec<String> = there.iter().map(|name| format!("\"{name}\":1")).collect();
                format!("{{{}}}", properties.join(","))
            };
            [(set, text(there.clone()), true), (set, text(there.iter().rev().copied().collect()), false)]
        })
    };
    let has = |set: u32, name: usize| set >> name & 1 == 1;
    type Judge = fn(u32, &dyn Fn(u32, usize) -> bool) -> bool;
    let cases: [(Value, Judge); 6] = [
        (json!({"dependencies": {"a": {"required": ["b"]}, "b": {"required": ["c", "d"]}}}), |set, has| {
            (!has(set, 0) || has(set, 1)) && (!has(set, 1) || has(set, 2) && has(set, 3))
        }),
        (json!({"dependencies": {"a": {"required": ["b"]}, "c": {"not": {"required": ["b", "d"]}}}}), |set, has| {
            (!has(set, 0) || has(set, 1)) && !(has(set, 1) && has(set, 2) && has(set, 3))
        }),
        (
            json!({"dependentSchemas": {"a": {"not": {"required": ["a"]}}, "b": {"not": {"required": ["c"]}}}}),
            |set, has| !(has(set, 0) || has(set, 1) && has(set, 2)),
        ),
        (json!({"dependentSchemas": {"a": false, "b": {"required": ["c"], "type": "object"}}}), |set, has| {
            !has(set, 0) && (!has(set, 1) || has(set, 2))
        }),
        (json!({"minProperties": 2, "dependentRequired": {"a": ["b", "c"]}}), |set, has| {
            set.count_ones() >= 2 && (!has(set, 0) || has(set, 1) && has(set, 2))
        }),
        (
            json!({"maxProperties": 2, "dependentSchemas": {"a": {"required": ["b"]}, "b": {"not": {"required": ["d"]}}}}),
            |set, has| set.count_ones() <= 2 && (!has(set, 0) || has(set, 1)) && !(has(set, 1) && has(set, 3)),
        ),
    ];
    for (schema, judge) in cases {
        let mut whole = schema.clone();
        whole["type"] = json!("object");
        whole["properties"] = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        for order in [Order::Any, Order::Schema] {
            let style = Style { order, ..Style::default() };
            let machine = with(&whole, style);
            for (set, text, in_order) in texts() {
                let wanted = judge(set, &has) && (in_order || order == Order::Any || set.count_ones() < 2);
                assert_eq!(accepts(&machine, &text), wanted, "{whole} {text}");
                // If a text can continue, it has an ending.
                for end in 0..text.len() {
                    let state = machine.next(machine.start(), &text.as_bytes()[..end]);
                    if machine.goes_on(state) {
                        let mut full = text.as_bytes()[..end].to_vec();
                        full.extend(machine.completion(state).unwrap_or_else(|| panic!("{whole} {text} {end}")));
                        let there: Value = serde_json::from_slice(&full).unwrap();
                        let set = (0..4).filter(|i| there.get(names[*i]).is_some()).map(|i| 1 << i).sum();
                        if there.as_object().unwrap().keys().all(|key| names.contains(&key.as_str())) {
                            assert!(judge(set, &has), "{whole} {there}");
                        }
                    }
                }
            }
        }
    }
}

/// Conditions on presence do not increase the number of states of nested objects.
#[test]
fn conditions_on_presence_do_not_multiply() {
    let of = |n: usize| {
        let depends: Value = (0..n).map(|i| (format!("p{i}"), json!({"required": [format!("m{i}")]}))).collect();
        let names = json!({"properties": {"additionalProperties": {"$ref": "#"}}});
        let style = Style { order: Order::Any, ..Style::default() };
        let machine = with(&json!({"dependencies": depends, "properties": names}), style);
        let text = br#"{"properties":{"a":{"p0":1,"properties":{"b":{"p1":2,"properties":{"c":{"p2":3"#;
        let state = machine.next(machine.start(), text);
        assert!(machine.goes_on(state) && !machine.mask(state).tokens.is_empty());
        machine.states_memory()
    };
    let (few, many) = (of(3), of(9));
    assert!(many < 4 * few && many < 4 << 20, "{few} and {many} bytes");
}

/// Each of four pairs doubles the alternatives for the object; inside a value they are merged.
#[test]
fn alternatives_share_what_is_inside_of_values() {
    let pairs = [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]];
    let one = pairs.map(|[x, y]| json!({"oneOf": [{"required": [x]}, {"required": [y]}]}));
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"w": {"type": "string"}}}});
    let schema = json!({"type": "object", "properties": {"v": list}, "required": ["v"], "allOf": one});
    let machine = with(&schema, Style { order: Order::Any, ..Style::default() });
    let places = |text: &str| machine.reading(machine.next(machine.start(), text.as_bytes())).len();
    assert!(places("{\"v\": [{\"w\": \"x\"}]") >= 16, "between properties they are distinct");
    for text in ["{\"v\": [{\"w\": \"x", "{\"a\": 1, \"v\": [{\"w\": \"x", "{\"v\": [{\"w\": \"x\"}, {\"w\": \""] {
        assert_eq!(places(text), 1, "{text}");
    }
    let end = machine.to_end(machine.next(machine.start(), b"{\"v\": [{\"w\": \"x"));
    assert_eq!(end, "\"}],\"a\":0,\"c\":0,\"e\":0,\"g\":0}".len() as u64);
    for (rest, whole) in [
        ("\"a\": 0, \"c\": 0, \"e\": 0, \"g\": 0", true),
        ("\"h\": 0, \"c\": 0, \"b\": 0, \"f\": 0", true),
        ("\"a\": 0, \"c\": 0, \"e\": 0", false),
        ("\"a\": 0, \"b\": 0, \"c\": 0, \"e\": 0, \"g\": 0", false),
    ] {
        assert_eq!(accepts(&machine, &format!("{{\"v\": [{{\"w\": \"x\"}}], {rest}}}")), whole, "{rest}");
    }
}

/// At most one of each group, expressed with branches, becomes conditions.
#[test]
fn alternatives_of_presence_become_conditions() {
    let groups = [&["a", "b", "c"][..], &["d", "e", "f"], &["g", "h"]];
    let at_most_one = groups.map(|names| {
        let each: Vec<Value> = names.iter().map(|name| json!({"required": [name]})).collect();
        let none = json!({"not": {"anyOf": each}});
        json!({"oneOf": each.iter().cloned().chain([none]).collect::<Vec<_>>()})
    });
    let schema = json!({"type": "object", "properties": {"v": {"type": "integer"}}, "allOf": at_most_one});
    let machine = with(&schema, Style { order: Order::Any, ..Style::default() });
    let places = machine.reading(machine.next(machine.start(), b"{\"v\":1,")).len();
    assert_eq!(places, 2, "one list of names for all of them, and white space before it");
    let names = groups.concat();
    for set in 0u32..1 << names.len() {
        let there: Vec<&str> = (0..names.len()).filter(|at| set >> at & 1 == 1).map(|at| names[at]).collect();
        let fits = groups.iter().all(|group| group.iter().filter(|name| there.contains(name)).count() <= 1);
        for order in [there.clone(), there.iter().rev().copied().collect()] {
            let text = order.iter().map(|name| format!("\"{name}\":0")).collect::<Vec<_>>().join(",");
            assert_eq!(accepts(&machine, &format!("{{{text}}}")), fits, "{text}");
        }
    }
}
