//! Limits on the memory that reading a file takes.

use std::sync::Mutex;

use parquet::errors::{ParquetError, Result};

/// The bytes that a part of a file may unpack to, and the ratio to its packed size. A part that exceeds both is taken
/// for a decompression bomb.
pub(super) const MOST_UNPACKED: u64 = 256 << 20;
pub(super) const MOST_RATIO: u64 = 1000;

/// The bytes that may still be allocated while a file is read.
///
/// Limits on each part are not enough: a damaged file can have many parts within them, or point to one part many times.
#[derive(Debug)]
pub(super) struct Budget(Mutex<u64>);

impl Budget {
    /// The budget for a file of the given length in bytes.
    pub(super) fn new(file: u64) -> Self {
        Self(Mutex::new(room(file)))
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// If fewer are left.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
        let mut left = self.0.lock().expect("nothing panics while it holds the lock");
        *left = left.checked_sub(bytes).ok_or_else(|| {
            ParquetError::General("it unpacks to far more than it could hold: that is not text".into())
        })?;
        Ok(())
    }
}

/// The number of bytes that `packed` bytes may unpack to.
pub(super) fn room(packed: u64) -> u64 {
    MOST_UNPACKED.saturating_add(packed.saturating_mul(MOST_RATIO))
}
