//! JSON Schema as a grammar.
//!
//! What is written obeys the schema exactly: a keyword that cannot be honoured is an error that names it, never
//! an approximation. A schema goes through these rooms:
//!
//! | module | holds |
//! |---|---|
//! | `document`, [`registry`] | where references lead |
//! | `expand` | the ways to obey a schema, with its branches told apart |
//! | `flat` | demands on each type, which can be joined |
//! | [`schema`] | from demands to the rules of a grammar |
//! | [`style`] | how JSON is written where a schema leaves that open |
//! | `place` | what may come next in an object or an array |
//! | `number`, `text`, `names`, `quoted`, `escape`, `pattern`, `format` | numbers and strings |
//! | `fresh` | items that are all different |

mod document;
pub(crate) mod escape;
mod expand;
mod flat;
mod format;
pub(crate) mod fresh;
pub(crate) mod names;
mod number;
mod pattern;
pub(crate) mod place;
pub(crate) mod quoted;
pub mod registry;
pub mod schema;
pub mod style;
#[cfg(test)]
mod tests;
pub(crate) mod text;
