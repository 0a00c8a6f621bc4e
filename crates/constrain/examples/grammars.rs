//! Judges texts by grammars: `tests/scripts/grammars.py` compares the answers with those of other libraries.
//!
//! Each line of the input is `{"language": "gbnf", "grammar": "...", "texts": [...]}`, each line of the output a list
//! of whether each text is accepted, or the fault of the grammar.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;

use serde_json::{Value, json};
use verdigris_constrain::{Grammar, Language, Lexicon, Machine};
use verdigris_text::Tokenizer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tokenizer = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    let lexicon = Lexicon::new(Arc::new(Tokenizer::from_json(tokenizer)?), &[0]);
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let case: Value = serde_json::from_str(&line?)?;
        let language: Language = case["language"].as_str().unwrap_or_default().parse()?;
        let answer = match Grammar::parse(language, case["grammar"].as_str().unwrap_or_default()) {
            Err(fault) => json!(fault.to_string()),
            Ok(grammar) => {
                let machine = Machine::new(grammar, lexicon.index().clone());
                let accepts = |text: &str| machine.accepts(machine.next(machine.start(), text.as_bytes()));
                let texts = case["texts"].as_array().into_iter().flatten().filter_map(Value::as_str);
                json!(texts.map(accepts).collect::<Vec<_>>())
            }
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
