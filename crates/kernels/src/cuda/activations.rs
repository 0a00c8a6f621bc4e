//! Rows of activations, as products read them.

use super::{Buffer, CudaError, Gpu, small};

/// The number of columns that rows of pieces are padded to a multiple of.
const PADDED: usize = 128;

/// The precision of activations in products on tensor cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Two bf16 pieces per number: sixteen significant bits.
    #[default]
    Two,
    /// One bf16 piece: eight significant bits, as other engines compute with bf16 weights.
    One,
}

/// Which kinds of activations matrices read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Numbers in f32.
    pub numbers: bool,
    /// Pieces in bf16.
    pub pieces: bool,
}

/// The most rows of activations that products treat as few: the matrix is read in full by few blocks of threads.
const FEW: usize = 64;

/// Rows of activations on a GPU: numbers in f32, pieces of them in bf16, or both.
///
/// The order of the pieces depends on the number of rows that there is room for.
#[derive(Debug)]
pub struct Activations {
    rows: usize,
    columns: usize,
    numbers: Option<Buffer>,
    pieces: Option<Buffer>,
    precision: Precision,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct ActivationArgs {
    numbers: u64,
    pieces: u64,
    plane: u64,
    pub(super) stride: u32,
    columns: u32,
    count: u32,
    order: u32,
}

impl Activations {
    /// Allocates rows of zeros.
    ///
    /// # Errors
    /// [`CudaError`] if the GPU has no memory for it, or the driver fails.
    pub fn new(gpu: &Gpu, rows: usize, columns: usize, kinds: Kinds, precision: Precision) -> Result<Self, CudaError> {
        let stride = columns.next_multiple_of(PADDED);
        let planes = if precision == Precision::Two { 2 } else { 1 };
        let numbers = kinds.numbers.then(|| gpu.zeroed(rows * columns * 4)).transpose()?;
        let pieces = kinds.pieces.then(|| gpu.zeroed(rows * stride * 2 * planes)).transpose()?;
        Ok(Self { rows, columns, numbers, pieces, precision })
    }

    /// Rows of numbers.
    ///
    /// # Panics
    /// If the buffer has fewer numbers.
    pub fn of_numbers(numbers: &Buffer, rows: usize, columns: usize) -> Self {
        numbers.numbers(rows * columns);
        Self { rows, columns, numbers: Some(numbers.clone()), pieces: None, precision: Precision::Two }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The numbers, if there are any.
    pub fn numbers(&self) -> Option<&Buffer> {
        self.numbers.as_ref()
    }

    /// Whether there is room for few rows only.
    pub(super) fn are_few(&self) -> bool {
        self.rows <= FEW
    }

    pub(super) fn kinds(&self) -> Kinds {
        Kinds { numbers: self.numbers.is_some(), pieces: self.pieces.is_some() }
    }

    pub(super) fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.numbers.iter().chain(&self.pieces)
    }

    pub(super) fn args(&self) -> ActivationArgs {
        let stride = self.columns.next_multiple_of(PADDED);
        ActivationArgs {
            numbers: self.numbers.as_ref().map_or(0, Buffer::address),
            pieces: self.pieces.as_ref().map_or(0, Buffer::address),
            plane: (self.rows * stride) as u64,
            stride: small(stride),
            columns: small(self.columns),
            count: if self.precision == Precision::Two { 2 } else { 1 },
            order: (!self.are_few()).into(),
        }
    }
}
