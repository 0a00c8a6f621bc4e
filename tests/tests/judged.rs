//! Texts under constraints, judged by other libraries that read such texts.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use verdigris::constrain::{Machine, TokenIndex};
use verdigris::logits::{Purpose, Random};
use verdigris::text::Tokenizer;
use verdigris::text::calls::{CallFormat, CallReader, FAMILIES, ParsedPart, Syntax};
use verdigris::{Grammar, Style};
use verdigris_tests::{harness, random_text};

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| harness::tokenizer("tale-small"));

static INDEX: LazyLock<Arc<TokenIndex>> = LazyLock::new(|| Arc::new(TokenIndex::new(TOKENIZER.vocabulary())));

fn machine(schema: &Value) -> Machine {
    let grammar = Grammar::json_schema(schema, Style::default().any_order());
    Machine::new(grammar.unwrap_or_else(|fault| panic!("{schema}: {fault}")), INDEX.clone())
}

/// Random texts.
fn texts(machine: &Machine, count: u64) -> impl Iterator<Item = String> + '_ {
    let random = Random::new(7);
    (0..count).map(move |seed| {
        let text = random_text(machine, |i| random.uniform(seed << 32 | i, Purpose::Data));
        String::from_utf8(text).expect("UTF-8")
    })
}

fn strings(format: &str, count: u64) -> Vec<String> {
    let machine = machine(&json!({"type": "string", "format": format}));
    texts(&machine, count).map(|text| serde_json::from_str(&text).expect("a JSON string")).collect()
}

/// Every subset of the types, with the values of every type.
#[test]
fn types_are_those_that_are_listed() {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let values = [json!(null), json!(true), json!(false), json!(3), json!(-2.5), json!("a"), json!([]), json!({})];
    for set in 1..1u32 << types.len() {
        let names: Vec<&str> = (0..types.len()).filter(|i| set >> i & 1 == 1).map(|i| types[i]).collect();
        for schema in [json!({"type": names}), json!({"not": {"type": names}}), json!({"items": {"type": names}})] {
            let judge = jsonschema::draft202012::new(&schema).unwrap();
            let valid = |value: &&Value| judge.is_valid(value);
            let Ok(grammar) = Grammar::json_schema(&schema, Style::default()) else {
                assert_eq!(values.iter().find(valid), None, "{schema} is refused");
                continue;
            };
            let machine = Machine::new(grammar, INDEX.clone());
            for value in values.iter().flat_map(|value| [value.clone(), json!([value])]) {
                let accepts = harness::accepts(&machine, &value.to_string());
                assert_eq!(accepts, judge.is_valid(&value), "{schema} {value}");
            }
            for text in texts(&machine, 4) {
                assert!(judge.is_valid(&serde_json::from_str(&text).unwrap()), "{schema} {text}");
            }
        }
    }
}

#[test]
fn bounds_that_are_far_away() {
    for schema in [
        json!({"type": "number", "minimum": 1e15}),
        json!({"type": "integer", "minimum": 1e20}),
        json!({"type": "integer", "exclusiveMinimum": 1e20}),
        json!({"type": "number", "exclusiveMinimum": 1e15}),
        json!({"type": "number", "maximum": -1e16, "exclusiveMinimum": -1e17}),
        json!({"type": "integer", "maximum": -1e25}),
        json!({"type": "number", "minimum": 1e300}),
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1e-20}),
        json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1e-300}),
        json!({"type": "number", "exclusiveMaximum": 0, "minimum": -3e-18}),
        json!({"type": "number", "minimum": 0.12345678901234567, "maximum": 0.12345678901234567}),
        json!({"type": "number", "minimum": 1.2345678901234567e25, "maximum": 1.2345678901234567e25}),
        json!({"type": "integer", "minimum": 12_345_678_901_234_567_890_u64, "maximum": 12_345_678_901_234_567_890_u64}),
        json!({"type": "integer", "minimum": 1e19, "maximum": 3e19}),
        json!({"type": "number", "minimum": i64::MIN, "maximum": -9.3e18}),
        json!({"type": "number", "minimum": 999_999_999_999_999_u64, "not": {"const": 999_999_999_999_999_u64}}),
        json!({"format": "int64", "type": "integer", "minimum": 9.2e18}),
    ] {
        let judge = jsonschema::draft202012::new(&schema).unwrap();
        if schema["maximum"] == json!(-9.3e18) {
            // No number is between these bounds.
            assert!(Grammar::json_schema(&schema, Style::default()).is_err());
            continue;
        }
        for text in texts(&machine(&schema), 30) {
            assert!(judge.is_valid(&serde_json::from_str(&text).unwrap()), "{schema} {text}");
        }
    }
}

