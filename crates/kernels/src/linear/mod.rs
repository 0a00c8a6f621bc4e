//! `out = x * w^T` for the few rows of a decoding step, and for the many of a prompt.

mod columns;
mod prepared;
#[cfg(test)]
mod tests;
mod tiles;

use std::cell::Cell;

#[cfg(amx)]
use crate::amx::Amx;
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
    linear_all(w.columns(), &mut [Product { x, w, out }]);
}

/// A product of rows with a matrix: see [`linear`].
#[derive(Debug)]
pub struct Product<'a> {
    /// The rows.
    pub x: &'a [f32],
    /// The matrix.
    pub w: Weights<'a>,
    /// The result.
    pub out: &'a mut [f32],
}

/// Computes several products of rows of `k`, like [`linear`] for each, but waits for threads only once. Products with
/// the same rows share what is computed from the rows alone if they follow each other.
///
/// # Panics
/// If the lengths do not fit together.
pub fn linear_all(k: usize, products: &mut [Product<'_>]) {
    let (mut columns, mut work) = (0, 0);
    for Product { x, w, out } in &*products {
        assert!(k > 0 && x.len().is_multiple_of(k), "rows of {k} elements");
        let m = x.len() / k;
        assert_eq!(w.columns(), k, "rows of {k} elements by rows of {} weights", w.columns());
        assert_eq!(out.len(), m * w.rows(), "the result of {m} rows by {} columns", w.rows());
        columns += w.rows();
        work += w.size() * m.div_ceil(8);
    }
    if work == 0 {
        return;
    }
    let threads = pool::threads();
    let step = match work < PARALLEL || threads == 1 {
        true => columns.max(1),
        // Several tasks per thread, so that a delayed thread leaves its tasks to the others.
        false => (columns / (8 * threads)).next_multiple_of(2 * PANEL).clamp(2 * PANEL, 16 * PANEL),
    };
    thread_local!(static PREPARED: Cell<(Vec<Prepared>, Vec<usize>)> = Cell::default());
    let (mut prepared, mut sources) = PREPARED.take();
    // Products with the same rows, and with matrices in the same format, share the prepared rows.
    sources.clear();
    for (i, Product { x, w, .. }) in products.iter().enumerate() {
        let before = products[..i].iter().rposition(|other| !std::ptr::eq(other.x, *x)).map_or(0, |at| at + 1);
        let same = (before..i).find(|&other| products[other].w.format() == w.format());
        if i == prepared.len() {
            prepared.push(Prepared::default());
        }
        if same.is_none() {
            prepared[i].set(x, k, w.format());
        }
        sources.push(same.unwrap_or(i));
    }
    // A layer without experts has a few products, for which no memory is allocated.
    const FEW: usize = 4;
    type Task<'a> = Option<(Weights<'a>, Input<'a>, Out<'a>)>;
    let (mut few, mut many): ([Task<'_>; FEW], Vec<Task<'_>>) = ([const { None }; FEW], Vec::new());
    let outs = if products.len() <= FEW {
        &mut few[..products.len()]
    } else {
        many.resize_with(products.len(), || None);
        &mut many[..]
    };
    for ((to, Product { x, w, out }), &source) in outs.iter_mut().zip(products).zip(&sources) {
        *to = (!x.is_empty()).then(|| (*w, prepared[source].input(x, w.format()), Out::new(out, w.rows())));
    }
    let outs = &*outs;
    let columns = outs.iter().flatten().map(|(w, ..)| w.rows()).sum::<usize>();
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
            if all.is_empty() {
                break;
            }
        }
    });
    PREPARED.set((prepared, sources));
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
