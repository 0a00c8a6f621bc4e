//! Constraints: which tokens may come next in a text.
//!
//! A [`Grammar`] describes a set of texts: those that match a regular expression, those of a list, or the JSON that
//! obeys a schema. It is made of automata over bytes that call each other, and the end can be reached from every point
//! in it. A [`Machine`] runs it along a vocabulary, which is a tree of bytes: the tokens allowed in a state are those
//! whose bytes have transitions. The end of the text is allowed in accepting states only, so a finished text always
//! obeys its constraint.
//!
//! Each layer depends only on those below it:
//!
//! | layer | contents |
//! |---|---|
//! | [`constraint`] | a machine as a step on logits; one text, token by token; forced tokens; reasons for refusals |
//! | `thought` | answers after a thought |
//! | [`tags`] | structural tags, compiled to grammars composed of others |
//! | [`regex`], [`json`], [`languages`] | compilers: regular expressions, JSON Schemas and texts in grammar languages become grammars |
//! | [`machine`] | a grammar over a vocabulary: states and masks |
//! | [`grammar`] | terminals in sequence and nested; grammars made of others; objects and arrays |
//! | `terminal` | what one step of a grammar reads: strings, names, items that must all differ |
//! | `automata` | automata over bytes and over classes of characters, built at once or as texts reach their states |
//! | `vocabulary` | a vocabulary as a tree of bytes, and what its tokens consist of |
//! | `byte_set` | sets of bytes |
//! | [`cancellation`] | cancelling work whose caller has gone |
#![forbid(unsafe_code)]

mod automata;
mod byte_set;
pub mod cancellation;
pub mod constraint;
#[cfg(test)]
mod fixture;
pub mod grammar;
pub mod json;
pub mod languages;
pub mod machine;
pub mod regex;
pub mod tags;
mod terminal;
mod thought;
mod vocabulary;

pub use cancellation::Cancellation;
pub use constraint::choices::{Departure, MANY};
pub use constraint::cursor::Cursor;
pub use constraint::explain::{Expected, Explanation};
pub use constraint::lexicon::Lexicon;
pub use constraint::{Constraint, ForcedText, NoRoom};
pub use grammar::compose::BadChoice;
pub use grammar::{Grammar, TooLarge};
pub use json::exact::{InexactNumber, UnreadableSchema, check_numbers, parse_schema};
pub use json::fault::BadSchema;
pub use json::registry::{BadRegistry, Registry};
pub use json::style::{Escapes, Extra, NumberForms, Order, Style, Whitespace};
pub use languages::fault::BadGrammar;
pub use languages::language::{Language, UnknownLanguage};
pub use languages::substring::Chunks;
pub use machine::index::TokenIndex;
pub use machine::mask::{Mask, OverBudget};
pub use machine::{Machine, State};
pub use regex::BadRegex;
pub use tags::BadTag;
