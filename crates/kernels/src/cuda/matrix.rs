//! Matrices of weights on a GPU.

use super::packed::{order, pack};
use super::{Buffer, CudaError, Gpu};
use crate::format::Format;

/// A matrix of weights on a GPU, in the order in which its kernels read it.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub(super) format: Format,
    pub(super) bytes: Buffer,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Matrix {
    /// Copies a matrix with rows of `columns` weights to a GPU.
    ///
    /// # Panics
    /// If the bytes are not whole rows.
    ///
    /// # Errors
    /// [`CudaError`] if the GPU has no memory for it, or the driver fails.
    pub fn new(gpu: &Gpu, format: Format, bytes: &[u8], columns: usize) -> Result<Self, CudaError> {
        let row = format.bytes(columns);
        assert!(
            row > 0 && columns.is_multiple_of(format.block()) && bytes.len().is_multiple_of(row),
            "rows of {columns}"
        );
        let rows = bytes.len() / row;
        let bytes = match format {
            Format::F32 => gpu.upload(bytes)?,
            Format::F16 | Format::Bf16 if !columns.is_multiple_of(32) => gpu.upload(bytes)?,
            Format::F16 | Format::Bf16 => gpu.upload(&order(bytes, columns))?,
            _ => gpu.upload(&pack(format, bytes, columns))?,
        };
        Ok(Self { format, bytes, rows, columns })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether products with it need the sums of activations in each group of columns; if so, whether in each sixteen.
    pub(super) fn needs_sums(&self) -> Option<bool> {
        match self.format {
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => Some(false),
            Format::Q2K => Some(true),
            _ => None,
        }
    }

    /// Whether products with it are computed on tensor cores, from pieces of activations, instead of from numbers.
    ///
    /// Matrices in `f32` are not, nor those without blocks whose rows are not fragments of 32 columns.
    pub fn is_for_tensor_cores(&self) -> bool {
        self.format != Format::F32 && self.columns.is_multiple_of(32)
    }
}
