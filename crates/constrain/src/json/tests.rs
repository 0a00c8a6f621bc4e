use serde_json::{Value, json};

use super::fault::BadSchema;
use super::style::{Escapes, NumberForms, Order, Style, Whitespace};
use crate::{Grammar, Machine, TokenIndex};
use std::sync::{Arc, LazyLock};
use verdigris_text::Tokenizer;

static TOKENIZER: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::from_json(include_bytes!("../../../../fixtures/models/tale/tokenizer.json")).unwrap());

static INDEX: LazyLock<Arc<TokenIndex>> = LazyLock::new(|| Arc::new(TokenIndex::new(TOKENIZER.vocabulary())));

fn machine(schema: &Value) -> Machine {
    with(schema, Style::default())
}

fn with(schema: &Value, style: Style) -> Machine {
    let grammar = Grammar::json_schema(schema, style).unwrap_or_else(|fault| panic!("{schema}: {fault}"));
    Machine::new(grammar, INDEX.clone())
}

fn accepts(machine: &Machine, text: &str) -> bool {
    machine.accepts(machine.next(machine.start(), text.as_bytes()))
}

fn check(schema: Value, good: &[&str], bad: &[&str]) {
    let machine = machine(&schema);
    for text in good {
        assert!(accepts(&machine, text), "{schema} must accept {text}");
    }
    for text in bad {
        assert!(!accepts(&machine, text), "{schema} must not accept {text}");
    }
}

fn fault(schema: Value) -> BadSchema {
    match Grammar::json_schema(&schema, Style::default()) {
        Ok(_) => panic!("{schema} must be refused"),
        Err(fault) => fault,
    }
}

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
}

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

/// Compares masks and distances with their definition, after all prefixes of every `step`-th text; `texts` is the whole
/// language.
fn masks_are_of(machine: &Machine, mut texts: Vec<String>, step: usize) {
    let vocabulary = TOKENIZER.vocabulary();
    texts.sort_unstable();
    for text in texts.iter().step_by(step) {
        for begun in (0..=text.len()).map(|n| &text[..n]) {
            let state = machine.next(machine.start(), begun.as_bytes());
            let mask = &machine.mask(state).tokens;
            for token in 0..vocabulary.size() as u32 {
                let longer = [begun.as_bytes(), vocabulary.bytes(token)].concat();
                let from = texts.partition_point(|text| text.as_bytes() < &longer[..]);
                let possible = longer.len() > begun.len()
                    && texts.get(from).is_some_and(|text| text.as_bytes().starts_with(&longer));
                assert_eq!(mask.contains(token), possible, "after {begun:?}: {:?}", String::from_utf8_lossy(&longer));
            }
            let from = texts.partition_point(|text| &**text < begun);
            let longer = texts[from..].iter().take_while(|text| text.starts_with(begun));
            let shortest = longer.map(|text| (text.len() - begun.len()) as u64).min();
            assert_eq!(Some(machine.to_end(state)), shortest, "after {begun:?}");
            assert_eq!(machine.accepts(state), shortest == Some(0));
        }
    }
}

/// Compares masks with the machine's answers byte by byte, after all prefixes of a text.
fn masks_agree(machine: &Machine, text: &str) {
    let vocabulary = TOKENIZER.vocabulary();
    for begun in (0..=text.len()).map(|n| &text.as_bytes()[..n]) {
        let state = machine.next(machine.start(), begun);
        let mask = &machine.mask(state).tokens;
        for token in 0..vocabulary.size() as u32 {
            let bytes = vocabulary.bytes(token);
            let possible = !bytes.is_empty() && machine.goes_on(machine.next(state, bytes));
            assert_eq!(mask.contains(token), possible, "after {begun:?}: {:?}", String::from_utf8_lossy(bytes));
        }
    }
}

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
    is(json!({"required": "a"}), "#", "\"required\"");
    is(json!(3), "#", "a schema is");
    is(json!({"$ref": "#"}), "#", "refers to itself");
    is(json!({"anyOf": [{"$ref": "#/anyOf/1"}, {"$ref": "#/anyOf/0"}]}), "#/anyOf/0", "refers to itself");
    is(json!(false), "#", "no finite text");
    is(json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}), "#", "no finite text");
    is(json!({"type": "integer", "minimum": 2, "maximum": 1}), "#", "no finite text");
}

