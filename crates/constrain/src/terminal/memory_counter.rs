//! The memory of states that texts create in terminals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The approximate number of bytes that all terminals of one machine have allocated. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryCounter(Arc<AtomicUsize>);

impl MemoryCounter {
    /// An entry of a hash table of numbers, including spare capacity.
    pub(crate) const NUMBER: usize = 40;

    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
