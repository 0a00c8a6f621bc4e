//! Arguments of calls in notations that are not JSON.

use std::sync::Arc;

use serde_json::{Value, json};
use verdigris_text::calls::{CallFormat, CallReader, FAMILIES, Kinds, Notation, ParsedPart, Syntax};

use crate::fixture::{LEXICON, accepts, machine_of};
use crate::{BadSchema, Grammar, Machine, Style};

fn syntax(family: &str) -> &'static Syntax {
    FAMILIES.iter().find(|syntax| syntax.family == family).unwrap()
}

fn format(family: &str) -> CallFormat {
    CallFormat::new(syntax(family), LEXICON.tokenizer(), ["f"])
}

fn arguments(family: &str, schema: &Value) -> Result<(Machine, Vec<(String, Kinds)>), BadSchema> {
    let format = format(family);
    let notation: &Notation<Vec<u8>> = format.syntax().notation.as_ref().unwrap();
    let (grammar, kinds) = Grammar::arguments(schema, Style::default().closed(), notation)?;
    Ok((machine_of(grammar), kinds.into_iter().collect()))
}

/// The arguments that a reader finds in a text.
fn read(family: &str, kinds: &[(String, Kinds)], written: &str) -> Value {
    let mut format = format(family);
    format.set_kinds("f", kinds.to_vec());
    let Syntax { open, name, arguments, .. } = syntax(family);
    let text = format!("{open}{name}f{arguments}{written}");
    let (mut reader, mut parts) = (CallReader::new(Some(Arc::new(format))), Vec::new());
    reader.push(&text, &mut parts);
    assert!(parts.contains(&ParsedPart::CallEnd), "{text}: {parts:?}");
    let json: String = parts
        .iter()
        .filter_map(|part| if let ParsedPart::Arguments(text) = part { Some(&**text) } else { None })
        .collect();
    serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

/// Asserts that a grammar accepts texts, of which a reader makes these values, and rejects others.
fn check(family: &str, schema: &Value, good: &[(&str, Value)], bad: &[&str]) {
    let (machine, kinds) = arguments(family, schema).unwrap_or_else(|fault| panic!("{family} {schema}: {fault}"));
    for (text, value) in good {
        assert!(accepts(&machine, text), "{family} {schema} must accept {text}");
        assert_eq!(read(family, &kinds, text), *value, "{family}: {text}");
    }
    for text in bad {
        assert!(!accepts(&machine, text), "{family} {schema} must not accept {text}");
    }
}

fn schema(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
fn parameters_as_elements() {
    let of = schema(
        json!({
            "s": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "maximum": 20},
            "o": {"type": "object", "properties": {"x": {"enum": [null, "a"]}}},
        }),
        &["s"],
    );
    let with = |text: &str| format!("<parameter=s>\n{text}\n</parameter>\n</function>");
    let texts = ["", "12", "a\nb", "{\"", "null", "\n", "</para"];
    let good: Vec<(String, Value)> = texts.iter().map(|text| (with(text), json!({"s": text}))).collect();
    let good: Vec<(&str, Value)> = good.iter().map(|(text, value)| (&**text, value.clone())).collect();
    check("qwen3-coder", &of, &good, &[]);
    check(
        "qwen3-coder",
        &of,
        &[
            (
                "<parameter=s>\né\n</parameter>\n<parameter=n>\n-7\n</parameter>\n<parameter=o>\n{\"x\": null}\n\
                 </parameter>\n</function>",
                json!({"s": "é", "n": -7, "o": {"x": null}}),
            ),
            (
                "<parameter=s>\nx\n</parameter>\n<parameter=o>\n{}\n</parameter>\n</function>",
                json!({"s": "x", "o": {}}),
            ),
        ],
        &[
            "</function>",
            "<parameter=n>\n3\n</parameter>\n</function>",
            &with("ten letters"),
            &with("a</parameter>"),
            "<parameter=s>\nx\n</parameter>\n<parameter=n>\n21\n</parameter>\n</function>",
            "<parameter=s>\nx\n</parameter>\n<parameter=n>\n\"3\"\n</parameter>\n</function>",
            "<parameter=s>\nx\n</parameter>\n<parameter=o>\n{\"x\": None}\n</parameter>\n</function>",
            "<parameter=s>\nx\n</parameter>\n<parameter=s>\nx\n</parameter>\n</function>",
            "<parameter=s>\nx\n</parameter>\n<parameter=z>\nx\n</parameter>\n</function>",
        ],
    );
    check(
        "glm-4.5",
        &of,
        &[(
            "<arg_key>s</arg_key>\n<arg_value>a\n</arg_value>\n<arg_key>o</arg_key>\n<arg_value>{\"x\":\"a\"}\
             </arg_value>\n</tool_call>",
            json!({"s": "a\n", "o": {"x": "a"}}),
        )],
        &["</tool_call>", "<arg_key>s</arg_key>\n<arg_value>a</arg_value></tool_call>"],
    );
    check(
        "glm-4.7",
        &of,
        &[("<arg_key>s</arg_key><arg_value></arg_value></tool_call>", json!({"s": ""}))],
        &["<arg_key>s</arg_key><arg_value></arg_val</arg_value></tool_call></tool_call>"],
    );
}

/// An attribute says whether a parameter is a string, so that a string may be like a number.
#[test]
fn parameters_with_attributes() {
    let of = schema(
        json!({
            "s": {"type": "string", "maxLength": 20}, "m": {"type": ["string", "integer", "null"]},
            "o": {"type": "object", "properties": {"x": {"type": "string"}}},
        }),
        &["m"],
    );
    let with = |name: &str, is_string: bool, text: &str| {
        format!("<｜DSML｜parameter name=\"{name}\" string=\"{is_string}\">{text}</｜DSML｜parameter>")
    };
    let close = "\n</｜DSML｜invoke>";
    let text = |name: &str, text: &str| with(name, true, text);
    let other = |name: &str, text: &str| with(name, false, text);
    let good = [
        (format!("{}{close}", other("m", "12")), json!({"m": 12})),
        (format!("{}{close}", other("m", "null")), json!({"m": null})),
        (format!("{}{close}", text("m", "12")), json!({"m": "12"})),
        (format!("{}{close}", text("m", "null")), json!({"m": "null"})),
        (
            format!("{}\n{}\n{}{close}", text("s", "\"\n</｜DSML｜"), text("m", ""), other("o", "{\"x\": \"</\"}")),
            json!({"s": "\"\n</｜DSML｜", "m": "", "o": {"x": "</"}}),
        ),
    ];
    let good: Vec<(&str, Value)> = good.iter().map(|(text, value)| (&**text, value.clone())).collect();
    let bad = [
        close.to_owned(),
        format!("{}{close}", other("m", "x")),
        format!("{}{close}", other("m", "\"x\"")),
        format!("{}{}{close}", text("s", "a"), text("m", "b")),
        format!("{}\n{}{close}", text("s", "123456789012345678901"), text("m", "")),
        format!("{}\n{}{close}", text("m", ""), text("o", "{}")),
        format!("{}\n{}{close}", other("s", "1"), text("m", "")),
    ];
    check("deepseek-3.2", &of, &good, &bad.iter().map(String::as_str).collect::<Vec<_>>());
    check("deepseek-4", &schema(json!({}), &[]), &[(close, json!({}))], &[""]);
}

/// A text that could be a value of another type that the schema allows is that value.
#[test]
fn texts_are_not_mistaken_for_other_values() {
    let with = |text: &str| format!("<parameter=m>\n{text}\n</parameter>\n</function>");
    let check_each = check;
    let check = |of: Value, values: &[(&str, Value)], bad: &[&str]| {
        let good: Vec<(String, Value)> = values.iter().map(|(text, value)| (with(text), json!({"m": value}))).collect();
        let good: Vec<(&str, Value)> = good.iter().map(|(text, value)| (&**text, value.clone())).collect();
        let bad: Vec<String> = bad.iter().map(|text| with(text)).collect();
        let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
        check_each("qwen3-coder", &schema(json!({"m": of}), &["m"]), &good, &bad);
    };
    check(
        json!({"anyOf": [{"type": "string"}, {"type": "integer", "maximum": 5}]}),
        &[("5", json!(5)), ("null", json!("null")), ("[", json!("[")), ("5x", json!("5x")), ("05", json!("05"))],
        &["6", "5.5", "1e9", "-6.0"],
    );
    check(
        json!({"type": ["string", "null"]}),
        &[("None", json!(null)), ("null", json!(null)), ("12", json!("12")), ("True", json!("True"))],
        &[],
    );
    check(
        json!({"anyOf": [{"const": "true"}, {"type": "boolean"}, {"type": "array", "maxItems": 1}]}),
        &[("true", json!(true)), ("False", json!(false)), ("[3]", json!([3]))],
        &["[]]", "[3, 4]", "tru", "null"],
    );
    check(json!({}), &[("{}", json!({})), ("a", json!("a")), ("\"a\"", json!("\"a\""))], &["{", "[1"]);
    check(json!({"enum": ["a", "</parameter>", 3]}), &[("a", json!("a")), ("3", json!(3))], &["</parameter>", "4"]);
    check(
        json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 2}),
        &[("ab", json!("ab"))],
        &["a", "", "A", "ab1"],
    );
}

