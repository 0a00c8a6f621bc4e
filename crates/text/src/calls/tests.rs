//! Texts in the syntax of each family, read in pieces.

use std::sync::Arc;

use super::{CallFormat, CallReader, CutCall, FAMILIES, Kinds, ParsedPart, Syntax};
use crate::{TextStream, Tokenizer};

/// A tokenizer, with some names as control tokens.
fn tokenizer(controls: &[&str]) -> Tokenizer {
    let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
    let mut file: serde_json::Value = serde_json::from_slice(json).unwrap();
    for (name, id) in controls.iter().zip(4096..) {
        file["added_tokens"].as_array_mut().unwrap().push(serde_json::json!({
            "id": id, "content": name, "special": true, "normalized": false, "single_word": false, "lstrip": false,
            "rstrip": false,
        }));
    }
    Tokenizer::from_json(file.to_string().as_bytes()).unwrap()
}

fn format(family: &str, tokenizer: &Tokenizer) -> Arc<CallFormat> {
    let syntax: &Syntax = FAMILIES.iter().find(|syntax| syntax.family == family).unwrap();
    let mut format = CallFormat::new(syntax, tokenizer, ["f", "g"]);
    let text = Kinds::STRING;
    let number = Kinds::NUMBER.or(Kinds::NULL);
    let nested = Kinds::OBJECT.or(Kinds::ARRAY);
    let all = [("s", text), ("n", number), ("o", nested), ("m", text.or(number)), ("b", Kinds::BOOLEAN)];
    format.set_kinds("f", all.map(|(name, kinds)| (name.to_owned(), kinds)));
    Arc::new(format)
}

/// Reads a text in pieces of `piece` bytes, and joins adjacent parts of a kind.
fn read(format: &Arc<CallFormat>, text: &[u8], piece: usize) -> (Vec<ParsedPart>, Option<CutCall>) {
    let (mut reader, mut parts) = (CallReader::new(Some(format.clone())), Vec::new());
    let mut rest = text;
    while !rest.is_empty() {
        // Pieces are whole characters and control tokens.
        let is_whole = |at: &usize| {
            let (begins, ends) =
                [0xff, 0xfe].map(|sign| rest[..*at].iter().filter(|&&byte| byte == sign).count()).into();
            begins == ends && rest.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80)
        };
        let cut = (piece..=rest.len()).find(is_whole).unwrap_or(rest.len());
        reader.push_spelled(&rest[..cut], &mut parts);
        rest = &rest[cut..];
    }
    let cut = reader.finish(&mut parts);
    let mut joined: Vec<ParsedPart> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(ParsedPart::Text(before)), ParsedPart::Text(text)) => before.push_str(&text),
            (Some(ParsedPart::Arguments(before)), ParsedPart::Arguments(text)) => before.push_str(&text),
            (_, part) => joined.push(part),
        }
    }
    (joined, cut)
}

fn text(text: &str) -> Vec<ParsedPart> {
    vec![ParsedPart::Text(text.into())]
}

fn call(name: &str, arguments: &str) -> Vec<ParsedPart> {
    vec![ParsedPart::Call(name.into()), ParsedPart::Arguments(arguments.into()), ParsedPart::CallEnd]
}

/// Arguments in which `INSIDE` is replaced.
const TRICKY: &str = r#"{"a": "}]\"{\\", "b": [{"c": "INSIDEé"}], "d": 1}"#;

