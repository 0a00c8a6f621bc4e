//! `out = x * w^T` for the few rows of a decoding step, and for the many of a prompt.

mod columns;
mod prepared;
#[cfg(test)]
mod tests;
mod tiles;

use std::cell::Cell;

#[cfg(amx)]
use crate::amx::Amx;
use crate::format::Format;
use crate::out::Out;
use crate::pool;
use crate::weights::Weights;
use columns::{PANEL, of_columns};
use prepared::{Input, Prepared};

/// Bytes of weights, times groups of eight rows, below which one thread is faster than two. Miri tests several threads.
const PARALLEL: usize = if cfg!(miri) { 1 } else { 1 << 16 };

/// Multiplies rows by a weight matrix: `out[i][j] = sum over c of x[i][c] * w[j][c]`.
///
/// Shapes, row by row: `x` is `m x k`, `w` is `n x k`, `out` is `m x n`. Each element is one sum over `c` in an order
/// that depends only on `k`, so it has the same bits for every `m`, `n` and number of threads. For weights without
/// blocks the bits are those of the product with the decoded weights; for weights in blocks, rows are quantized too, to
/// 8 bits and a scale for each 32 elements, and the products within a block are exact.
///
/// On CPUs with AMX (Intel's since Sapphire Rapids, under Linux) weights in bf16 are multiplied in tiles: each element
/// of `x` is split into the sum of two bf16, with a relative error of at most 2^-17, and sums in f32 run in a different
/// order, with denormals treated as zero. So the last bits differ from those of other CPUs, but do not depend on `m`,
/// `n` or the number of threads.
///
/// # Panics
/// If the lengths do not fit together.
#[doc(alias = "matmul")]
#[doc(alias = "gemm")]
pub fn linear(x: &[f32], w: Weights<'_>, out: &mut [f32]) {
    linear_each(x, w.columns(), &mut [(w, out)]);
}

/// Multiplies the same rows of `k` by several matrices, like [`linear`] for each, but waits for threads only once.
///
/// # Panics
/// If the lengths do not fit together.
pub fn linear_each(x: &[f32], k: usize, parts: &mut [(Weights<'_>, &mut [f32])]) {
    assert!(k > 0 && x.len().is_multiple_of(k), "rows of {k} elements");
    let m = x.len() / k;
    let mut columns = 0;
    let mut bytes = 0;
    for (w, out) in &*parts {
        assert_eq!(w.columns(), k, "rows of {k} elements by rows of {} weights", w.columns());
        assert_eq!(out.len(), m * w.rows(), "the result of {m} rows by {} columns", w.rows());
        columns += w.rows();
        bytes += w.size();
    }
    if m == 0 {
        return;
    }
    let threads = pool::threads();
    let step = match bytes * m.div_ceil(8) < PARALLEL || threads == 1 {
        true => columns.max(1),
        // Several tasks per thread, so that a delayed thread leaves its tasks to the others.
        false => (columns / (8 * threads)).next_multiple_of(2 * PANEL).clamp(2 * PANEL, 16 * PANEL),
    };
    const MOST: usize = 4;
    assert!(parts.len() <= MOST, "at most {MOST} matrices");
    thread_local!(static PREPARED: Cell<[Prepared; MOST]> = Cell::default());
    let mut prepared = PREPARED.take();
    let formats: [Option<Format>; MOST] = std::array::from_fn(|i| parts.get(i).map(|(w, _)| w.format()));
    // Matrices in the same format share the prepared rows.
    let first = |i: usize| formats.iter().position(|format| *format == formats[i]).unwrap_or(i);
    for (i, prepared) in prepared.iter_mut().enumerate() {
        if let Some(format) = formats[i].filter(|_| first(i) == i) {
            prepared.set(x, k, format);
        }
    }
    let mut outs: [Option<(Weights<'_>, Input<'_>, Out<'_>)>; MOST] = [const { None }; MOST];
    for (i, (to, (w, out))) in outs.iter_mut().zip(parts).enumerate() {
        *to = Some((*w, prepared[first(i)].input(x, w.format()), Out::new(out, w.rows())));
    }
    pool::run(columns.div_ceil(step), &|task| {
        let mut all = task * step..((task + 1) * step).min(columns);
        for (w, rows, out) in outs.iter().flatten() {
            let n = w.rows();
            let own = all.start.min(n)..all.end.min(n);
            if !own.is_empty() {
                // SAFETY: the tasks have disjoint ranges of columns.
                unsafe { of_columns(*rows, *w, own, out) };
            }
            all = all.start.saturating_sub(n)..all.end.saturating_sub(n);
        }
    });
    PREPARED.set(prepared);
}

/// Allows or forbids tiles (AMX) in products, and returns whether the CPU has them. For benches: it changes the bits of
/// products with weights in bf16.
#[doc(hidden)]
#[cfg(amx)]
pub fn allow_tiles(allowed: bool) -> bool {
    Amx::allow(allowed)
}

/// Returns `false`: there are no tiles.
#[doc(hidden)]
#[cfg(not(amx))]
pub fn allow_tiles(_: bool) -> bool {
    false
}