#[test]
fn parameters_of_python() {
    let of = schema(
        json!({
            "a": {"type": "string"}, "b": {"type": ["boolean", "null"]},
            "c": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "boolean"}}}},
        }),
        &["b"],
    );
    check(
        "llama-4",
        &of,
        &[
            ("b=True)", json!({"b": true})),
            ("a=\"x, y=1)\\n\\\"\", b=None)", json!({"a": "x, y=1)\n\"", "b": null})),
            ("b=False, c=[{\"k\": True}, {}])", json!({"b": false, "c": [{"k": true}, {}]})),
        ],
        &[")", "a=\"x\")", "b=true)", "b=True", "b=True,c=[])", "b=True, a=\"x\")", "a='x', b=True)", "b=True, c=[1])"],
    );
    check("lfm2", &schema(json!({}), &[]), &[(")", json!({}))], &["a=1)", ""]);
}

#[test]
fn objects_of_gemma() {
    let items = json!({"y": {"enum": ["<|\"|>", "q"]}, "x": {"type": "null"}});
    let of = schema(
        json!({
            "Z": {"type": "integer"}, "b": {"type": "string"},
            "a": {"type": "array", "items": schema(items, &["y"])},
        }),
        &["b"],
    );
    check(
        "gemma-4",
        &of,
        &[
            ("b:<|\"|><|\"|>}", json!({"b": ""})),
            (
                "a:[{y:<|\"|>q<|\"|>},{x:null,y:<|\"|>q<|\"|>}],b:<|\"|>a\"}],\n<|\"|>,Z:3}",
                json!({"a": [{"y": "q"}, {"x": null, "y": "q"}], "b": "a\"}],\n", "Z": 3}),
            ),
        ],
        &[
            "}",
            "b:\"x\"}",
            "Z:3,b:<|\"|><|\"|>}",
            "b:<|\"|><|\"|>, Z:3}",
            "a:[{}],b:<|\"|><|\"|>}",
            "a:[{y:<|\"|><|\"|><|\"|>}],b:<|\"|><|\"|>}",
        ],
    );
}

