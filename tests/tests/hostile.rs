//! Schemas that require endless work get an answer: a grammar, or an error that names the location. Work is limited by
//! counts, so the answers are the same on every machine.

use std::time::Instant;

use serde_json::{Map, Value, json};
use verdigris::{Grammar, Style};
use verdigris_tests::sampled::sampled;

/// A list of `n` schemas.
fn list(n: usize, schema: impl FnMut(usize) -> Value) -> Value {
    (0..n).map(schema).collect()
}

fn object(n: usize, entry: impl FnMut(usize) -> (String, Value)) -> Value {
    Value::Object((0..n).map(entry).collect::<Map<_, _>>())
}

/// Nests a schema `depth` times.
fn nested(depth: usize, inner: Value, around: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(inner, |schema, _| around(schema))
}

const PRIMES: [u64; 12] = [3967, 3989, 4001, 4003, 4007, 4013, 4019, 4021, 4027, 4049, 4051, 4057];

fn families() -> Vec<(&'static str, Value)> {
    let steps = |n: usize| list(n, |i| json!({"multipleOf": PRIMES[i]}));
    let small = [5u64, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    let pairs =
        |n: usize| list(n, |i| json!({"anyOf": [{"multipleOf": small[i]}, {"multipleOf": small[(i + 1) % 10]}]}));
    let contain = |i: usize| format!("a[a-z]*{}{}", char::from(b'a' + (i % 26) as u8), i);
    let mut families = vec![
        ("all of any of numbers", json!({"type": "integer", "minimum": 1, "allOf": pairs(10)})),
        ("all of one of numbers", {
            let one = list(9, |i| json!({"oneOf": [{"multipleOf": small[i]}, {"multipleOf": small[i + 1]}]}));
            json!({"type": "number", "minimum": 1, "allOf": one})
        }),
        ("all of any of patterns", {
            let any = list(11, |i| json!({"anyOf": [{"pattern": contain(2 * i)}, {"pattern": contain(2 * i + 1)}]}));
            json!({"type": "string", "allOf": any})
        }),
        ("all of any of objects", {
            let any = list(
                12,
                |i| json!({"anyOf": [{"required": [format!("a{i}")]}, {"properties": {format!("b{i}"): {"type": "null"}}}]}),
            );
            json!({"type": "object", "allOf": any})
        }),
        ("one of overlapping objects", {
            let one =
                list(40, |i| json!({"properties": {format!("p{i}"): {"type": "integer"}, format!("q{}", i / 2): {}}}));
            json!({"type": "object", "oneOf": one})
        }),
        ("one of many constants", json!({"oneOf": list(3000, |i| json!({"const": i}))})),
        ("one of many tags", {
            let one = list(
                1500,
                |i| json!({"type": "object", "required": ["tag"], "properties": {"tag": {"const": format!("t{i}")}}}),
            );
            json!({"oneOf": one})
        }),
        ("any of many bounds", json!({"anyOf": list(50_000, |i| json!({"minimum": i}))})),
        ("coprime steps", json!({"type": "integer", "allOf": steps(12)})),
        ("coprime steps, not", json!({"type": "integer", "not": {"anyOf": steps(12)}})),
        ("one of coprime steps", json!({"type": "integer", "oneOf": steps(12)})),
        (
            "any of steps, no longer",
            json!({"anyOf": list(12, |i| json!({"allOf": steps(1 + i % 12), "type": "number"}))}),
        ),
        ("nested not", nested(118, json!({"anyOf": pairs(5)}), |schema| json!({"not": schema}))),
        (
            "nested not of any",
            nested(58, json!({"type": "string"}), |schema| json!({"not": {"anyOf": [schema, {"minimum": 3}]}})),
        ),
        ("nested one of", nested(58, json!({"minimum": 1}), |schema| json!({"oneOf": [schema, {"maximum": 5}]}))),
        (
            "nested if",
            nested(
                110,
                json!({"minimum": 1}),
                |schema| json!({"if": schema, "then": {"multipleOf": 3}, "else": {"maximum": 8}}),
            ),
        ),
        (
            "nested properties",
            nested(
                60,
                json!({"type": "string"}),
                |schema| json!({"properties": {"a": schema}, "required": ["a"], "not": {"required": ["b"]}}),
            ),
        ),
        ("nested items", nested(110, json!({"type": "string"}), |schema| json!({"items": schema, "minItems": 2}))),
        ("a chain of dependent properties", {
            let chain = object(20_000, |i| (format!("p{i}"), json!([format!("p{}", i + 1)])));
            json!({"type": "object", "required": ["p0"], "dependentRequired": chain})
        }),
        ("dependent schemas", {
            let some = object(16, |i| {
                (format!("p{i}"), json!({"anyOf": [{"required": [format!("p{}", i + 1)]}, {"minProperties": i}]}))
            });
            json!({"type": "object", "dependentSchemas": some})
        }),
        ("patterns of names in pairs", {
            let patterns = object(24, |i| (contain(i), json!({"minimum": i})));
            json!({"type": "object", "patternProperties": patterns, "additionalProperties": false})
        }),
        ("many patterns of names", {
            let patterns = object(10_000, |i| (format!("^x{i}y"), json!({"minimum": i})));
            json!({"type": "object", "patternProperties": patterns, "properties": object(5000, |i| (format!("n{i}"), json!({})))})
        }),
        ("patterns in all of", json!({"type": "string", "allOf": list(16, |i| json!({"pattern": contain(i)}))})),
        ("many large patterns", {
            json!({"properties": object(200, |i| (format!("p{i}"), json!({"pattern": format!("[ab]*a[ab]{{11}}{i}")})))})
        }),
        ("a large pattern with lengths", {
            json!({"properties": object(50, |i| (format!("p{i}"), json!({"pattern": format!("^(aa|bbb){{1,90}}{i}"), "minLength": 3000, "maxLength": 3500})))})
        }),
        ("not of patterns", json!({"type": "string", "allOf": list(14, |i| json!({"not": {"pattern": contain(i)}}))})),
        ("names of patterns", {
            let names = json!({"allOf": list(8, |i| json!({"pattern": contain(i)}))});
            json!({"type": "object", "propertyNames": names, "minProperties": 3})
        }),
        ("a large least of items", json!({"type": "array", "minItems": 900_000_000, "contains": {"const": 1}})),
        ("many kinds of items", {
            let kinds = list(4, |i| json!({"contains": {"const": i}, "minContains": 3, "maxContains": 4}));
            json!({"type": "array", "prefixItems": list(9000, |_| json!({})), "allOf": kinds})
        }),
        (
            "a large least of different items",
            json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true, "minItems": 1024}),
        ),
        ("a large least of properties", json!({"type": "object", "minProperties": 1000})),
        ("an endless least of properties", json!({"type": "object", "minProperties": 4_000_000_000_u64})),
        (
            "large lengths",
            json!({"type": "string", "minLength": 1_000_000_000, "maxLength": 4_000_000_000_u64, "pattern": "^(ab)*$"}),
        ),
        ("large numbers", json!({"enum": list(100_000, |i| json!(i as f64 * 1e300))})),
        ("small steps", json!({"multipleOf": 1e-300, "minimum": 1e300})),
        ("a wide list", json!({"enum": list(150_000, |i| json!(format!("v{i}")))})),
        ("a wide list in branches", {
            let values = list(3000, |i| json!(format!("v{i}")));
            json!({"allOf": list(6, |i| json!({"anyOf": [{"enum": values}, {"minLength": i}, {"maxLength": i}]}))})
        }),
        ("a wide list of objects", json!({"enum": list(20_000, |i| json!({"a": i, "b": [i]}))})),
        ("not a wide list of objects", json!({"not": {"enum": list(60, |i| json!({"a": i, "b": [i]}))}})),
        ("a long name above many", {
            let inner = object(20_000, |i| (format!("p{i}"), json!({"type": "null"})));
            json!({"properties": {"x".repeat(400_000): {"properties": inner}}})
        }),
        ("anchors below a long name", {
            let inner = object(15_000, |i| (format!("p{i}"), json!({"$anchor": format!("a{i}")})));
            json!({"properties": {"x".repeat(400_000): {"properties": inner}}})
        }),
        ("references from a long name", {
            let long = format!("https://example.com/{}", "x".repeat(400_000));
            json!({"$id": long, "properties": object(20_000, |i| (format!("p{i}"), json!({"$ref": "#/$defs/a"}))), "$defs": {"a": {}}})
        }),
        ("many names in branches", {
            let names = object(3000, |i| (format!("a name of some length {i}"), json!({"type": "integer"})));
            let any = list(8, |i| json!({"anyOf": [{"required": [format!("x{i}")]}, {"maxProperties": i + 3}]}));
            json!({"type": "object", "properties": names, "allOf": any})
        }),
        ("what has not been looked at", {
            let any = list(6, |i| json!({"properties": {format!("p{i}"): {}}, "required": [format!("p{i}")]}));
            json!({"type": "object", "allOf": list(4, |_| json!({"anyOf": any})), "unevaluatedProperties": false})
        }),
    ];
    let mut defs = object(40, |i| {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        (format!("d{i}"), json!({"anyOf": [next, {"allOf": [next, {"minimum": i}]}]}))
    });
    defs["d40"] = json!({"type": "number"});
    families.push(("references to two of each", json!({"$ref": "#/$defs/d0", "$defs": defs})));
    let predicate = json!({"type": "array", "items": {"$ref": "#"}});
    let predicates = list(
        14,
        |i| json!({"type": "object", "required": [format!("o{i}")], "properties": {format!("o{i}"): predicate}}),
    );
    families.push(("predicates in predicates", json!({"oneOf": predicates})));
    families
}

