//! One block of each of sixteen columns of weights.

use crate::bytewise::Bytewise;
use crate::simd::LANES;

/// The location of one block of each of sixteen columns.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    /// Starts with the block of the first column.
    bytes: &'a [u8],
    /// The number of bytes from one column to the next.
    stride: usize,
    /// The number of bytes in a block.
    block: usize,
}

impl<'a> Columns<'a> {
    /// Blocks of `block` bytes, `stride` bytes apart, the first at the start of `bytes`.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], stride: usize, block: usize) -> Self {
        assert!(bytes.len() >= (LANES - 1) * stride + block, "sixteen columns");
        Self { bytes, stride, block }
    }

    /// Sixteen bytes of each block from offset `from`, four per register.
    #[inline(always)]
    pub(crate) fn bytes16<S: Bytewise>(self, unit: S, from: usize) -> [S::Ints; 4] {
        assert!(from + 16 <= self.block, "bytes of a block");
        let mut of_column: [&[u8; 16]; LANES] = [&[0; 16]; LANES];
        for (i, of_column) in of_column.iter_mut().enumerate() {
            // SAFETY: `bytes` has a block of each column, a stride apart, and the sixteen bytes are inside the block.
            *of_column = unsafe { &*self.bytes.as_ptr().add(i * self.stride + from).cast() };
        }
        unit.transpose(of_column)
    }
}
