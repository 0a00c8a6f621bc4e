//! Constraints: which tokens a text may go on with.
//!
//! A regular expression becomes an automaton over bytes, the vocabulary a trie of bytes; the tokens allowed at
//! a state are those whose bytes the automaton survives. A text under a constraint matches it as a whole, for
//! the end of the text is allowed in matching states only.
//!
//! | module | holds |
//! |---|---|
//! | [`trie`] | a vocabulary as a tree of bytes |
//! | [`regex`] | regular expressions as automata, and their masks |
//! | [`constraint`] | a constraint as a step on logits |
#![forbid(unsafe_code)]

pub mod constraint;
pub mod regex;
pub mod trie;

pub use constraint::Constraint;
pub use regex::{BadRegex, Regex};
pub use trie::Trie;
