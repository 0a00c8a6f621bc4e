//! `out = x * w^T` for the few rows of a decoding step.

use rayon::prelude::*;

use crate::dispatch::dispatch;
use crate::simd::{LANES, Simd};

/// Multiplications below which one thread is faster than waking another.
const PARALLEL: usize = 1 << 19;

/// Rows of `w` that one task computes: a multiple of every tile.
const TASK: usize = 64;

/// Multiplies rows by a weight matrix: `out[i][j] = sum over c of x[i][c] * w[j][c]`.
///
/// Shapes, row by row: `x` is `m x k`, `w` is `n x k`, `out` is `m x n`. Each element is one sum over `c` in an
/// order that depends on `k` alone, so it has the same bits for every `m`, `n` and number of threads.
///
/// # Panics
/// If the lengths do not fit together.
pub fn linear(x: &[f32], w: &[f32], k: usize, out: &mut [f32]) {
    assert!(k > 0 && x.len().is_multiple_of(k) && w.len().is_multiple_of(k), "rows of {k} elements");
    let (m, n) = (x.len() / k, w.len() / k);
    assert_eq!(out.len(), m * n, "the result of {m} rows by {n} columns");
    if m * n * k < PARALLEL || n <= TASK || rayon::current_num_threads() == 1 {
        return columns(x, w, k, &mut split_rows(out, n));
    }
    // Each task owns some columns of every row.
    let tasks = n.div_ceil(TASK);
    let mut parts: Vec<Vec<&mut [f32]>> = (0..tasks).map(|_| Vec::with_capacity(m)).collect();
    for row in out.chunks_mut(n) {
        parts.iter_mut().zip(row.chunks_mut(TASK)).for_each(|(part, columns)| part.push(columns));
    }
    parts.par_iter_mut().zip(w.par_chunks(TASK * k)).for_each(|(part, w)| columns(x, w, k, part));
}

fn split_rows(out: &mut [f32], n: usize) -> Vec<&mut [f32]> {
    if n == 0 { Vec::new() } else { out.chunks_mut(n).collect() }
}

dispatch! {
    /// Some columns of every row, on this thread.
    fn columns(x: &[f32], w: &[f32], k: usize, out: &mut [&mut [f32]]) = columns_body
}

#[inline(always)]
fn columns_body<S: Simd>(unit: S, x: &[f32], w: &[f32], k: usize, out: &mut [&mut [f32]]) {
    let mut x = x;
    let mut out = out;
    while !out.is_empty() {
        let rows = out.len().min(4);
        let (head, tail) = x.split_at(rows * k);
        let (now, later) = out.split_at_mut(rows);
        match rows {
            1 => tiles::<S, 1, 8>(unit, head, w, k, now),
            2 => tiles::<S, 2, 4>(unit, head, w, k, now),
            3 => tiles::<S, 3, 4>(unit, head, w, k, now),
            _ => tiles::<S, 4, 4>(unit, head, w, k, now),
        }
        (x, out) = (tail, later);
    }
}

/// `M` rows against all columns, `N` columns at a time.
#[inline(always)]
fn tiles<S: Simd, const M: usize, const N: usize>(unit: S, x: &[f32], w: &[f32], k: usize, out: &mut [&mut [f32]]) {
    let columns = w.len() / k;
    let whole = columns - columns % N;
    for j in (0..whole).step_by(N) {
        tile::<S, M, N>(unit, x, &w[j * k..(j + N) * k], k, j, out);
    }
    for j in whole..columns {
        tile::<S, M, 1>(unit, x, &w[j * k..(j + 1) * k], k, j, out);
    }
}

/// `M` rows against `N` columns: their sums stay in registers.
#[inline(always)]
fn tile<S: Simd, const M: usize, const N: usize>(
    unit: S,
    x: &[f32],
    w: &[f32],
    k: usize,
    j: usize,
    out: &mut [&mut [f32]],
) {
    let chunks = k / LANES;
    let x: [_; M] = std::array::from_fn(|i| x[i * k..(i + 1) * k].as_chunks::<LANES>());
    let w: [_; N] = std::array::from_fn(|i| w[i * k..(i + 1) * k].as_chunks::<LANES>());
    let (x_rest, w_rest) = (x.map(|x| x.1), w.map(|w| w.1));
    let (x, w) = (x.map(|x| &x.0[..chunks]), w.map(|w| &w.0[..chunks]));
    let mut sums = [[unit.zero(); N]; M];
    for c in 0..chunks {
        let w: [_; N] = std::array::from_fn(|b| unit.load(&w[b][c]));
        for a in 0..M {
            let x = unit.load(&x[a][c]);
            for b in 0..N {
                sums[a][b] = unit.fma(x, w[b], sums[a][b]);
            }
        }
    }
    for a in 0..M {
        for b in 0..N {
            out[a][j + b] = unit.finish(sums[a][b], x_rest[a], w_rest[b]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;
    use verdigris_logits::{Purpose, Random};

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 2.0 - 1.0).collect()
    }

    /// Every shape of tile and remainder, the wide path and the plain one, one thread and many: the same bits,
    /// and those within rounding of the sum in f64.
    #[test]
    fn every_path_gives_the_same_bits_and_they_are_right() {
        for k in [1, 15, 16, 17, 64, 100, 256] {
            for n in [1, 3, 8, 65, 300] {
                let w = noise(n * k, 1);
                let x = noise(11 * k, 2);
                let mut rows = Vec::new();
                for row in x.chunks(k) {
                    let mut one = vec![0.0; n];
                    linear(row, &w, k, &mut one);
                    rows.extend(one);
                }
                for m in 1..=11 {
                    let mut out = vec![f32::NAN; m * n];
                    linear(&x[..m * k], &w, k, &mut out);
                    assert_eq!(out, rows[..m * n], "m {m} n {n} k {k}");
                    let mut plain = vec![f32::NAN; m * n];
                    columns_body(Portable, &x[..m * k], &w, k, &mut split_rows(&mut plain, n));
                    assert_eq!(plain, out, "without SIMD: m {m} n {n} k {k}");
                }
                for (i, row) in x.chunks(k).enumerate() {
                    for (j, w) in w.chunks(k).enumerate() {
                        let exact: f64 = row.iter().zip(w).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                        let scale: f64 = row.iter().zip(w).map(|(a, b)| f64::from(a * b).abs()).sum();
                        assert!((f64::from(rows[i * n + j]) - exact).abs() <= 1e-6 * scale + 1e-12);
                        assert_eq!(Portable.dot(row, w), rows[i * n + j]);
                    }
                }
            }
        }
    }

    #[test]
    fn large_enough_for_threads() {
        let (m, n, k) = (3, 2000, 256);
        let (x, w) = (noise(m * k, 3), noise(n * k, 4));
        assert!(m * n * k >= PARALLEL);
        let mut threaded = vec![0.0; m * n];
        linear(&x, &w, k, &mut threaded);
        let mut single = vec![0.0; m * n];
        columns(&x, &w, k, &mut split_rows(&mut single, n));
        assert_eq!(threaded, single);
    }
}
