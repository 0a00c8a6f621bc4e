//! Memory-mapped files.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use verdigris_kernels::{Bytes, Mapped};

use crate::error::CheckpointError;

/// Maps a file. Opens regular files only, since a pipe would block, and a device may have no end.
///
/// # Errors
/// If it is not a regular file, or cannot be mapped.
pub(crate) fn map(path: &Path) -> Result<Bytes, CheckpointError> {
    let open = || {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a pipe or a device"));
        }
        Mapped::new(&File::open(path)?)
    };
    let read = |source| CheckpointError::Read { path: path.to_owned(), source };
    Ok(Bytes::new(Arc::new(open().map_err(read)?)))
}
