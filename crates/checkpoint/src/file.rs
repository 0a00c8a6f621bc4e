//! Files as memory, and parts of them.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use verdigris_kernels::Mapped;

use crate::error::CheckpointError;

/// A part of a file, which stays mapped as long as there is a part of it.
#[derive(Clone)]
pub(crate) struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// Bytes that are in memory.
    pub(crate) fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner, range }
    }

    /// Maps a file. What is none is not opened: a pipe would be waited for, and a device may have no end.
    ///
    /// # Errors
    /// If it is no file or cannot be mapped.
    pub(crate) fn of(path: &Path) -> Result<Self, CheckpointError> {
        let open = || {
            if !fs::metadata(path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a pipe or a device"));
            }
            Mapped::new(&File::open(path)?)
        };
        let read = |source| CheckpointError::Read { path: path.to_owned(), source };
        Ok(Self::new(Arc::new(open().map_err(read)?)))
    }

    /// A part; `None` where it reaches past the end.
    pub(crate) fn part(&self, part: Range<usize>) -> Option<Self> {
        let range = self.range.start.checked_add(part.start)?..self.range.start.checked_add(part.end)?;
        (range.start <= range.end && range.end <= self.range.end).then(|| Self { owner: self.owner.clone(), range })
    }

    pub(crate) fn get(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}
