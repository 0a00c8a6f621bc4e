//! Large schemas and grammars, deep schemas, and deep texts.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use verdigris_constrain::{BadSchema, Grammar, Machine, Style, TokenIndex};
use verdigris_text::Tokenizer;

static INDEX: LazyLock<Arc<TokenIndex>> = LazyLock::new(|| {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    Arc::new(TokenIndex::new(Tokenizer::from_json(json).expect("it is a tokenizer").vocabulary()))
});

fn of(grammar: Grammar) -> Machine {
    Machine::new(grammar, INDEX.clone())
}

fn machine(schema: &Value) -> Machine {
    of(Grammar::json_schema(schema, Style::default()).unwrap_or_else(|fault| panic!("{fault}")))
}

fn fault(schema: &Value) -> BadSchema {
    Grammar::json_schema(schema, Style::default()).expect_err("it must be refused")
}

fn accepts(machine: &Machine, text: &str) -> bool {
    machine.accepts(machine.next(machine.start(), text.as_bytes()))
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
    assert!(fault(&json!({"type": "object", "properties": {"x".repeat(1 << 23): {}}})).fault.contains("too long"));
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
    assert!(fault(&json!({"type": "object", "allOf": parts})).fault.contains("too many ways"));
    let strings: Vec<Value> = (0..200).map(|i| json!({"type": "string", "maxLength": 500_000 + i})).collect();
    assert!(accepts(&machine(&json!({"anyOf": strings})), "\"a\""));
}

/// The distance to the end is computed without a recursive call for each bracket.
#[test]
fn texts_may_nest_deep() {
    let machine = machine(&json!({}));
    let depth = 200_000;
    let state = machine.next(machine.start(), "[".repeat(depth).as_bytes());
    assert_eq!(machine.to_end(state), depth as u64);
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
    assert!(fault(&json!({"$ref": "#/$defs/0", "$defs": chain})).fault.contains("deep"));
}

/// Long chains of rules, wide rules and long repetitions are built in linear time, or refused.
#[test]
fn large_grammars_do_not_take_long() {
    let chain: String = (0..5_000).map(|i| format!("r{i} ::= \"a\" r{} | \"b\"\n", i + 1)).collect();
    let chain = format!("root ::= r0\n{chain}r5000 ::= root?");
    let machine = of(Grammar::gbnf(&chain).unwrap());
    assert!(accepts(&machine, "aab") && !accepts(&machine, "aa"));
    let nested: String = (0..40).map(|i| format!("r{i} ::= r{} r{}\n", i + 1, i + 1)).collect();
    let machine = of(Grammar::gbnf(&format!("root ::= r0\n{nested}r40 ::= \"a\"?")).unwrap());
    assert!(accepts(&machine, "") && accepts(&machine, &"a".repeat(20)) && !accepts(&machine, "b"));
    let machine = of(Grammar::gbnf("root ::= x{0,20000}\nx ::= \"a\" | \"(\" x \")\"").unwrap());
    assert!(accepts(&machine, "a((a))a") && !accepts(&machine, "a(a"));
}