/// Large schemas, and schemas that are deep by reference, give a grammar or an error within a moment.
#[test]
fn large_schemas_are_answered() {
    let chain = |n: usize| {
        let link =
            |i: usize| (format!("{i}"), json!({"type": "array", "items": {"$ref": format!("#/$defs/{}", i + 1)}}));
        let mut links: serde_json::Map<String, Value> = (0..n).map(link).collect();
        links.insert(n.to_string(), json!({"const": 1}));
        json!({"$ref": "#/$defs/0", "$defs": links})
    };
    assert!(accepts(&machine(&chain(20_000)), "[[[]]]"));
    assert!(fault(json!({"type": "object", "properties": {"x".repeat(1 << 23): {}}})).fault.contains("too long"));
    let names: Vec<String> = (0..50_000).map(|i| i.to_string()).collect();
    let _ = Grammar::json_schema(&json!({"type": "object", "required": names}), Style::default());
    // The shortest text has more than 2^100 bytes.
    let double = |i: usize| {
        let half = json!({"$ref": format!("#/$defs/{}", i + 1)});
        (i.to_string(), json!({"type": "array", "prefixItems": [half.clone(), half], "minItems": 2, "maxItems": 2}))
    };
    let mut doubles: serde_json::Map<String, Value> = (0..100).map(double).collect();
    doubles.insert("100".into(), json!({"const": 1}));
    let endless = machine(&json!({"$ref": "#/$defs/0", "$defs": doubles}));
    let begun = endless.next(endless.start(), "[".repeat(100).as_bytes());
    assert_eq!(endless.completion(begun), None);
    assert!(endless.to_end(begun) > 1 << 40 && !endless.mask(begun).tokens.is_empty());
    let parts: Vec<Value> =
        (0..14).map(|i| json!({"anyOf": [{"required": [format!("a{i}")]}, {"required": [format!("b{i}")]}]})).collect();
    assert!(fault(json!({"type": "object", "allOf": parts})).fault.contains("too many ways"));
    let strings: Vec<Value> = (0..200).map(|i| json!({"type": "string", "maxLength": 500_000 + i})).collect();
    assert!(accepts(&machine(&json!({"anyOf": strings})), "\"a\""));
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

/// A name that matches two patterns must have a value for both; if there is none, other names remain allowed.
#[test]
fn names_without_a_value_cannot_come() {
    check(
        json!({"type": "object", "patternProperties": {"[0-9]{2}": {"type": "boolean"}, "X": {"type": "string"}}}),
        &["{\"a 1\":3}", "{\"12\":true}", "{\"X\":\"a\",\"b\":null}", "{}"],
        &["{\"12\":1}", "{\"X\":true}", "{\"X12\":true}", "{\"X12\":\"a\"}"],
    );
}

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

/// The distance to the end is computed without a recursive call for each bracket.
#[test]
fn texts_may_nest_deep() {
    let machine = machine(&json!({}));
    let depth = 200_000;
    let state = machine.next(machine.start(), "[".repeat(depth).as_bytes());
    assert_eq!(machine.to_end(state), depth as u64);
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

#[test]
fn references_lead_into_a_registry_alone() {
    let mut registry = crate::Registry::default();
    registry.insert("types/name.json", json!({"type": "string", "$defs": {"short": {"$ref": "other.json"}}}));
    registry.insert("types/other.json", json!({"maxLength": 2, "type": "string"}));
    registry.insert("x", json!({"$id": "urn:x", "$defs": {"y": {"$anchor": "z", "const": 1}}}));
    let schema = json!({"$id": "https://example.org/root.json", "type": "array", "prefixItems": [
        {"$ref": "types/name.json"}, {"$ref": "types/name.json#/$defs/short"}, {"$ref": "urn:x#z"}]});
    let grammar = Grammar::json_schema_with(&schema, Style::default(), &registry).unwrap();
    let machine = Machine::new(grammar, INDEX.clone());
    assert!(accepts(&machine, "[\"abc\",\"ab\",1]"));
    assert!(!accepts(&machine, "[\"abc\",\"abc\",1]") && !accepts(&machine, "[\"abc\",\"ab\",2]"));
    assert!(fault(schema).fault.contains("leads out of the document, to no schema that is given"));
}

#[test]
fn styles_are_kept() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}, "b": {"type": "number"}}, "required": ["b"]});
    let texts = [
        "{\"a\":[1,2],\"b\":3}",
        "{\"a\": [1, 2], \"b\": 3}",
        "{\"a\": [1,2],\"b\":3}",
        "{\n  \"a\": [ 1 ,\t2 ],\n  \"b\" : 3\n}",
        "{ \"b\":1}",
    ];
    for (whitespace, expected) in [
        (Whitespace::Compact, [true, false, false, false, false]),
        (Whitespace::Spaced, [false, true, false, false, false]),
        (Whitespace::Optional, [true, true, true, false, false]),
        (Whitespace::Free { most: 3 }, [true, true, true, true, true]),
        (Whitespace::Free { most: 2 }, [true, true, true, false, true]),
    ] {
        let machine = with(&schema, Style::default().whitespace(whitespace));
        for (text, expected) in texts.iter().zip(expected) {
            assert_eq!(accepts(&machine, text), expected, "{whitespace:?} {text}");
            // A shortest ending is known at each prefix.
            for begun in (0..=text.len()).map(|n| machine.next(machine.start(), &text.as_bytes()[..n])) {
                if machine.goes_on(begun) {
                    let end = machine.completion(begun).expect("a way to the end");
                    assert!(machine.accepts(machine.next(begun, &end)));
                }
            }
        }
        assert!(!accepts(&machine, " {\"b\":1}") && !accepts(&machine, "{\"b\":1} "));
    }
}

