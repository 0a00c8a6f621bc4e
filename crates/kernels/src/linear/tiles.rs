//! Products of a few rows with a few columns at a time, with the sums in registers.

use std::marker::PhantomData;
use std::ops::Range;

use crate::bytewise::{Body, Bytewise};
use crate::decode::{Decode, STEP};
use crate::out::Out;
use crate::simd::{LANES, LINE};
use crate::weights::Weights;

/// The distance in bytes at which memory is prefetched: columns are too short for processors to detect a stream, and
/// hardware prefetching stops at the end of a page.
const AHEAD: usize = 8192;

/// Multiplies every row by some columns of `w`, which are `shift` further on in the result.
///
/// # Safety
/// No other thread writes these columns.
#[inline(always)]
pub(super) unsafe fn of_rows<S: Bytewise, F: Decode>(
    unit: S,
    x: &[f32],
    w: Weights<'_>,
    columns: Range<usize>,
    shift: usize,
    out: &Out<'_>,
) {
    let (k, mut row) = (w.columns(), 0);
    let m = x.len() / k;
    while row < m {
        let x = &x[row * k..];
        let run = TileRun { x, w, from: columns.start, to: columns.end, row, shift, out };
        // The sums and the weights of each column, two registers, should all fit in registers.
        row += match (m - row, S::IS_WIDE) {
            (1, true) => run.run::<S, F, 1, 4>(unit),
            (2, true) => run.run::<S, F, 2, 4>(unit),
            (3, true) => run.run::<S, F, 3, 4>(unit),
            (4, true) => run.run::<S, F, 4, 4>(unit),
            (5 | 6, true) => run.run::<S, F, 6, 3>(unit),
            (_, true) => run.run::<S, F, 8, 2>(unit),
            (1, false) => run.run::<S, F, 1, 2>(unit),
            (2, false) => run.run::<S, F, 2, 1>(unit),
            (_, false) => run.run::<S, F, 4, 1>(unit),
        };
    }
}

/// A run of tiles: the rows from `row` on, times the columns `from..to` of the weights.
#[derive(Clone, Copy)]
struct TileRun<'a> {
    x: &'a [f32],
    w: Weights<'a>,
    from: usize,
    to: usize,
    row: usize,
    shift: usize,
    out: &'a Out<'a>,
}

impl TileRun<'_> {
    /// Multiplies up to `M` rows by all columns, `N` at a time; returns the number of rows.
    #[inline(always)]
    fn run<S: Bytewise, F: Decode, const M: usize, const N: usize>(self, unit: S) -> usize {
        unit.run(Tiles::<F, M, N>(self, PhantomData));
        M.min(self.x.len() / self.w.columns())
    }
}

struct Tiles<'a, F, const M: usize, const N: usize>(TileRun<'a>, PhantomData<F>);

impl<F: Decode, const M: usize, const N: usize> Body for Tiles<'_, F, M, N> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self(TileRun { x, w, from, to, row, shift, out }, _) = self;
        let k = w.columns();
        let rows = M.min(x.len() / k);
        let set = |j: usize, a: usize, sum| {
            // SAFETY: these columns belong to this task, as the caller of `of_columns` promised.
            unsafe { out.set(row + a, shift + j, sum) }
        };
        let mut j = from;
        while j + N <= to {
            let sums = tile::<S, F, M, N>(unit, x, rows, w.rows_from(j, N), w.stride(), k);
            for (a, sums) in sums[..rows].iter().enumerate() {
                sums.iter().enumerate().for_each(|(b, &sum)| set(j + b, a, sum));
            }
            j += N;
        }
        for j in j..to {
            let sums = tile::<S, F, M, 1>(unit, x, rows, w.rows_from(j, 1), w.stride(), k);
            sums[..rows].iter().enumerate().for_each(|(a, &[sum])| set(j, a, sum));
        }
    }
}

/// `M` rows times `N` columns, with the sums in registers. If there are fewer `rows`, the last one is repeated.
#[inline(always)]
fn tile<S: Bytewise, F: Decode, const M: usize, const N: usize>(
    unit: S,
    x: &[f32],
    rows: usize,
    w: &[u8],
    stride: usize,
    k: usize,
) -> [[f32; N]; M] {
    let steps = k / STEP;
    assert!(rows >= 1 && x.len() >= rows * k, "rows of {k}");
    assert!(w.len() >= (N - 1) * stride + steps * F::STEP_BYTES, "columns of {k}");
    let mut row = [0; M];
    for (a, row) in row.iter_mut().enumerate() {
        *row = a.min(rows - 1) * k;
    }
    let mut sums = [[unit.zero(); N]; M];
    for step in 0..steps {
        let mut bytes: [&[u8]; N] = [&[]; N];
        for (b, bytes) in bytes.iter_mut().enumerate() {
            // SAFETY: column `b` begins at `b * stride` and has the bytes of all steps.
            *bytes = unsafe { w.get_unchecked(b * stride + step * F::STEP_BYTES..).get_unchecked(..F::STEP_BYTES) };
            for line in (0..F::STEP_BYTES).step_by(LINE) {
                unit.prefetch(bytes.as_ptr().wrapping_add(AHEAD + line));
            }
        }
        for half in 0..2 {
            let mut weights = [unit.zero(); N];
            for (weights, bytes) in weights.iter_mut().zip(bytes) {
                // The compiler drops the half that is not used.
                *weights = F::step(unit, bytes)[half];
            }
            for a in 0..M {
                // SAFETY: row `a` has `k` elements from `row[a]`, and all steps together have at most `k`.
                let x = unsafe { &*x.as_ptr().add(row[a] + step * STEP + half * LANES).cast::<[f32; LANES]>() };
                let x = unit.load(x);
                for b in 0..N {
                    sums[a][b] = unit.fma(x, weights[b], sums[a][b]);
                }
            }
        }
    }
    let rest = k - steps * STEP;
    let mut out = [[0.0; N]; M];
    for b in 0..N {
        let mut w_rest = [0.0; 2 * LANES];
        if rest > 0 {
            F::rest(&w[b * stride + steps * F::STEP_BYTES..], &mut w_rest[..rest]);
        }
        for a in 0..M {
            let (mut sum, mut x_rest, mut w_rest) = (sums[a][b], &x[row[a] + k - rest..row[a] + k], &w_rest[..rest]);
            if let (Some((x, x_last)), Some((w, w_last))) = (x_rest.split_first_chunk(), w_rest.split_first_chunk()) {
                sum = unit.fma(unit.load(x), unit.load(w), sum);
                (x_rest, w_rest) = (x_last, w_last);
            }
            out[a][b] = unit.finish(sum, x_rest, w_rest);
        }
    }
    out
}
