//! Matrices of weights on a GPU.

use super::packed::{order, pack};
use super::{Buffer, CudaError, Gpu};
use crate::format::{Format, Numbers};

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
        let bytes = match format.layout() {
            Some(_) => gpu.upload(&pack(format, bytes, columns))?,
            None if is_for_tensor_cores(format, columns) => gpu.upload(&order(bytes, columns))?,
            None => gpu.upload(bytes)?,
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
        let layout = self.format.layout()?;
        matches!(layout.numbers, Numbers::Least).then(|| layout.scales.has_halves())
    }

    /// Whether products with it are computed on tensor cores, from pieces of activations, instead of from numbers.
    ///
    /// Matrices in `f32` are not, nor those without blocks whose rows are not fragments of 32 columns.
    pub fn is_for_tensor_cores(&self) -> bool {
        is_for_tensor_cores(self.format, self.columns)
    }
}

fn is_for_tensor_cores(format: Format, columns: usize) -> bool {
    format != Format::F32 && columns.is_multiple_of(32)
}
