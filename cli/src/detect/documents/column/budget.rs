//! What reading a file may cost.

use std::sync::Mutex;

use parquet::errors::{ParquetError, Result};

/// What a part of a file may unpack to, and by how much, before it is taken for a trap.
pub(super) const MOST_UNPACKED: u64 = 256 << 20;
pub(super) const MOST_RATIO: u64 = 1000;

/// Bytes for which room may still be made while a file is read.
///
/// Each part of a damaged file can ask for no more than a text might, and a file can have many such parts, or point to
/// one of them many times.
#[derive(Debug)]
pub(super) struct Budget(Mutex<u64>);

impl Budget {
    /// For a file of so many bytes.
    pub(super) fn new(file: u64) -> Self {
        Self(Mutex::new(room(file)))
    }

    /// Makes room for some bytes.
    ///
    /// # Errors
    /// If the file has asked for too much by now.
    pub(super) fn take(&self, bytes: u64) -> Result<()> {
        let mut left = self.0.lock().expect("nothing panics while it holds the lock");
        *left = left.checked_sub(bytes).ok_or_else(|| {
            ParquetError::General("it unpacks to far more than it could hold: that is no text".into())
        })?;
        Ok(())
    }
}

/// What so many bytes may unpack to.
pub(super) fn room(packed: u64) -> u64 {
    MOST_UNPACKED.saturating_add(packed.saturating_mul(MOST_RATIO))
}
