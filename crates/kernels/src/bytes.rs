//! Shared slices of memory that keep their owner alive.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that several parts of a model share: a file in memory, or a slice of one.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// All bytes of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner, range }
    }

    /// A slice of these bytes; `None` if it reaches past the end.
    pub fn part(&self, part: Range<usize>) -> Option<Self> {
        let range = self.range.start.checked_add(part.start)?..self.range.start.checked_add(part.end)?;
        (range.start <= range.end && range.end <= self.range.end).then(|| Self { owner: self.owner.clone(), range })
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.get()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}
