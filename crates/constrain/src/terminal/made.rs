//! How much memory takes what texts have made of terminals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// About how many bytes all terminals of one machine have made, counted as they make them. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made(Arc<AtomicUsize>);

impl Made {
    /// An entry of a table of numbers, with the room that a table keeps free.
    pub(crate) const NUMBER: usize = 40;

    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
