//! Adds the weighted values of a block to rows, one key at a time, so that a zero weight changes no bit.

use super::BLOCK;
use super::rows::Rows;
use crate::bytewise::{Body, Bytewise};
use crate::simd::LANES;

/// The most rows that share the loads of a value.
const ROWS: usize = 6;

/// Adds the weighted values of `keys` keys to rows. Values have `width` elements, weights are in rows of [`BLOCK`], and
/// the results in rows of `stride`, of which the first `width` elements are written.
#[inline(always)]
pub(super) fn mix<S: Bytewise, R: Rows>(
    unit: S,
    weights: &[f32],
    values: R,
    keys: usize,
    width: usize,
    out: &mut [f32],
    stride: usize,
) {
    let rows = out.len().div_ceil(stride);
    let (mut row, most) = (0, if S::IS_WIDE { ROWS } else { 2 });
    while row < rows {
        let count = most.min(rows - row);
        let (weights, mut from) = (&weights[row * BLOCK..], 0);
        while from < width {
            let out = &mut out[row * stride + from..];
            let columns = ValueColumns { weights, values, keys, from, out, stride };
            let lanes = match (width - from) / LANES {
                4.. if S::IS_WIDE => columns.of_rows::<S, 4>(unit, count),
                2.. => columns.of_rows::<S, 2>(unit, count),
                _ => columns.of_rows::<S, 1>(unit, count),
            };
            from += lanes * LANES;
        }
        row += count;
    }
}

/// Some columns of the values, starting at `from`.
struct ValueColumns<'a, R> {
    weights: &'a [f32],
    values: R,
    keys: usize,
    from: usize,
    out: &'a mut [f32],
    stride: usize,
}

impl<R: Rows> ValueColumns<'_, R> {
    #[inline(always)]
    fn of_rows<S: Bytewise, const N: usize>(self, unit: S, rows: usize) -> usize {
        match rows {
            1 => unit.run(Tile::<R, 1, N>(self)),
            2 => unit.run(Tile::<R, 2, N>(self)),
            3 => unit.run(Tile::<R, 3, N>(self)),
            4 => unit.run(Tile::<R, 4, N>(self)),
            5 => unit.run(Tile::<R, 5, N>(self)),
            _ => unit.run(Tile::<R, ROWS, N>(self)),
        }
        N
    }
}

/// `M` rows of weights times `N` registers of values, with the sums in registers.
struct Tile<'a, R, const M: usize, const N: usize>(ValueColumns<'a, R>);

impl<R: Rows, const M: usize, const N: usize> Body for Tile<'_, R, M, N> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self(ValueColumns { weights, values, keys, from, out, stride }) = self;
        if keys == 0 {
            return;
        }
        assert!(N.is_multiple_of(R::LANES) && from.is_multiple_of(R::LANES * LANES), "whole parts");
        assert!(values.reach(keys, from + N * LANES), "values of {keys} keys");
        assert!(weights.len() >= (M - 1) * BLOCK + keys, "weights of {M} rows");
        assert!(out.len() >= (M - 1) * stride + N * LANES, "{M} rows");
        let first = from / (R::LANES * LANES);
        let mut sums = [[unit.zero(); N]; M];
        for (row, sums) in sums.iter_mut().enumerate() {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the length was checked; an array of numbers has the alignment of one.
                *sum = unit.load(unsafe { &*out.as_ptr().add(row * stride + i * LANES).cast() });
            }
        }
        for key in 0..keys {
            let mut lanes = [unit.zero(); N];
            for (part, lanes) in lanes.chunks_exact_mut(R::LANES).enumerate() {
                // SAFETY: as above.
                lanes.copy_from_slice(unsafe { values.part(unit, key, first + part) }.as_ref());
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let weight = unit.splat(unsafe { *weights.get_unchecked(row * BLOCK + key) });
                for (sum, lanes) in sums.iter_mut().zip(lanes) {
                    *sum = unit.fma(weight, lanes, *sum);
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            for (i, sum) in sums.into_iter().enumerate() {
                out[row * stride + i * LANES..][..LANES].copy_from_slice(&unit.store(sum));
            }
        }
    }
}
