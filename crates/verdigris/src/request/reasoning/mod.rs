//! Reasoning: thoughts before answers.
//!
//! | module | contents |
//! |---|---|
//! | `options` | the options of a request |
//! | `sections` | where the thought of a text ends |
//! | `budget` | the maximum number of tokens of a thought |
//! | `mark` | the mark of a text with sections |

mod budget;
mod mark;
mod options;
mod sections;

pub(super) use budget::ThoughtBudget;
pub(super) use options::Thinking;
pub use options::{ReasoningEffort, ReasoningFormat, UnknownName};
pub(super) use sections::{SectionPosition, Sections};