/// Compares with arithmetic.
#[test]
fn steps_that_end_with_zeros() {
    for step in [10u64, 100, 250, 3000, 5000, 7500, 10_000, 86_400, 100_000, 1_000_000, 2_560_000] {
        let machine = with(&json!({"type": "integer", "multipleOf": step}), Style::default());
        for number in (0..400u64).flat_map(|i| [i, i * step, i * step / 10, i * step + 1, i * 9973, i * step / 2]) {
            for text in [number.to_string(), format!("-{number}")] {
                let is_one = number.is_multiple_of(step) && text != "-0";
                assert!(!is_one || accepts(&machine, &text), "{text} is a multiple of {step}");
                assert!(number.is_multiple_of(step) || !accepts(&machine, &text), "{text} is none of {step}");
            }
        }
    }
}

#[test]
fn numbers_in_all_forms() {
    let full = |schema: Value| with(&schema, Style::default().numbers(NumberForms::Full));
    for (schema, good, bad) in [
        (
            json!({"type": "integer"}),
            vec!["1", "1.0", "-20.00e2", "3E+7", "1e0"],
            vec!["1.5", "1e-1", "1.", "01", "1.0e", "e1"],
        ),
        (json!({"type": "number"}), vec!["1", "1.50e-12", "1e2", "2.0"], vec![".5", "1e", "--1", "1e+"]),
        (json!({"type": "integer", "minimum": 3}), vec!["3.0", "12"], vec!["2.0", "3.5", "1e2"]),
        (json!({"enum": [1, 2.5]}), vec!["1", "1.0", "2.5"], vec!["1.5", "2.50e1", "1e0"]),
        (json!({"multipleOf": 3, "type": "number"}), vec!["6.0", "9"], vec!["7.0", "3e1"]),
        // A floating-point parser misreads a number of more than 15 digits with a fraction.
        (
            json!({"type": "integer", "exclusiveMinimum": 900719925474099266u64, "maximum": 900719925474099300u64}),
            vec!["900719925474099267", "900719925474099300"],
            vec!["900719925474099300.0", "900719925474099300.000", "900719925474099267.0"],
        ),
        (json!({"type": "integer", "multipleOf": 3}), vec!["999999999999999.0"], vec!["9999999999999999.0"]),
    ] {
        let machine = full(schema.clone());
        good.iter().for_each(|text| assert!(accepts(&machine, text), "{schema} {text}"));
        bad.iter().for_each(|text| assert!(!accepts(&machine, text), "{schema} {text}"));
    }
}

