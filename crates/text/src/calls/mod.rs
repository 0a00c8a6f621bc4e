//! The syntaxes in which families of models write tool calls.
//!
//! A family is one entry of data: [`Syntax`]. Its traces in a chat template, the grammar of its calls and their parser
//! all follow from the entry. Arguments are JSON, or written in a [`Notation`]: parameters as elements, as in XML, or
//! as those of a function in Python.
//!
//! | module | contents |
//! |---|---|
//! | `syntax` | the parts of a call |
//! | `notation` | how arguments are written that are not JSON |
//! | `families` | the families, as data |
//! | `recognize` | the syntax that a chat template renders, and conversations as it expects them |
//! | `format` | a syntax for the tokens of a model and the tools of a request |
//! | `reader` | an incremental parser for calls in a text |
//! | `arguments`, `value` | arguments and values in a notation, as JSON |

mod arguments;
mod families;
mod format;
mod notation;
mod reader;
mod recognize;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

pub use families::{FAMILIES, HERMES};
pub use format::CallFormat;
pub use notation::{Kinds, Nested, Notation, Signs, Strings, Words};
pub use reader::{CallReader, CutCall, ParsedPart};
pub use recognize::CallTemplate;
pub use syntax::{HistoryIds, Id, IdShape, Syntax};
