//! Texts that structural tags accept, and tags that are refused.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use verdigris_text::Tokenizer;

use crate::constraint::lexicon::Lexicon;
use crate::fixture::{LEXICON, accepts, machine_of};
use crate::{Grammar, Machine};

/// A vocabulary with control tokens.
static CONTROLS: LazyLock<Lexicon> = LazyLock::new(|| {
    let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
    let mut file: Value = serde_json::from_slice(json).unwrap();
    for (name, id) in ["<|call|>", "<|end|>"].iter().zip(4096..) {
        file["added_tokens"].as_array_mut().unwrap().push(json!({
            "id": id, "content": name, "special": true, "normalized": false, "single_word": false, "lstrip": false,
            "rstrip": false,
        }));
    }
    Lexicon::new(Arc::new(Tokenizer::from_json(file.to_string().as_bytes()).unwrap()), &[0])
});

fn check(format: Value, good: &[&str], bad: &[&str]) {
    let tag = json!({"type": "structural_tag", "format": format});
    let machine = machine_of(Grammar::structural_tag(&tag).unwrap_or_else(|fault| panic!("{tag}: {fault}")));
    good.iter().for_each(|text| assert!(accepts(&machine, text), "{tag} must accept {text:?}"));
    bad.iter().for_each(|text| assert!(!accepts(&machine, text), "{tag} must not accept {text:?}"));
}

fn text(value: &str) -> Value {
    json!({"type": "const_string", "value": value})
}

fn number() -> Value {
    json!({"type": "json_schema", "json_schema": {"type": "integer"}})
}

fn tag(begin: &str, content: Value, end: &str) -> Value {
    json!({"type": "tag", "begin": begin, "content": content, "end": end})
}

#[test]
fn simple_formats() {
    check(text("<|a|>é"), &["<|a|>é"], &["", "<|a|>"]);
    check(number(), &["12", "-3"], &["", "a", "1.5"]);
    check(json!({"type": "regex", "pattern": "[ab]{2}"}), &["ab"], &["a", "abc"]);
    check(json!({"type": "any_text"}), &["", "é\n", "</a>"], &[]);
    check(json!({"type": "any_text", "excludes": ["x", "no"]}), &["", "on n"], &["ax", "ono"]);
    check(json!({"type": "any_tokens"}), &["", "any text"], &[]);
    let grammar = "root ::= \"(\" root? \")\"";
    check(json!({"type": "grammar", "grammar": grammar}), &["()", "(())"], &["", "(()"]);
    let schema = json!({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
        "additionalProperties": false, "type": "object"});
    let of = |more: Value| {
        let mut format = json!({"type": "json_schema", "json_schema": schema});
        format.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format
    };
    check(of(json!({"style": "json"})), &["{\"a\": 1, \"b\":2}"], &["{\"b\":2,\"a\":1}", "{\"a\": 1}"]);
    check(of(json!({"any_order": true})), &["{\"b\":2,\"a\":1}"], &["{\"a\":1,\"a\":1}"]);
    check(of(json!({"max_whitespace_cnt": 2})), &["{  \"a\":1,\"b\": 2}"], &["{   \"a\":1,\"b\":2}"]);
    check(of(json!({"max_whitespace_cnt": 0})), &["{\"a\":1,\"b\":2}"], &["{\"a\": 1,\"b\":2}"]);
    let qwen = "<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>";
    check(of(json!({"style": "qwen_xml"})), &[qwen], &["", "<parameter=a>\n1\n</parameter>", "{\"a\":1,\"b\":2}"]);
    let glm = "<arg_key>a</arg_key><arg_value>1</arg_value><arg_key>b</arg_key><arg_value>2</arg_value>";
    check(of(json!({"style": "glm_xml"})), &[glm], &[qwen]);
    let minimax = "<parameter name=\"a\">1</parameter>\n<parameter name=\"b\">2</parameter>";
    check(of(json!({"style": "minimax_xml"})), &[minimax], &[glm]);
}

