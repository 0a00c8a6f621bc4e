//! Schemas as grammars: the texts that they accept, and the masks of their machines.

mod arrays;
mod branches;
mod faults;
mod masks;
mod notations;
mod numbers;
mod objects;
mod presence;
mod references;
mod strings;
mod unevaluated;
mod unique_items;
mod values;
mod white_space;

use serde_json::Value;

use super::fault::BadSchema;
use super::style::Style;
use crate::fixture::{LEXICON, accepts, machine_of};
use crate::{Grammar, Machine};

fn machine(schema: &Value) -> Machine {
    with(schema, Style::default())
}

fn with(schema: &Value, style: Style) -> Machine {
    machine_of(Grammar::json_schema(schema, style).unwrap_or_else(|fault| panic!("{schema}: {fault}")))
}

fn check(schema: Value, good: &[&str], bad: &[&str]) {
    let machine = machine(&schema);
    for text in good {
        assert!(accepts(&machine, text), "{schema} must accept {text}");
    }
    for text in bad {
        assert!(!accepts(&machine, text), "{schema} must not accept {text}");
    }
}

fn fault(schema: Value) -> BadSchema {
    match Grammar::json_schema(&schema, Style::default()) {
        Ok(_) => panic!("{schema} must be refused"),
        Err(fault) => fault,
    }
}

/// Compares masks and distances with their definition, after all prefixes of every `step`-th text; `texts` is the whole
/// language.
fn masks_are_of(machine: &Machine, mut texts: Vec<String>, step: usize) {
    let vocabulary = LEXICON.tokenizer().vocabulary();
    texts.sort_unstable();
    for text in texts.iter().step_by(step) {
        for begun in (0..=text.len()).map(|n| &text[..n]) {
            let state = machine.next(machine.start(), begun.as_bytes());
            let mask = &machine.mask(state).tokens;
            for token in 0..vocabulary.size() as u32 {
                let longer = [begun.as_bytes(), vocabulary.bytes(token)].concat();
                let from = texts.partition_point(|text| text.as_bytes() < &longer[..]);
                let possible = longer.len() > begun.len()
                    && texts.get(from).is_some_and(|text| text.as_bytes().starts_with(&longer));
                assert_eq!(mask.contains(token), possible, "after {begun:?}: {:?}", String::from_utf8_lossy(&longer));
            }
            let from = texts.partition_point(|text| &**text < begun);
            let longer = texts[from..].iter().take_while(|text| text.starts_with(begun));
            let shortest = longer.map(|text| (text.len() - begun.len()) as u64).min();
            assert_eq!(Some(machine.to_end(state)), shortest, "after {begun:?}");
            assert_eq!(machine.accepts(state), shortest == Some(0));
        }
    }
}

/// Compares masks with the machine's answers byte by byte, after all prefixes of a text.
fn masks_agree(machine: &Machine, text: &str) {
    let vocabulary = LEXICON.tokenizer().vocabulary();
    for begun in (0..=text.len()).map(|n| &text.as_bytes()[..n]) {
        let state = machine.next(machine.start(), begun);
        let mask = &machine.mask(state).tokens;
        for token in 0..vocabulary.size() as u32 {
            let bytes = vocabulary.bytes(token);
            let possible = !bytes.is_empty() && machine.goes_on(machine.next(state, bytes));
            assert_eq!(mask.contains(token), possible, "after {begun:?}: {:?}", String::from_utf8_lossy(bytes));
        }
    }
}