#[test]
fn strings_with_any_escapes() {
    let any = |schema: Value| with(&schema, Style::default().escapes(Escapes::Any));
    for (schema, good, bad) in [
        (
            json!({"type": "string", "maxLength": 2}),
            vec![r#""\u0061b""#, r#""é\u00E9""#, r#""\ud83d\uDE00x""#, r#""\/\n""#, r#""\u000a\u001f""#, r#""\"""#],
            vec![
                r#""\ud83dx""#,
                r#""\ude00""#,
                r#""abc""#,
                r#""\u0061bc""#,
                r#""\ud83d\ud83d""#,
                r#""\u00g0""#,
                r#""\x""#,
                "\"\n\"",
            ],
        ),
        (
            json!({"enum": ["aé😀", 3]}),
            vec![r#""aé😀""#, r#""\u0061\u00e9\uD83D\uDE00""#, "3"],
            vec![r#""\u0062""#, r#""a\ud83e""#],
        ),
        (
            json!({"type": "string", "pattern": "^[α-γ]+$"}),
            vec![r#""\u03b1β""#],
            vec![r#""\u03b0""#, r#""\u03c""#, r#""\ud8""#],
        ),
        (
            json!({"type": "object", "properties": {"ab/": {"type": "integer"}}, "additionalProperties": {"type": "null"}}),
            vec![r#"{"\u0061b\/":1}"#, r#"{"a":null}"#, r#"{"ab\u002f":2,"\u0061":null}"#],
            vec![r#"{"\u0061b\/":null}"#, r#"{"\u0061":1}"#],
        ),
        // One spelling each, so that equal items are equal texts.
        (
            json!({"items": {"type": "string"}, "uniqueItems": true, "type": "array"}),
            vec![r#"["a"]"#],
            vec![r#"["\u0061"]"#],
        ),
    ] {
        let machine = any(schema.clone());
        bad.iter().for_each(|text| assert!(!accepts(&machine, text), "{schema} {text}"));
        for text in good {
            assert!(accepts(&machine, text), "{schema} {text}");
            masks_agree(&machine, text);
            for begun in (0..=text.len()).map(|n| machine.next(machine.start(), &text.as_bytes()[..n])) {
                let end = machine.completion(begun).expect("a way to the end");
                assert_eq!(end.len() as u64, machine.to_end(begun));
                assert!(machine.accepts(machine.next(begun, &end)), "{schema} {text}");
            }
        }
    }
}

/// Deeply nested schemas give an answer, on a thread with a small stack.
#[test]
fn deep_schemas_are_answered() {
    for wrap in ["not", "allOf", "anyOf", "oneOf", "if", "items", "additionalProperties", "unevaluatedProperties"] {
        let nest = |depth: usize| {
            (0..depth).fold(json!({"type": "integer"}), |schema, _| {
                let is_list = matches!(wrap, "allOf" | "anyOf" | "oneOf");
                let schema = if is_list { Value::Array(vec![schema]) } else { schema };
                let mut keywords = serde_json::Map::from_iter([(wrap.to_owned(), schema)]);
                if wrap == "if" {
                    keywords.extend([("then".to_owned(), true.into()), ("else".to_owned(), false.into())]);
                }
                Value::Object(keywords)
            })
        };
        let near = nest(100);
        assert!(Grammar::json_schema(&near, Style::default()).is_ok(), "{wrap}");
        let mut far = nest(10_000);
        let answer = Grammar::json_schema(&far, Style::default());
        if let Err(fault) = answer {
            assert!(fault.fault.contains("deep"), "{wrap}: {fault}");
        }
        // Dropping a value recurses to its depth, so this one is taken apart.
        while let Some(inner) = far.as_object_mut().and_then(|keywords| {
            let inner = keywords.get_mut(wrap)?.take();
            Some(if let Value::Array(mut list) = inner { list.pop()? } else { inner })
        }) {
            far = inner;
        }
    }
    let chain: serde_json::Map<String, Value> =
        (0..20_000).map(|i| (i.to_string(), json!({"$ref": format!("#/$defs/{}", i + 1)}))).collect();
    assert!(fault(json!({"$ref": "#/$defs/0", "$defs": chain})).fault.contains("deep"));
}
