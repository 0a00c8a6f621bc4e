//! What can go wrong on a GPU.

use std::fmt;

/// What can go wrong on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CudaError {
    /// There is not so much memory.
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The driver says so.
    Driver(String),
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { bytes } => write!(f, "the GPU has no memory for {bytes} bytes more"),
            Self::Driver(fault) => f.write_str(fault),
        }
    }
}

impl std::error::Error for CudaError {}