#[test]
fn composed_formats() {
    check(json!({"type": "sequence", "elements": [text("a"), number(), text("b")]}), &["a1b"], &["a1", "1b", "ab"]);
    check(json!({"type": "or", "elements": [text("a"), text("b"), number()]}), &["a", "b", "7"], &["ab", ""]);
    check(json!({"type": "optional", "content": text("ab")}), &["", "ab"], &["abab"]);
    check(json!({"type": "plus", "content": text("ab")}), &["ab", "abab"], &["", "aba"]);
    check(json!({"type": "star", "content": text("ab")}), &["", "ababab"], &["a"]);
    check(json!({"type": "repeat", "min": 1, "max": 2, "content": text("a")}), &["a", "aa"], &["", "aaa"]);
    check(json!({"type": "repeat", "min": 2, "max": -1, "content": text("a")}), &["aa", "aaaaa"], &["a"]);
}

#[test]
fn tags_have_a_begin_and_an_end() {
    check(tag("<a>", number(), "</a>"), &["<a>1</a>"], &["<a></a>", "1</a>", "<a>1"]);
    // Free text ends where its tag does.
    let any = json!({"type": "any_text"});
    check(tag("<a>", any.clone(), "</a>"), &["<a></a>", "<a><a></</a>"], &["<a></a></a>", "<a>x</a>y"]);
    let either = json!({"type": "tag", "begin": "<", "content": any, "end": ["!", "?"]});
    check(either, &["<a!", "<?"], &["<a", "<a!?", "<a?!"]);
    let two =
        json!({"type": "sequence", "elements": [tag("<t>", any, "</t>"), text("."), json!({"type": "any_text"})]});
    check(two, &["<t>x</t>.", "<t></t>. </t>"], &["<t>x</t>", "x</t>."]);
    // A tag without an end ends where the tag around it does.
    check(tag("(", tag("-", json!({"type": "any_text"}), ""), ")"), &["(-a)"], &["(-a))", "(-a"]);
}

#[test]
fn triggers_begin_tags() {
    let tags = json!([tag("<f=a>", number(), "</f>"), tag("<f=b>", text("x"), "</f>"), tag("[", text("y"), "]")]);
    let of = |more: Value| {
        let mut format = json!({"type": "triggered_tags", "triggers": ["<f=", "["], "tags": tags});
        format.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format
    };
    let (one, two) = ("<f=a>12</f>", "say <f=b>x</f> and [y]<f=a>3</f> end <f");
    check(
        of(json!({})),
        &["", "text <f", one, two, "<f=b>x</f>", "</f>"],
        &["<f=", "<f=a>x</f>", "<f=c>", "<f=a>1", "[", "[y"],
    );
    check(
        of(json!({"at_least_one": true})),
        &[one, "[y] more", "[y]<f=a>3</f>"],
        &["", "text", two, "say [y]", "[y] ["],
    );
    check(of(json!({"stop_after_first": true})), &["", "text", one, "say [y]"], &[two, "[y]."]);
    let first = json!({"at_least_one": true, "stop_after_first": true});
    check(of(first), &[one, "[y]"], &["", "text", "say [y]", "[y]."]);
    check(of(json!({"excludes": ["no"]})), &["n[y]o", one], &["no", "[y] no", "no [y]"]);
    let inside = tag("<<", of(json!({})), ">>");
    check(inside, &["<<say [y]>>", "<<>>"], &["<<say >> [y]>>", "<<[y]>>>>"]);
}

#[test]
fn tags_with_separators_and_dispatch() {
    let of = |more: Value| {
        let tags = json!([tag("<", number(), ">"), tag("(", text("x"), ")")]);
        let mut format = json!({"type": "tags_with_separator", "separator": ", ", "tags": tags});
        format.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format
    };
    check(of(json!({})), &["", "<1>", "<1>, (x), <2>"], &["<1>(x)", ", ", "<1>, ", "a"]);
    check(of(json!({"at_least_one": true})), &["<1>, (x)"], &[""]);
    check(of(json!({"stop_after_first": true})), &["", "(x)"], &["<1>, (x)"]);
    let dispatch = |is_loop: bool| {
        let rules = json!([["#", number()], ["@", text("x.")]]);
        json!({"type": "dispatch", "rules": rules, "loop": is_loop, "excludes": ["!"]})
    };
    check(dispatch(true), &["", "a #1 b @x. c", "#1"], &["#", "@x", "a!", "#1!"]);
    check(dispatch(false), &["", "a", "a #1"], &["a #1 b", "#1#1"]);
}

