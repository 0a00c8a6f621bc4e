//! Strings with escapes.

use serde_json::{Value, json};

use super::{accepts, check, masks_agree, with};
use crate::json::style::{Escapes, Style};

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

/// Names and addresses as long as they may be, and longer ones.
#[test]
fn formats_have_a_longest_text() {
    let name = |length: usize| (0..length).map(|i| if i % 60 == 59 { '.' } else { 'a' }).collect::<String>();
    for (format, most, before) in [("hostname", 253, ""), ("email", 254, "a.b@")] {
        let text = |length: usize| format!("\"{before}{}\"", name(length - before.len()));
        check(json!({"type": "string", "format": format}), &[&text(most)], &[&text(most + 1)]);
    }
}