/// Conditions between properties, references, and alternatives of the whole object.
#[test]
fn whole_schemas_are_obeyed() {
    let depending = json!({
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/b"}},
        "dependentRequired": {"a": ["b"]}, "$defs": {"b": {"enum": ["x"]}},
    });
    check(
        "llama-4",
        &depending,
        &[("b=\"x\")", json!({"b": "x"})), ("a=1, b=\"x\")", json!({"a": 1, "b": "x"})), (")", json!({}))],
        &["a=1)", "b=\"y\")"],
    );
    let either = json!({"type": "object", "anyOf": [
        {"properties": {"m": {"type": "string", "maxLength": 3}}, "required": ["m"]},
        {"properties": {"m": {"const": 1234}}, "required": ["m"]},
    ]});
    let with = |text: &str| format!("<parameter=m>\n{text}\n</parameter>\n</function>");
    check(
        "qwen3-coder",
        &either,
        &[(&with("1234"), json!({"m": 1234})), (&with("abc"), json!({"m": "abc"}))],
        &[&with("123"), &with("abcd")],
    );
}

#[test]
fn what_cannot_be_written_is_refused() {
    for (schema, fault) in [
        (json!({"type": "object", "properties": {"a": true}, "minProperties": 1}), "\"minProperties\""),
        (json!({"type": "object", "properties": {"a": true, "b": true}, "maxProperties": 1}), "\"maxProperties\""),
        (json!({"type": "object", "patternProperties": {"a": true}}), "\"patternProperties\""),
        (json!({"type": "object", "additionalProperties": {"type": "null"}}), "\"additionalProperties\""),
        (schema(json!({"a=b": true}), &[]), "the name \"a=b\""),
        (schema(json!({"": true}), &[]), "the name \"\""),
        (schema(json!({"a": {"type": "array", "uniqueItems": true}}), &[]), "\"uniqueItems\""),
    ] {
        let refused = arguments("llama-4", &schema).map(|_| ()).unwrap_err();
        assert!(refused.fault.contains(fault), "{schema}: {refused}");
    }
    let marked = schema(json!({"a": {"const": "</arg_value>"}}), &["a"]);
    let refused = arguments("glm-4.5", &marked).map(|_| ()).unwrap_err();
    assert!(refused.fault.contains("no string of"), "{refused}");
}
