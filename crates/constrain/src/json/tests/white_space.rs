//! White space, in each of its styles.

use serde_json::json;

use super::{accepts, with};
use crate::json::style::{Style, Whitespace};

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