#[test]
fn every_schema_gets_an_answer() {
    let mut slow = Vec::new();
    for (name, schema) in sampled(families(), 3) {
        let begun = Instant::now();
        for style in [Style::default(), Style::default().any_order()] {
            match Grammar::json_schema(&schema, style) {
                Ok(grammar) => println!("{name}: {grammar:?}"),
                Err(fault) => {
                    println!("{name}: {}", &fault.to_string()[..fault.to_string().len().min(200)]);
                    assert!(fault.path.starts_with('#'), "{name}: {}", fault.path);
                }
            }
        }
        println!("    {:.2} s", begun.elapsed().as_secs_f64());
        if begun.elapsed().as_secs() > 60 {
            slow.push(name);
        }
    }
    // Some thirty times the usual time: not a measurement, but a check that everything ends.
    assert!(slow.is_empty(), "{slow:?}");
}

/// Ordinary large schemas stay far below the limits.
#[test]
fn large_schemas_are_understood() {
    for (name, schema) in [
        ("a wide list", json!({"enum": list(200_000, |i| json!(format!("value {i}")))})),
        (
            "many properties",
            json!({"type": "object", "properties": object(60_000, |i| (format!("property{i}"), json!({"type": "integer"})))}),
        ),
        ("many definitions", {
            let definitions = object(5000, |i| {
                let properties =
                    json!({"a": {"type": "string", "maxLength": i}, "b": {"$ref": format!("#/$defs/d{}", i / 2)}});
                (
                    format!("d{i}"),
                    json!({"type": "object", "properties": properties, "required": ["a"], "additionalProperties": false}),
                )
            });
            json!({"anyOf": list(50, |i| json!({"$ref": format!("#/$defs/d{}", 100 * i)})), "$defs": definitions})
        }),
        ("many tags", {
            let one = list(200, |i| {
                let properties = object(20, |j| (format!("p{j}"), json!({"type": "string"})));
                let mut branch = json!({"type": "object", "required": ["tag"], "properties": properties});
                branch["properties"]["tag"] = json!({"const": format!("t{i}")});
                branch
            });
            json!({"oneOf": one})
        }),
        (
            "many patterns",
            json!({"properties": object(500, |i| (format!("p{i}"), json!({"pattern": format!("^[a-z]{{3,{}}}-[0-9]+$", 5 + i % 40)})))}),
        ),
    ] {
        if let Err(fault) = Grammar::json_schema(&schema, Style::default()) {
            panic!("{name}: {fault}");
        }
    }
}