#[test]
fn the_older_format() {
    let old = json!({
        "type": "structural_tag", "triggers": ["<f="],
        "structures": [{"begin": "<f=a>", "schema": {"type": "boolean"}, "end": "</f>"}],
    });
    let machine = machine_of(Grammar::structural_tag(&old).unwrap());
    for (text, expected) in [("so <f=a>true</f>!", true), ("so", true), ("<f=a>1</f>", false), ("<f=b", false)] {
        assert_eq!(accepts(&machine, text), expected, "{text}");
    }
    let mut required = old;
    required["at_least_one"] = json!(true);
    let machine = machine_of(Grammar::structural_tag(&required).unwrap());
    assert!(accepts(&machine, "<f=a>true</f>") && !accepts(&machine, "so"));
}

/// A trigger that has been written leaves only what tags begin with.
#[test]
fn masks_follow_the_tags() {
    let format = json!({"type": "triggered_tags", "triggers": ["<f="], "tags": [tag("<f=a>", number(), "</f>")]});
    let machine = machine_of(Grammar::structural_tag(&json!({"type": "structural_tag", "format": format})).unwrap());
    let vocabulary = LEXICON.tokenizer().vocabulary();
    for text in ["", "a <f", "a <f=", "a <f=a>1", "<f=a>12</f> "] {
        let state = machine.next(machine.start(), text.as_bytes());
        let mask = &machine.mask(state).tokens;
        for token in 0..vocabulary.size() as u32 {
            let bytes = vocabulary.bytes(token);
            let possible = !bytes.is_empty() && machine.goes_on(machine.next(state, bytes));
            assert_eq!(mask.contains(token), possible, "after {text:?}: {:?}", String::from_utf8_lossy(bytes));
        }
    }
    let after = machine.next(machine.start(), b"<f=");
    assert_eq!(machine.completion(after).unwrap(), b"a>0</f>");
}

#[test]
fn control_tokens_begin_and_end() {
    let tokenizer = CONTROLS.tokenizer();
    let call = |name: &str| json!({"type": "token", "token": name});
    let by_tokens = json!({"type": "token_triggered_tags", "trigger_tokens": ["<|call|>"], "tags": [
        {"type": "tag", "begin": call("<|call|>"), "content": number(), "end": call("<|end|>")},
    ]});
    let by_names = json!({"type": "triggered_tags", "triggers": ["<|call|>"], "tags": [
        tag("<|call|>", number(), "<|end|>"),
    ]});
    let contents = json!({"type": "sequence", "elements": [number(), call("<|end|>")]});
    let by_rules = json!({"type": "token_dispatch", "rules": [[4096, contents]], "exclude_tokens": ["<|end|>"]});
    for format in [by_tokens, by_names, by_rules] {
        let tag = json!({"type": "structural_tag", "format": format});
        let machine = Machine::new(Grammar::structural_tag_with(&tag, tokenizer).unwrap(), CONTROLS.index().clone());
        let accepts = |text: &[u8]| machine.accepts(machine.next(machine.start(), text));
        for (text, expected) in [
            ("a<|call|>1<|end|>b", true),
            ("a", true),
            ("<|call|>x<|end|>", false),
            ("<|end|>", false),
            ("<|call|>1", false),
        ] {
            assert_eq!(accepts(&tokenizer.spell(text)), expected, "{tag} {text}");
        }
        assert!(accepts(b"plain <|call|> text"), "text that looks like a token is not one");
        let mask = &machine.mask(machine.start()).tokens;
        let [call, end] = ["<|call|>", "<|end|>"].map(|name| tokenizer.id(name).unwrap());
        assert!(mask.contains(call) && !mask.contains(end));
    }
    let thought = json!({"type": "tag", "begin": "", "end": call("<|end|>"),
        "content": {"type": "any_tokens", "exclude_tokens": ["<|end|>"]}});
    let tag = json!({"type": "structural_tag", "format": thought});
    let machine = Machine::new(Grammar::structural_tag_with(&tag, tokenizer).unwrap(), CONTROLS.index().clone());
    for (text, expected) in [("a<|end|>", true), ("<|call|><|end|>", false), ("a", false)] {
        let state = machine.next(machine.start(), &tokenizer.spell(text));
        assert_eq!(machine.accepts(state), expected, "{text}");
    }
    let single = json!({"type": "structural_tag", "format": call("<|end|>")});
    let machine = Machine::new(Grammar::structural_tag_with(&single, tokenizer).unwrap(), CONTROLS.index().clone());
    assert_eq!(machine.mask(machine.start()).tokens.iter().collect::<Vec<_>>(), [4097]);
}

