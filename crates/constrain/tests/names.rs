//! Masks inside the names of an object equal their definition byte by byte, whichever names have been written.

use std::sync::Arc;

use serde_json::{Value, json};
use verdigris_constrain::{Escapes, Grammar, Lexicon, Machine, Style};
use verdigris_text::Tokenizer;

/// Compares the masks along a text with the definition: a token is allowed if and only if its bytes may come next.
fn compare(lexicon: &Lexicon, schema: &Value, style: Style, text: &str) {
    let machine = Machine::new(Grammar::json_schema(schema, style).unwrap(), lexicon.index().clone());
    for end in 0..text.len() {
        let state = machine.next(machine.start(), &text.as_bytes()[..end]);
        assert!(machine.goes_on(state), "{schema} after {}", &text[..end]);
        let mask = machine.mask(state);
        for token in 0..lexicon.index().vocabulary_size() as u32 {
            let bytes = lexicon.bytes(token);
            let may_come = !bytes.is_empty() && machine.goes_on(machine.next(state, bytes));
            let token_text = String::from_utf8_lossy(bytes);
            assert_eq!(mask.tokens.contains(token), may_come, "{schema} after {}: {token_text:?}", &text[..end]);
        }
    }
}

#[test]
fn masks_of_names_are_those_of_the_definition() {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    let lexicon = Lexicon::new(Arc::new(Tokenizer::from_json(json).unwrap()), &[0]);
    let properties = json!({"the": {"type": "integer"}, "then": {"const": "a"}, "they": {"type": "boolean"}});
    let text = "{\"then\": \"a\", \"she\":1,\"the\": 12,\"they\":true}";
    for others in [
        json!({}),
        json!({"patternProperties": {"^s[a-z]+$": {"type": "integer"}}, "additionalProperties": false}),
        json!({"patternProperties": {"^s": {"type": "integer"}, "e$": {"minimum": 0}}, "additionalProperties": false}),
        json!({"patternProperties": {"^s": {"type": "integer"}}, "additionalProperties": {"type": "string"}}),
        json!({"propertyNames": {"pattern": "^(the|she)"}}),
        json!({"required": ["they", "the"], "propertyNames": {"maxLength": 6}}),
    ] {
        let mut schema = others;
        schema["properties"] = properties.clone();
        for style in [Style::default().any_order(), Style::default().any_order().escapes(Escapes::Any)] {
            compare(&lexicon, &schema, style, text);
        }
    }
}
