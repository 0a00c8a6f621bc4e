//! Constraints: which tokens a text may go on with.
//!
//! A [`Grammar`] says which texts there are: those that match a regular expression, those of a list, or the
//! JSON that obeys a schema. It is made of automata over bytes that call each other, and every point in it has
//! a way to the end. A [`Machine`] runs it along a vocabulary, which is a tree of bytes: the tokens allowed at a
//! state are those whose bytes survive. A text under a constraint obeys it as a whole, for the end of the text is
//! allowed in accepting states only.
//!
//! Each floor stands on those below it alone:
//!
//! | floor | holds |
//! |---|---|
//! | [`constraint`] | a machine as a step on logits; one text, token by token; forced tokens; why a token may not come |
//! | [`regex`], [`json`] | compilers: regular expressions and JSON Schemas become grammars |
//! | [`machine`] | a grammar over a vocabulary: states and masks |
//! | [`grammar`] | terminals that follow each other and nest; grammars made of others; objects and arrays |
//! | `terminal` | what a step of a grammar reads: strings, names, items that are all different |
//! | `automata` | automata over bytes and over classes of characters, all at once or as texts come to their states |
//! | `vocabulary` | a vocabulary as a tree of bytes, and what its tokens are made of |
//! | [`cancellation`] | ending work that nobody waits for |
#![forbid(unsafe_code)]

mod automata;
pub mod cancellation;
pub mod constraint;
pub mod grammar;
pub mod json;
pub mod machine;
pub mod regex;
mod terminal;
mod vocabulary;

pub use cancellation::Cancellation;
pub use constraint::choices::{Departure, MANY};
pub use constraint::cursor::Cursor;
pub use constraint::explain::{Expected, Explanation};
pub use constraint::lexicon::Lexicon;
pub use constraint::{Constraint, ForcedText, NoRoom};
pub use grammar::compose::BadChoice;
pub use grammar::{Grammar, TooLarge};
pub use json::fault::BadSchema;
pub use json::registry::{BadRegistry, Registry};
pub use json::style::{Escapes, Extra, NumberForms, Order, Style, Whitespace};
pub use machine::index::TokenIndex;
pub use machine::mask::{Mask, OverBudget};
pub use machine::{Machine, State};
pub use regex::BadRegex;