#[test]
fn what_is_not_supported_is_named() {
    let trigger =
        |triggers: Value| json!({"type": "triggered_tags", "triggers": triggers, "tags": [tag("<f>", text(""), ">")]});
    let mut deep = text("x");
    for _ in 0..70 {
        deep = json!({"type": "optional", "content": deep});
    }
    for (format, path, fault) in [
        (json!(3), "#/format", "object"),
        (json!({"value": "a"}), "#/format", "\"type\""),
        (json!({"type": "table"}), "#/format/type", "\"table\""),
        (json!({"type": "const_string"}), "#/format", "\"value\""),
        (json!({"type": "const_string", "value": "a", "weight": 1}), "#/format/weight", "not supported"),
        (json!({"type": "any_text", "max_tokens": 5}), "#/format/max_tokens", "not supported"),
        (json!({"type": "any_text", "excludes": [""]}), "#/format/excludes", "empty"),
        (json!({"type": "exclude_token"}), "#/format", "\"exclude_token\""),
        (json!({"type": "any_tokens", "max_tokens": 5}), "#/format/max_tokens", "not supported"),
        (json!({"type": "any_tokens", "exclude_tokens": [3]}), "#/format/exclude_tokens/0", "tokenizer"),
        (json!({"type": "grammar", "grammar": "root ::= \"a"}), "#/format/grammar", "line 1"),
        (json!({"type": "dispatch", "rules": [[3, text("a")]]}), "#/format/rules/0", "a string"),
        (json!({"type": "token_dispatch", "rules": [["x", text("a")]]}), "#/format/rules/0/0", "tokenizer"),
        (json!({"type": "regex", "pattern": "("}), "#/format/pattern", "unclosed"),
        (json!({"type": "token", "token": 3}), "#/format/token", "tokenizer"),
        (json!({"type": "sequence", "elements": []}), "#/format/elements", "at least one"),
        (json!({"type": "sequence", "elements": [text("a"), {"type": "x"}]}), "#/format/elements/1/type", "\"x\""),
        (json!({"type": "repeat", "min": 3, "max": 2, "content": text("a")}), "#/format/min", "max"),
        (json!({"type": "json_schema", "json_schema": {"type": "x"}}), "#/format/json_schema", "#"),
        (json!({"type": "json_schema", "json_schema": {}, "style": "cohere_xml"}), "#/format/style", "cohere_xml"),
        (json!({"type": "json_schema", "json_schema": {}, "excludes": ["a"]}), "#/format/excludes", "not supported"),
        (trigger(json!([])), "#/format/triggers", "at least one"),
        (trigger(json!(["<f>", "x"])), "#/format/triggers", "not a prefix"),
        (trigger(json!(["<", "<f"])), "#/format/tags/0", "exactly one"),
        (trigger(json!(["x"])), "#/format/tags/0", "exactly one"),
        (deep, "", "nested"),
    ] {
        let refused = Grammar::structural_tag(&json!({"type": "structural_tag", "format": format})).unwrap_err();
        assert!(path.is_empty() || refused.path == path, "{format}: {refused}");
        assert!(refused.fault.contains(fault), "{format}: {refused}");
    }
    for tag in [
        json!({}),
        json!({"type": "tag"}),
        json!({"type": "structural_tag"}),
        json!({"type": "structural_tag", "structures": []}),
    ] {
        assert!(Grammar::structural_tag(&tag).is_err(), "{tag}");
    }
    let plain = json!({"type": "structural_tag", "format": {"type": "token", "token": "a"}});
    let refused = Grammar::structural_tag_with(&plain, CONTROLS.tokenizer()).unwrap_err();
    assert!(refused.fault.contains("not a control token"), "{refused}");
}
