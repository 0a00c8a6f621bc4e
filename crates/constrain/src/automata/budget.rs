//! How much work it may be to make a grammar: counted, so that the answer is the same on every machine.

use std::cell::Cell;

/// What there is for one schema: half a second to one.
const WORK: u64 = 8_000_000;

/// Work that is left. A unit is some fifty nanoseconds.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Cell::new(WORK) }
    }
}

impl Budget {
    /// For what is small in any case.
    pub(crate) fn without_end() -> Self {
        Self { left: Cell::new(u64::MAX) }
    }

    /// Takes some units; false where so many are not left.
    pub(crate) fn take(&self, units: u64) -> bool {
        let left = self.left.get().checked_sub(units);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Whether nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.get()
    }
}
