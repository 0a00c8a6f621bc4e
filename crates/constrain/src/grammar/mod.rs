//! Segments of text that follow each other and nest: what a text with parts looks like.
//!
//! | module | holds |
//! |---|---|
//! | `step` | what a text does at each point |
//! | `builder` | grammars in the making |
//! | `compose` | grammars made of others |
//! | `free` | text in which anything may stand, but for a mark |
//! | `object`, `object_end`, `array`, `punctuation`, `shapes` | what objects and arrays must be, and how far their ends are |
//! | `state` | how far an object or an array is written |
//! | `unfold` | the steps inside objects and arrays, made as texts come to them |

pub(crate) mod array;
pub(crate) mod builder;
pub mod compose;
mod free;
pub(crate) mod object;
mod object_end;
pub(crate) mod punctuation;
pub(crate) mod shapes;
mod state;
pub(crate) mod step;
pub(crate) mod unfold;

use std::fmt;
use std::sync::Arc;

use self::shapes::Shapes;
use self::step::{At, Step};
use crate::terminal::Terminal;

/// A language of texts: rules that call each other, as deep as they like, over terminals.
///
/// Every point that can be reached has a way to the end of the text. A grammar knows no vocabulary and never changes:
/// in an [`Arc`] one serves any number of tokenizers, machines and threads. The insides of objects and arrays, of which
/// there are as many as sets of properties, are made by each machine as its texts come to them.
#[doc(alias = "CompiledGrammar")]
#[doc(alias = "TopLevelGrammar")]
#[derive(Clone)]
pub struct Grammar {
    steps: Vec<Step>,
    terminals: Vec<Arc<Terminal>>,
    /// The first step of each rule. The first rule is the text itself.
    entries: Vec<At>,
    /// The fewest bytes from each step to the end of its rule.
    distances: Vec<u64>,
    shapes: Shapes,
    /// Where in a schema each step comes from, by the number of a path.
    origins: Vec<u32>,
    paths: Vec<Arc<str>>,
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, terminals) = (self.steps.len(), self.terminals.len());
        write!(f, "Grammar {{ {steps} steps, {terminals} terminals, {} rules }}", self.entries.len())
    }
}

/// A grammar that would be too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parts together are too large for a grammar")]
pub struct TooLarge;
