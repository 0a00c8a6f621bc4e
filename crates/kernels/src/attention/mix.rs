//! Values of a block, added to rows with their weights: one key after the other, so what has no weight changes no bit.

use super::BLOCK;
use crate::bytewise::{Body, Bytewise};
use crate::simd::LANES;

/// Adds the weighted values of some keys to rows. Values are rows of `width`, weights rows of [`BLOCK`], and what they
/// are added to rows of `stride`, of which the first `width` are written.
#[inline(always)]
pub(super) fn mix<S: Bytewise>(unit: S, weights: &[f32], values: &[f32], width: usize, out: &mut [f32], stride: usize) {
    let rows = out.len().div_ceil(stride);
    let (mut row, most) = (0, if S::IS_WIDE { 6 } else { 2 });
    while row < rows {
        let count = most.min(rows - row);
        let (weights, mut from) = (&weights[row * BLOCK..], 0);
        while from < width {
            let (values, out) = (&values[from..], &mut out[row * stride + from..]);
            let part = Part { weights, values, width, out, stride };
            let lanes = match (width - from) / LANES {
                4.. if S::IS_WIDE => part.of_rows::<S, 4>(unit, count),
                2.. => part.of_rows::<S, 2>(unit, count),
                _ => part.of_rows::<S, 1>(unit, count),
            };
            from += lanes * LANES;
        }
        row += count;
    }
}

/// Some elements of the values, from those that the slices begin with.
struct Part<'a> {
    weights: &'a [f32],
    values: &'a [f32],
    width: usize,
    out: &'a mut [f32],
    stride: usize,
}

impl Part<'_> {
    #[inline(always)]
    fn of_rows<S: Bytewise, const N: usize>(self, unit: S, rows: usize) -> usize {
        match rows {
            1 => unit.run(Tile::<1, N>(self)),
            2 => unit.run(Tile::<2, N>(self)),
            3 => unit.run(Tile::<3, N>(self)),
            4 => unit.run(Tile::<4, N>(self)),
            5 => unit.run(Tile::<5, N>(self)),
            _ => unit.run(Tile::<6, N>(self)),
        }
        N
    }
}

/// `M` rows of weights by `N` lanes of values, whose sums stay in registers.
struct Tile<'a, const M: usize, const N: usize>(Part<'a>);

impl<const M: usize, const N: usize> Body for Tile<'_, M, N> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self(Part { weights, values, width, out, stride }) = self;
        let keys = values.len().div_ceil(width);
        if keys == 0 {
            return;
        }
        assert!(values.len() >= (keys - 1) * width + N * LANES, "values of {keys} keys");
        assert!(weights.len() >= (M - 1) * BLOCK + keys, "weights of {M} rows");
        assert!(out.len() >= (M - 1) * stride + N * LANES, "{M} rows");
        let mut sums = [[unit.zero(); N]; M];
        for (row, sums) in sums.iter_mut().enumerate() {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: the length was looked at; an array of numbers is aligned as they are.
                *sum = unit.load(unsafe { &*out.as_ptr().add(row * stride + i * LANES).cast() });
            }
        }
        for key in 0..keys {
            let mut lanes = [unit.zero(); N];
            for (i, lanes) in lanes.iter_mut().enumerate() {
                // SAFETY: as above.
                *lanes = unit.load(unsafe { &*values.as_ptr().add(key * width + i * LANES).cast() });
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