/// Names that are not in the schema count if they differ, wherever properties are counted.
#[test]
fn properties_are_counted_whatever_their_names() {
    let two = json!({"a": 1, "b": 2});
    for (schema, valid) in [
        (json!({"type": "object", "minProperties": 2}), two.clone()),
        (json!({"additionalProperties": {"type": "integer"}, "minProperties": 2, "type": "object"}), two.clone()),
        (
            json!({"type": "object", "patternProperties": {"^[a-c]$": {"type": "integer"}}, "additionalProperties": false, "minProperties": 2}),
            json!({"c": 1, "b": 2}),
        ),
        (
            json!({"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "boolean"}},
                "additionalProperties": false, "minProperties": 3, "maxProperties": 3}),
            json!({"a": 1, "b": true, "bb": false}),
        ),
        (
            json!({"type": "object", "propertyNames": {"enum": ["x", "y", "z"]}, "minProperties": 3}),
            json!({"z": 1, "x": null, "y": []}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 3}),
            json!({"a": null, "d": 1, "e": 1}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}, "bb": {"const": 5}}, "required": ["bb"],
                "additionalProperties": {"type": "boolean"}, "minProperties": 4}),
            json!({"a": null, "bb": 5, "e": true, "f": false}),
        ),
        (
            json!({"type": "object", "properties": {"a": false}, "required": ["r"], "minProperties": 3, "maxProperties": 4}),
            json!({"r": null, "d": 1, "e": 1}),
        ),
        (
            json!({"properties": {"in": {"type": "object", "minProperties": 2}}, "required": ["in"], "type": "object"}),
            json!({"in": {"k": 1, "l": 2}}),
        ),
        (
            json!({"type": "object", "minProperties": 12, "additionalProperties": {"const": 1}}),
            json!((0..12).map(|i| (i.to_string(), json!(1))).collect::<serde_json::Map<_, _>>()),
        ),
    ] {
        let judge = jsonschema::draft202012::new(&schema).unwrap();
        for style in [Style::default(), Style::default().any_order()] {
            let grammar = Grammar::json_schema(&schema, style).unwrap_or_else(|fault| panic!("{schema}: {fault}"));
            let machine = Machine::new(grammar, INDEX.clone());
            let state = |text: &str| machine.next(machine.start(), text.as_bytes());
            assert!(machine.accepts(state(&valid.to_string())), "{schema} {valid}");
            for (i, text) in texts(&machine, 8).enumerate() {
                assert!(judge.is_valid(&serde_json::from_str(&text).unwrap()), "{schema} {text}");
                if i > 0 {
                    continue;
                }
                // The mask allows only tokens that can follow, and all of them except tokens with the ends of two
                // names.
                let at = machine.next(machine.start(), &text.as_bytes()[..text.len().min(30) * 2 / 3]);
                let mask = machine.mask(at);
                for token in 0..TOKENIZER.vocabulary().size() as u32 {
                    let bytes = TOKENIZER.vocabulary().bytes(token);
                    let comes = !bytes.is_empty() && machine.goes_on(machine.next(at, bytes));
                    let two = bytes.iter().filter(|byte| **byte == b'"').count() > 1;
                    let allowed = mask.tokens.contains(token);
                    assert!(allowed == comes || comes && two, "{schema} {text} {bytes:?}");
                }
            }
        }
    }
    for (schema, said) in [
        (
            json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false, "minProperties": 2}),
            "no finite",
        ),
        (json!({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "minProperties": 3}), "no finite"),
        (json!({"type": "object", "minProperties": 2_000_000}), "minProperties"),
    ] {
        let fault = Grammar::json_schema(&schema, Style::default()).unwrap_err();
        assert!(fault.fault.contains(said), "{schema}: {fault}");
    }
}

