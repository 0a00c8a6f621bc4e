//! Limits the work of building a grammar. Work is counted, so that the result is the same on every machine.

use std::cell::Cell;

use crate::cancellation::Cancellation;

/// The budget of one schema: between half a second and a second of work.
const WORK: u64 = 8_000_000;

/// The work that is left, in units of about fifty nanoseconds.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u64>,
    cancellation: Option<Cancellation>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Cell::new(WORK), cancellation: Cancellation::current() }
    }
}

impl Budget {
    /// A budget for work that is always small.
    pub(crate) fn without_end() -> Self {
        Self { left: Cell::new(u64::MAX), cancellation: None }
    }

    /// Takes some units; false if fewer are left or the work was cancelled.
    pub(crate) fn take(&self, units: u64) -> bool {
        let left = self.left.get().checked_sub(units).filter(|_| !self.is_cancelled());
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Whether the work was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// Whether nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.get()
    }
}
