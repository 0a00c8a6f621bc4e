//! Values as one segment, each read by a run of its rule.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::run::{DEAD, Run};
use crate::grammar::Grammar;
use crate::grammar::step::Rule;
use crate::terminal::nested::Nested;

/// A run of one rule of a grammar.
pub(super) struct NestedRun {
    run: Mutex<Run>,
    start: u32,
}

impl NestedRun {
    /// Starts a run of a rule before any text, nested in `level` others.
    pub(super) fn begin(grammar: &Arc<Grammar>, rule: Rule, level: u32) -> Box<dyn Nested> {
        let (run, start) = Run::of_rule(grammar.clone(), rule, level);
        Box::new(Self { run: Mutex::new(run), start })
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Run) -> T) -> T {
        ask(&mut self.run.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Nested for NestedRun {
    fn start(&self) -> u32 {
        self.start
    }

    fn next(&self, state: u32, byte: u8) -> Option<u32> {
        self.with(|run| Some(run.next(state, byte)).filter(|&next| next != DEAD))
    }

    fn first(&self, state: u32) -> [u64; 4] {
        self.with(|run| run.first(state))
    }

    fn accepts(&self, state: u32) -> bool {
        self.with(|run| run.threads(state).accepts)
    }

    fn goes_on(&self, state: u32) -> bool {
        self.with(|run| !run.threads(state).threads.is_empty())
    }

    fn to_end(&self, state: u32) -> u64 {
        self.with(|run| run.bytes_to_end(state))
    }

    fn bytes(&self) -> usize {
        self.with(|run| run.bytes())
    }
}

impl fmt::Debug for NestedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NestedRun").field("start", &self.start).finish_non_exhaustive()
    }
}