#[test]
fn times_are_read_by_jiff() {
    for text in strings("date", 500) {
        text.parse::<jiff::civil::Date>().unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert!(!text.starts_with("0000"));
    }
    for text in strings("time", 500) {
        text.trim_end_matches(['Z', 'z'])
            .parse::<jiff::civil::Time>()
            .map_or_else(|fault| assert!(text.contains(['+', '-']) || text.contains(":60"), "{text}: {fault}"), |_| ());
    }
    for text in strings("date-time", 500) {
        // The last day of the last year is past jiff's last instant in most time zones.
        if !text.starts_with("9999-12-3") {
            text.parse::<jiff::Timestamp>().unwrap_or_else(|fault| panic!("{text}: {fault}"));
        }
    }
    for text in strings("duration", 500) {
        text.parse::<jiff::Span>().unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
    for (format, text) in [
        ("duration", "P9999Y99999M999999DT99999999H999999999M999999999S"),
        ("duration", "P999999W"),
        ("date-time", "2024-02-29T01:02:03.123456789+01:00"),
    ] {
        let machine = machine(&json!({"format": format}));
        let accepts = |text: &str| harness::accepts(&machine, &json!(text).to_string());
        assert!(accepts(text), "{text}");
        assert!(text.parse::<jiff::Span>().is_ok() || text.parse::<jiff::Timestamp>().is_ok(), "{text}");
        assert!(!accepts("0000-01-01T00:00:00Z") && !accepts("2024-02-29T01:02:03.1234567891Z"));
    }
}

#[test]
fn references_are_read_by_fluent_uri() {
    for text in strings("uri", 1000) {
        fluent_uri::Uri::parse(&*text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
    for text in strings("uri-reference", 1000) {
        fluent_uri::UriRef::parse(&*text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
    for text in strings("iri", 1000) {
        fluent_uri::Iri::parse(&*text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
    for text in strings("iri-reference", 1000) {
        fluent_uri::IriRef::parse(&*text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
    let uri = machine(&json!({"format": "uri"}));
    let accepts = |text: &str| uri.accepts(uri.next(uri.start(), json!(text).to_string().as_bytes()));
    for text in ["https://[7]", "https://[::1", "https://[1:2]/", "https://[::1].a", "http://[v1]", "a://b@c@d"] {
        assert!(!accepts(text) && fluent_uri::Uri::parse(text).is_err(), "{text}");
    }
    for text in ["https://[::1]:80/a", "https://u:p@[1:2:3:4:5:6:1.2.3.4]?q", "http://[v1.a:b]"] {
        assert!(accepts(text) && fluent_uri::Uri::parse(text).is_ok(), "{text}");
    }
}

/// All formats that the validator checks too.
#[test]
fn formats_are_read_by_a_validator() {
    for format in [
        "date",
        "time",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "iri",
        "iri-reference",
        "uuid",
        "json-pointer",
        "relative-json-pointer",
        "uri-template",
    ] {
        let schema = json!({"type": "string", "format": format});
        let judge = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for text in strings(format, 300) {
            assert!(judge.is_valid(&json!(text)), "{format} {text:?}");
        }
    }
}

/// The grammar of a call of `f`, and the format in which it is read.
fn call(syntax: &Syntax, schema: &Value) -> (Grammar, Arc<CallFormat>) {
    let (style, mut format) = (Style::default().closed(), CallFormat::new(syntax, &TOKENIZER, ["f"]));
    let arguments = match &format.syntax().notation {
        None => Grammar::json_schema(schema, style),
        Some(notation) => Grammar::arguments(schema, style, notation).map(|(grammar, kinds)| {
            format.set_kinds("f", kinds);
            grammar
        }),
    };
    let arguments = arguments.unwrap_or_else(|fault| panic!("{}: {fault}", syntax.family));
    let Syntax { open, name, id, arguments: before, end, close, .. } = format.syntax();
    let id = id.as_ref().map(|id| [Grammar::text(&id.before), Grammar::regex(id.shape.pattern()).unwrap()]);
    let parts = [Grammar::text([&open[..], name, b"f"].concat())].into_iter().chain(id.into_iter().flatten());
    let parts = parts.chain([Grammar::text(before), arguments, Grammar::text([&end[..], close].concat())]);
    (Grammar::sequence(parts).unwrap(), Arc::new(format))
}

/// The arguments of a call of `f`, read in pieces of some characters.
fn arguments_of(format: &Arc<CallFormat>, text: &str, piece: usize) -> String {
    let (mut reader, mut parts) = (CallReader::new(Some(format.clone())), Vec::new());
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(piece).for_each(|piece| reader.push(&piece.iter().collect::<String>(), &mut parts));
    assert_eq!(reader.finish(&mut parts), None, "{text}");
    assert_eq!((&parts[0], parts.last()), (&ParsedPart::Call("f".into()), Some(&ParsedPart::CallEnd)), "{text}");
    let json = |part: &ParsedPart| if let ParsedPart::Arguments(json) = part { json.clone() } else { String::new() };
    parts.iter().map(json).collect()
}

/// Random calls in the syntax of every family, with schemas in which types can be mistaken for each other.
#[test]
fn calls_of_every_family_obey_their_schemas() {
    let inner = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"enum": [null, true, "</arg_value>", "x\"", 7]},
        "l": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    }});
    let schemas = [
        json!({"type": "object", "properties": {
            "s": {"type": "string", "maxLength": 6},
            "m": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}]},
            "p": {"type": "string", "pattern": "^[<|\\n\"/a]{0,9}$"}, "o": inner,
        }, "required": ["m"]}),
        json!({"type": "object", "properties": {
            "a": {"type": "number"}, "b": {"type": ["null", "string"], "maxLength": 2},
            "c": {"type": "array", "items": inner, "maxItems": 2},
        }, "dependentRequired": {"a": ["b"]}}),
        json!({"type": "object", "properties": {}}),
    ];
    for syntax in FAMILIES {
        for schema in &schemas {
            let judge = jsonschema::draft202012::new(schema).unwrap();
            let (grammar, format) = call(syntax, schema);
            for text in texts(&Machine::new(grammar, INDEX.clone()), 12) {
                let json = arguments_of(&format, &text, 1);
                let value: Value =
                    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {text} is {json}"));
                assert!(judge.is_valid(&value), "{}: {text} is {json}", syntax.family);
                assert!([3, 1000].iter().all(|&piece| arguments_of(&format, &text, piece) == json), "{text}");
            }
        }
    }
}
