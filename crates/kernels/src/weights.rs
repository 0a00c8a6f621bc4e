//! A matrix of weights in their stored format, and decoding of its rows.

use crate::decode::{self, Decode, STEP, decode_blocks};
use crate::dispatch::dispatch;
use crate::format::{self, Format, with_blocks};
use crate::simd::{LANES, Simd};

/// A matrix of weights, row by row: `n x k`.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    format: Format,
    bytes: &'a [u8],
    k: usize,
    /// The number of bytes in a row.
    stride: usize,
}

impl<'a> Weights<'a> {
    /// A matrix with rows of `k` weights in their stored format.
    ///
    /// # Panics
    /// If `k` is zero or not a whole number of blocks, or the bytes are not a whole number of rows.
    pub fn new(format: Format, bytes: &'a [u8], k: usize) -> Self {
        assert!(k > 0 && k.is_multiple_of(format.block()), "rows of {k} weights in {format:?}");
        assert!(bytes.len().is_multiple_of(format.bytes(k)), "rows of {k} weights in {} bytes", bytes.len());
        Self { format, bytes, k, stride: format.bytes(k) }
    }

    /// The format in which the weights are stored.
    #[inline]
    pub fn format(&self) -> Format {
        self.format
    }

    /// A matrix with rows of `k` weights that are in memory as `f32`.
    ///
    /// # Panics
    /// If the weights are not a whole number of rows.
    pub fn of(weights: &'a [f32], k: usize) -> Self {
        Self::new(Format::F32, format::bytes(weights), k)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// The number of weights in a row.
    #[inline]
    pub fn columns(&self) -> usize {
        self.k
    }

    /// The size of all weights in bytes.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The number of bytes in a row.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The bytes of `count` rows from row `j`.
    #[inline]
    pub(crate) fn rows_from(&self, j: usize, count: usize) -> &'a [u8] {
        &self.bytes[j * self.stride..(j + count) * self.stride]
    }

    /// Decodes row `j`, for example a token's embedding.
    ///
    /// # Panics
    /// If the row does not exist, or `out` is not as long as a row.
    pub fn decode(&self, j: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.k, "a row");
        decode(self.format, self.rows_from(j, 1), out);
    }
}

dispatch! {
    fn decode(format: Format, bytes: &[u8], out: &mut [f32]) = decode_any
}

#[inline(always)]
pub(crate) fn decode_any<S: Simd>(unit: S, format: Format, bytes: &[u8], out: &mut [f32]) {
    match format {
        Format::F32 => decode_row::<S, decode::F32>(unit, bytes, out),
        Format::F16 => decode_row::<S, decode::F16>(unit, bytes, out),
        Format::Bf16 => decode_row::<S, decode::Bf16>(unit, bytes, out),
        format => with_blocks!(format, F => decode_blocks::<S, F>(unit, bytes, out)),
    }
}

/// Decodes one row of weights in a format that is decoded in steps.
#[inline(always)]
pub(crate) fn decode_row<S: Simd, F: Decode>(unit: S, bytes: &[u8], out: &mut [f32]) {
    let whole = out.len() / STEP * F::STEP_BYTES;
    let (steps, rest) = out.as_chunks_mut::<STEP>();
    for (out, bytes) in steps.iter_mut().zip(bytes.chunks(F::STEP_BYTES)) {
        for (out, &lanes) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(&F::step(unit, bytes)) {
            *out = unit.store(lanes);
        }
    }
    if !rest.is_empty() {
        F::rest(&bytes[whole..], rest);
    }
}
