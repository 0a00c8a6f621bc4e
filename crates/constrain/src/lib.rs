//! Constraints: which tokens a text may go on with.
//!
//! A [`Grammar`] says which texts there are: those that match a regular expression, those of a list, or the
//! JSON that obeys a schema. It is made of automata over bytes that call each other, and every point in it has
//! a way to the end. A [`Machine`] runs it along a vocabulary, which is a tree of bytes: the tokens allowed at a
//! state are those whose bytes survive. A text under a constraint obeys it as a whole, for the end of the text is
//! allowed in accepting states only.
//!
//! | module | holds |
//! |---|---|
//! | [`trie`] | a vocabulary as a tree of bytes |
//! | `automaton` | automata over bytes, without dead ends |
//! | `terminal` | the pieces that a grammar reads |
//! | `loops` | tokens that leave an automaton where it is |
//! | `piece` | what a vocabulary does inside one of them |
//! | [`grammar`] | pieces that follow each other and nest; choices |
//! | `compose` | grammars made of others |
//! | [`regex`] | regular expressions as grammars |
//! | `syntax` | what is wrong with an expression, in plain words |
//! | `around` | expressions that look around, as automata that do not |
//! | `lazy` | regular expressions that have too many states |
//! | [`json`] | JSON Schema as grammars |
//! | [`machine`] | a grammar over a vocabulary: states and masks |
//! | [`lexicon`] | what all constraints on one model share |
//! | [`constraint`] | a machine as a step on logits |
//! | [`cursor`], `forced`, `explain` | one text, token by token; tokens without a choice; why a token may not come |
#![forbid(unsafe_code)]

mod alphabet;
mod around;
mod automaton;
mod budget;
mod compose;
pub mod constraint;
pub mod cursor;
mod explain;
mod forced;
pub mod grammar;
pub mod json;
mod lazy;
pub mod lexicon;
mod loops;
pub mod machine;
mod piece;
pub mod regex;
mod spelled;
mod syntax;
mod terminal;
pub mod trie;

pub use constraint::{Constraint, ForcedText, NoRoom};
pub use cursor::Cursor;
pub use explain::{Expected, Explanation};
pub use grammar::{BadChoice, Grammar, TooLarge};
pub use json::registry::{BadRegistry, Registry};
pub use json::schema::BadSchema;
pub use json::style::{Escapes, Extra, NumberForms, Order, Style, Whitespace};
pub use lexicon::Lexicon;
pub use machine::{Machine, Mask, State, TooMuchWork};
pub use regex::BadRegex;
pub use trie::Trie;
