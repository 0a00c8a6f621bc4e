//! The errors of a GPU.

use std::fmt;

/// An error of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CudaError {
    /// There is not enough memory.
    Memory {
        /// The number of bytes requested.
        bytes: usize,
    },
    /// An error that the driver reported.
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
