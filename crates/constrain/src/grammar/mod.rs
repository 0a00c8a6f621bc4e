//! Grammars: segments of text in sequence and nested.
//!
//! | module | contents |
//! |---|---|
//! | `step` | the steps of a grammar |
//! | `builder` | building grammars |
//! | `compose` | grammars composed of others |
//! | `free` | text in which anything may occur except a marker |
//! | `object`, `object_end`, `array`, `punctuation`, `shapes` | shapes of objects and arrays, distances to their ends |
//! | `state` | positions inside objects and arrays |
//! | `unfold` | the steps inside objects and arrays, created as texts reach them |

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

use foldhash::{HashSet, HashSetExt};

use self::shapes::Shapes;
use self::step::{Step, StepIndex};
use crate::terminal::Terminal;
use crate::terminal::language::Language;

/// A language of texts: rules over terminals that call each other, to any depth.
///
/// The end of the text can be reached from every point. A grammar is independent of any vocabulary and immutable: in an
/// [`Arc`], one serves any number of tokenizers, machines and threads. The insides of objects and arrays, which have as
/// many states as there are sets of properties, are created by each machine as its texts reach them.
#[doc(alias = "CompiledGrammar")]
#[doc(alias = "TopLevelGrammar")]
#[derive(Clone)]
pub struct Grammar {
    steps: Vec<Step>,
    terminals: Vec<Arc<Terminal>>,
    /// The first step of each rule. The first rule is the text itself.
    entries: Vec<StepIndex>,
    /// The fewest bytes from each step to the end of its rule.
    distances: Vec<u64>,
    shapes: Shapes,
    /// For each step, the index of its path in the schema.
    origins: Vec<u32>,
    paths: Vec<Arc<str>>,
    /// The names of the control tokens that texts must have in some places.
    controls: Vec<Box<str>>,
}

impl Grammar {
    /// The names of the control tokens in the grammar. A vocabulary without one of them cannot write all of its texts.
    pub fn controls(&self) -> impl Iterator<Item = &str> {
        self.controls.iter().map(|name| &**name)
    }

    /// The set of bytes that texts begin with, if none of them is empty.
    pub(crate) fn first_bytes(&self) -> [u64; 4] {
        let (mut open, mut seen, mut first) = (vec![self.entries[0]], HashSet::new(), [0; 4]);
        while let Some(at) = open.pop() {
            if !seen.insert(at) {
                continue;
            }
            match &self.steps[at as usize] {
                Step::Read { terminal, .. } => {
                    let terminal = &self.terminals[*terminal as usize];
                    terminal.first(terminal.start(), &mut first);
                }
                Step::Call { rule, .. } => open.push(self.entries[*rule as usize]),
                Step::Fork(ways) => open.extend(ways),
                Step::Return | Step::Inside(_) | Step::Unmade { .. } | Step::Name { .. } => {}
            }
        }
        first
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, terminals) = (self.steps.len(), self.terminals.len());
        write!(f, "Grammar {{ {steps} steps, {terminals} terminals, {} rules }}", self.entries.len())
    }
}

/// The error that a grammar would be too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parts together are too large for a grammar")]
pub struct TooLarge;