/// Texts in the syntax of each family, without control tokens, and the parts that they have.
fn written(inside: &str) -> Vec<(&'static str, String, Vec<ParsedPart>)> {
    let tricky = &TRICKY.replace("INSIDE", inside);
    let hermes = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {tricky}}}\n</tool_call>");
    let listed = format!("{{\"name\": \"f\", \"arguments\": {tricky}}}");
    let deepseek = format!("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{tricky}<｜tool▁call▁end｜>");
    let kimi =
        |n: u32| format!("<|tool_call_begin|>functions.f:{n}<|tool_call_argument_begin|>{tricky}<|tool_call_end|>");
    let both = [call("f", tricky), call("f", tricky)].concat();
    let one = || call("f", tricky);
    let qwen = "<tool_call>\n<function=f>\n<parameter=s>\na \"quoted\"\n</parameter\n\n</parameter>\n\
        <parameter=n>\n-1.5\n</parameter>\n<parameter=o>\n{\"x\": [\"}\"]}\n</parameter>\n<parameter=m>\n12\n\
        </parameter>\n<parameter=b>\nTrue\n</parameter>\n</function>\n</tool_call>";
    let of_qwen = "{\"s\": \"a \\\"quoted\\\"\\n</parameter\\n\", \"n\": -1.5, \"o\": {\"x\": [\"}\"]}, \"m\": 12, \
        \"b\": true}";
    let glm = "<tool_call>f\n<arg_key>m</arg_key>\n<arg_value>1 2</arg_value>\n<arg_key>n</arg_key>\n<arg_value>null\
        </arg_value>\n</tool_call>";
    let of_glm = || call("f", "{\"m\": \"1 2\", \"n\": null}");
    let python = "f(s=\"a, b)]\\n\", o={\"x\": [None, \"None\", 2]}, b=False)";
    let of_python = "{\"s\": \"a, b)]\\n\", \"o\": {\"x\": [null, \"None\", 2]}, \"b\": false}";
    let gemma = "call:f{b:true,o:{x:[<|\"|>},{<|\"|>,{}],y:null},s:<|\"|>\"<<|\"|>}";
    let of_gemma = r#"{"b": true, "o": {"x":["},{",{}],"y":null}, "s": "\"<"}"#;
    let empty = call("g", "{}");
    let dsml = |calls: &str, call: &str, parameter: &str| {
        format!(
            "<｜DSML｜{calls}>\n<｜DSML｜{call} name=\"g\">\n\n</｜DSML｜{call}>\n<｜DSML｜{call} name=\"f\">\n\
             <｜DSML｜{parameter} name=\"s\" string=\"true\">a \"b\"\n</｜DSML｜</｜DSML｜{parameter}>\n\
             <｜DSML｜{parameter} name=\"m\" string=\"true\">12</｜DSML｜{parameter}>\n\
             <｜DSML｜{parameter} name=\"n\" string=\"false\">-1.5</｜DSML｜{parameter}>\n\
             <｜DSML｜{parameter} name=\"o\" string=\"false\">{{\"x\": [\"<\"]}}</｜DSML｜{parameter}>\n\
             </｜DSML｜{call}>\n</｜DSML｜{calls}>"
        )
    };
    // Control tokens in a string are left out.
    let shown = if inside.is_empty() { "" } else { "｜DSML｜" };
    let of_dsml = || {
        let arguments = r#"{"s": "a \"b\"\n</｜DSML｜", "m": "12", "n": -1.5, "o": {"x": ["<"]}}"#;
        [empty.clone(), call("f", &arguments.replace("｜DSML｜", shown))].concat()
    };
    let hy = |end: &str| {
        "<tool_calls>\n<tool_call>g<tool_sep>\n</tool_call>\n<tool_call>f<tool_sep>\n<arg_key>s</arg_key>\n<arg_value>\
         a\n</arg_value>\n<arg_key>m</arg_key>\n<arg_value>12</arg_value>\n</tool_call>\n</tool_calls>"
            .replace('>', end)
    };
    let of_hy = || [empty.clone(), call("f", "{\"s\": \"a\\n\", \"m\": 12}")].concat();
    vec![
        ("hermes", "A text <tool_call".into(), text("A text <tool_call")),
        ("hermes", hermes.clone(), one()),
        ("hermes", format!("É <tool_\n{hermes}\n{hermes}"), [text("É <tool_\n"), both.clone()].concat()),
        ("mistral", format!("[TOOL_CALLS][{listed}]"), one()),
        ("mistral", format!("No [TOOL_CALLS][{listed}, {listed}]"), [text("No "), both.clone()].concat()),
        ("mistral-spaced", format!("[TOOL_CALLS] [{listed}]"), one()),
        ("mistral", format!("x [{listed}]"), text(&format!("x [{listed}]"))),
        ("mistral-11", format!("[TOOL_CALLS]f[CALL_ID]abc0DEF12[ARGS]{tricky}"), one()),
        ("mistral-13", format!("[TOOL_CALLS]f[ARGS]{tricky}[TOOL_CALLS]f[ARGS]{tricky}"), both.clone()),
        (
            "deepseek-3",
            format!(
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{tricky}\n```\
                 <｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
            one(),
        ),
        (
            "deepseek-3.1",
            format!("Yes<｜tool▁calls▁begin｜>{deepseek}{deepseek}<｜tool▁calls▁end｜>"),
            [text("Yes"), both.clone()].concat(),
        ),
        (
            "kimi-k2",
            format!("<|tool_calls_section_begin|>{}{}<|tool_calls_section_end|>", kimi(0), kimi(1)),
            both.clone(),
        ),
        ("qwen3-coder", qwen.into(), call("f", of_qwen)),
        (
            "qwen3-coder",
            "<tool_call>\n<function=g>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n<parameter=m>\n\n\
             </parameter>\n</function>\n</tool_call>"
                .into(),
            [empty.clone(), call("f", "{\"m\": \"\"}")].concat(),
        ),
        (
            "seed-oss",
            "<seed:tool_call>\n<function=f>\n<parameter=s>x\ny</parameter>\n</function>\n</seed:tool_call>".into(),
            call("f", "{\"s\": \"x\\ny\"}"),
        ),
        (
            "minimax-m2",
            "<minimax:tool_call>\n<invoke name=\"g\">\n</invoke>\n<invoke name=\"f\">\n<parameter name=\"o\">[1, 2]\
             </parameter>\n</invoke>\n</minimax:tool_call>"
                .into(),
            [empty.clone(), call("f", "{\"o\": [1, 2]}")].concat(),
        ),
        ("glm-4.5", format!("{glm}\n{glm}"), [of_glm(), of_glm()].concat()),
        (
            "glm-4.7",
            "<tool_call>g</tool_call><tool_call>f<arg_key>s</arg_key><arg_value></arg_value></tool_call>".into(),
            [empty.clone(), call("f", "{\"s\": \"\"}")].concat(),
        ),
        (
            "lfm2",
            format!("<|tool_call_start|>[{python}, g()]<|tool_call_end|>"),
            [call("f", of_python), empty.clone()].concat(),
        ),
        ("llama-4", format!("[g(), {python}]"), [empty.clone(), call("f", of_python)].concat()),
        ("llama-4", "[1, 2] f(".into(), text("[1, 2] f(")),
        (
            "gemma-4",
            format!("<|tool_call>{gemma}<tool_call|><|tool_call>call:g{{}}<tool_call|>"),
            [call("f", of_gemma), empty.clone()].concat(),
        ),
        ("deepseek-3.2", dsml("function_calls", "invoke", "parameter"), of_dsml()),
        (
            "deepseek-4",
            format!("Yes.\n\n{}", dsml("tool_calls", "invoke", "parameter")),
            [text("Yes.\n\n"), of_dsml()].concat(),
        ),
        ("deepseek-4.1", dsml(" calls", " invoke", " parameter"), of_dsml()),
        ("hunyuan-a13b", format!("<tool_calls>[{listed}, {listed}]</tool_calls>"), both.clone()),
        ("hy-3-preview", hy(">"), of_hy()),
        ("hy-3", hy(":opensource>"), of_hy()),
        ("harmony", format!("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{tricky}"), one()),
        (
            "harmony",
            format!("<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{tricky}"),
            one(),
        ),
        ("harmony", "<|channel|>final<|message|>Hello <|x".into(), text("Hello <|x")),
        ("harmony", "<|start|>assistant<|channel|>final<|message|>Hello".into(), text("Hello")),
        ("llama-3", format!("{{\"name\": \"f\", \"parameters\": {tricky}}}"), one()),
        ("llama-3", "{\"name\": 3}".into(), text("{\"name\": 3}")),
        ("llama-3", "{\"na".into(), text("{\"na")),
        ("llama-3", String::new(), vec![]),
    ]
}

/// Names that some families have as control tokens.
const CONTROLS: &[&str] = &[
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]",
    "<tool_call>",
    "</tool_call>",
    "<|tool_call>",
    "<tool_call|>",
    "<|\"|>",
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|constrain|>",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "｜DSML｜",
    "<tool_calls>",
    "</tool_calls>",
    "<tool_sep>",
    "</arg_value>",
    "<tool_calls:opensource>",
    "<tool_call:opensource>",
    "</arg_value:opensource>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
];

#[test]
fn calls_are_read_wherever_pieces_begin() {
    for controls in [&[], CONTROLS] {
        let tokenizer = tokenizer(controls);
        // Strings do not contain control tokens.
        let inside = if controls.is_empty() { "</tool_call>" } else { "" };
        for (family, written, expected) in written(inside) {
            let (format, spelled) = (format(family, &tokenizer), tokenizer.spell(&written));
            for piece in [1, 2, 3, 5, 8, 13, 1000] {
                let got = read(&format, &spelled, piece);
                assert_eq!(got, (expected.clone(), None), "{family}: {written} by {piece}");
            }
        }
    }
}

/// The source text of the call is returned.
#[test]
fn a_call_that_is_cut_short_is_none() {
    let tokenizer = tokenizer(&[]);
    let hermes = format("hermes", &tokenizer);
    let written = "Yes.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"b";
    for piece in [1, 4, 100] {
        let (parts, cut) = read(&hermes, written.as_bytes(), piece);
        let begun = vec![ParsedPart::Call("f".into()), ParsedPart::Arguments("{\"a\": \"b".into())];
        assert_eq!(parts, [text("Yes."), begun].concat());
        assert_eq!(cut, Some(CutCall { text: written[4..].into(), is_begun: true }));
    }
    // Of a second call, only that one is cut.
    let second = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"";
    let both = format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{}}}}\n</tool_call>\n{second}");
    for piece in [1, 4, 100] {
        let (_, cut) = read(&hermes, both.as_bytes(), piece);
        assert_eq!(cut.map(|cut| cut.text).as_deref(), Some(second), "{piece}");
    }
    let cut = CutCall { text: "<tool_call>\n{".into(), is_begun: false };
    assert_eq!(read(&hermes, b"<tool_call>\n{", 3), (vec![], Some(cut)));
}

#[test]
fn a_text_without_calls_is_told_at_once() {
    let (mut reader, mut parts) = (CallReader::new(None), Vec::new());
    reader.push("<tool_call>", &mut parts);
    assert_eq!((parts, reader.finish(&mut Vec::new())), (text("<tool_call>"), None));
}

/// Text that looks like a control token is not one.
#[test]
fn control_tokens_come_from_tokens() {
    let tokenizer = tokenizer(&["[TOOL_CALLS]", "[ARGS]"]);
    let format = format("mistral-13", &tokenizer);
    let (mut reader, mut parts) = (CallReader::new(Some(format)), Vec::new());
    let mut tokens = tokenizer.encode("Not [TOOL_CALLS]f[ARGS]").unwrap();
    tokens.push(tokenizer.id("[TOOL_CALLS]").unwrap());
    tokens.extend(tokenizer.encode("f").unwrap());
    tokens.push(tokenizer.id("[ARGS]").unwrap());
    tokens.extend(tokenizer.encode("{\"a\": \"[ARGS]\"}").unwrap());
    let mut stream = TextStream::new(&tokenizer);
    for token in tokens {
        stream.push_parts(token).for_each(|part| reader.push_part(part, &mut parts));
    }
    let names: Vec<&ParsedPart> = parts.iter().filter(|part| matches!(part, ParsedPart::Call(_))).collect();
    assert_eq!((names, &parts[0]), (vec![&ParsedPart::Call("f".into())], &ParsedPart::Text("Not".into())));
    assert_eq!(parts.last(), Some(&ParsedPart::CallEnd));
}
