//! JSON Schema as a grammar.
//!
//! Texts obey the schema exactly: a keyword that cannot be honoured is an error that names it, never an approximation.
//! A schema passes through these modules:
//!
//! | module | contents |
//! |---|---|
//! | `document`, [`registry`] | the targets of references |
//! | `expand` | the ways to obey a schema, with its branches resolved |
//! | `flat` | demands on each type, which can be joined |
//! | `compile` | from demands to the rules of a grammar |
//! | `exact` | numbers that are not read exactly |
//! | [`style`] | how JSON is written where a schema leaves that open |
//! | `number`, `pattern`, `format` | automata of numbers, of texts that match, and of formats |

mod compile;
mod document;
pub(crate) mod exact;
mod expand;
pub(crate) mod fault;
mod flat;
mod format;
mod number;
mod pattern;
pub mod registry;

pub mod style;
#[cfg(test)]
mod tests;
