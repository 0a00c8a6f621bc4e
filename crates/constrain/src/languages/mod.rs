//! Grammar languages: texts that describe grammars.
//!
//! Each language is read into the same rules of expressions, which becomes a [`Grammar`](crate::Grammar). Differences
//! between the dialects of one language are decided here and listed in `docs/constraints.md`.
//!
//! | module | contents |
//! |---|---|
//! | [`language`] | the languages by name |
//! | `gbnf`, `ebnf`, `bnf` | llama.cpp's GBNF, XGrammar's EBNF, and their common parser |
//! | `lark` | Lark, with the extensions of llguidance |
//! | `operation` | intersections, complements and shortest matches of terminals |
//! | `pattern` | regular expressions in grammars |
//! | [`substring`] | the runs of characters, words or chunks of a text |
//! | `compile` | rules become a grammar |
//! | `lexeme`, `longest_match` | terminals as one automaton each, and texts that are divided by the longest match |
//! | `left_recursion` | rules that begin with themselves |
//! | `graph` | rules as nodes |
//! | `simplify` | regular parts of rules become one terminal each |
//! | `expression`, `regular` | the internal representation |
//! | `scanner`, [`fault`] | positions in the text of a grammar, and what is wrong there |

mod bnf;
mod compile;
mod ebnf;
mod expression;
pub mod fault;
mod gbnf;
mod graph;
pub mod language;
mod lark;
mod left_recursion;
mod lexeme;
mod longest_match;
mod operation;
mod pattern;
#[cfg(test)]
mod random;
mod regular;
mod scanner;
mod simplify;
pub mod substring;
