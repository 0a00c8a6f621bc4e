//! A block of each of sixteen columns of weights.

use crate::bytewise::Bytewise;
use crate::simd::LANES;

/// Where a block of each of sixteen columns lies.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    /// From the block of the first column on.
    bytes: &'a [u8],
    /// Bytes from one column to the next.
    stride: usize,
    /// Bytes of a block.
    block: usize,
}

impl<'a> Columns<'a> {
    /// Blocks of so many bytes, the first of which begins where `bytes` does.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], stride: usize, block: usize) -> Self {
        assert!(bytes.len() >= (LANES - 1) * stride + block, "sixteen columns");
        Self { bytes, stride, block }
    }

    /// Sixteen bytes of each block from a place on, four at a time.
    #[inline(always)]
    pub(crate) fn bytes16<S: Bytewise>(self, unit: S, from: usize) -> [S::Ints; 4] {
        assert!(from + 16 <= self.block, "bytes of a block");
        let mut of_column: [&[u8; 16]; LANES] = [&[0; 16]; LANES];
        for (i, of_column) in of_column.iter_mut().enumerate() {
            // SAFETY: the bytes have a block of each column, a stride from the one before, and these are bytes of it.
            *of_column = unsafe { &*self.bytes.as_ptr().add(i * self.stride + from).cast() };
        }
        unit.transpose(of_column)
    }
}
