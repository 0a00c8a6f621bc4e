//! Reasoning: the thought that a model writes before its answer.
//!
//! | module | contents |
//! |---|---|
//! | `syntax` | how families of models write thoughts |
//! | `reader` | the sections of a text, token by token |

mod reader;
mod syntax;

pub use reader::{Position, Reasoning};
pub use syntax::{ReasoningSyntax, Section};
