//! Lark, with the extensions of llguidance.
//!
//! A text is divided into terminals by the longest match, as in llguidance.

mod atoms;
mod common;
mod definitions;
mod parser;
#[cfg(test)]
mod tests;

use self::parser::Parser;
use super::compile::compile_longest;
use super::fault::BadGrammar;
use crate::automata::budget::Budget;
use crate::grammar::Grammar;

impl Grammar {
    /// Creates the grammar of a text in Lark's language, with the extensions of llguidance. The rule `start` is the
    /// whole text. Control tokens are written by their text: `<|end|>`.
    ///
    /// # Errors
    /// The grammar is malformed, has a construct that is not supported, is too large, or no text obeys it.
    pub fn lark(text: &str) -> Result<Self, BadGrammar> {
        let (rules, terminals) = Parser::new(text)?.rules()?;
        compile_longest(rules, &terminals, "start", &Budget::default())
    }
}
