//! The vocabulary of the tests, and machines over it.

use std::sync::{Arc, LazyLock};

use verdigris_text::Tokenizer;

use crate::constraint::lexicon::Lexicon;
use crate::grammar::Grammar;
use crate::machine::Machine;

/// The vocabulary of `tale`, whose token 0 ends a text.
pub(crate) static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    Lexicon::new(Arc::new(Tokenizer::from_json(json).unwrap()), &[0])
});

pub(crate) fn machine_of(grammar: Grammar) -> Machine {
    Machine::new(grammar, LEXICON.index().clone())
}

pub(crate) fn accepts(machine: &Machine, text: &str) -> bool {
    machine.accepts(machine.next(machine.start(), text.as_bytes()))
}

/// Asserts that a grammar has these texts, and none of the others.
#[track_caller]
pub(crate) fn is_grammar_of(about: &str, grammar: Grammar, texts: &[&str], others: &[&str]) {
    let machine = machine_of(grammar);
    texts.iter().for_each(|text| assert!(accepts(&machine, text), "{about}: {text:?}"));
    others.iter().for_each(|text| assert!(!accepts(&machine, text), "{about}: {text:?}"));
}
