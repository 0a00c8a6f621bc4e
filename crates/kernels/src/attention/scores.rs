//! Products of queries with the keys of a block.
//!
//! Each is a sum over sixteen lanes: lane `l` sums the elements `l`, `l + 16` and so on in order, and the lanes are
//! halved four times at the end. With few rows, a register holds sixteen elements of a key, and the lanes of sixteen
//! sums are folded together. With many rows, it holds one element of sixteen keys, which are transposed for this: sums
//! need no folding, and are added in the same order.

use super::BLOCK;
use super::rows::{Numbers, Rows};
use crate::bytewise::{Body, Bytewise};
use crate::simd::{self, LANES, Simd};

/// The number of rows from which transposing keys takes less time than folding sums.
const MANY: usize = if cfg!(miri) { 4 } else { 16 };

/// The most rows that share the loads of a key.
const FEW_ROWS: usize = 6;

/// The most rows that share the loads of an element of sixteen keys.
const MANY_ROWS: usize = 4;

/// Writes the products of some rows of `width` with sixteen keys. Rows of the result are [`BLOCK`] long; the first
/// sixteen numbers of each are written.
#[inline(always)]
pub(super) fn score<S: Bytewise>(
    unit: S,
    queries: &[f32],
    keys: &[f32],
    width: usize,
    turned: &mut [f32],
    out: &mut [f32],
) {
    let (rows, mut row) = (queries.len() / width, 0);
    if rows >= MANY {
        transpose(unit, keys, width, turned);
        while row < rows {
            let (queries, out) = (&queries[row * width..], &mut out[row * BLOCK..]);
            row += match (rows - row, S::IS_WIDE) {
                (MANY_ROWS.., true) => run(unit, Turned::<MANY_ROWS> { queries, keys: turned, width, out }, MANY_ROWS),
                _ => run(unit, Turned::<1> { queries, keys: turned, width, out }, 1),
            };
        }
        return;
    }
    score_few(unit, queries, Numbers { numbers: keys, width }, width, out);
}

/// Like `score`, for keys from any source, which are read once per [`FEW_ROWS`] rows.
#[inline(always)]
pub(super) fn score_few<S: Bytewise, R: Rows>(unit: S, queries: &[f32], keys: R, width: usize, out: &mut [f32]) {
    let (rows, mut row) = (queries.len() / width, 0);
    while row < rows {
        let (queries, out) = (&queries[row * width..], &mut out[row * BLOCK..]);
        row += match (rows - row, S::IS_WIDE) {
            (1, _) | (_, false) => run(unit, Folded::<R, 1> { queries, keys, width, out }, 1),
            (2, true) => run(unit, Folded::<R, 2> { queries, keys, width, out }, 2),
            (3, true) => run(unit, Folded::<R, 3> { queries, keys, width, out }, 3),
            (4, true) => run(unit, Folded::<R, 4> { queries, keys, width, out }, 4),
            (5, true) => run(unit, Folded::<R, 5> { queries, keys, width, out }, 5),
            (_, true) => run(unit, Folded::<R, FEW_ROWS> { queries, keys, width, out }, FEW_ROWS),
        };
    }
}

#[inline(always)]
fn run<S: Bytewise>(unit: S, tile: impl Body, rows: usize) -> usize {
    unit.run(tile);
    rows
}

/// Transposes sixteen keys to `width x 16`.
#[inline(always)]
fn transpose<S: Simd>(unit: S, keys: &[f32], width: usize, out: &mut [f32]) {
    for (step, out) in out.chunks_exact_mut(LANES * LANES).take(width / LANES).enumerate() {
        let mut square = [unit.zero(); LANES];
        for (lanes, key) in square.iter_mut().zip(keys.chunks_exact(width)) {
            // SAFETY: a key is `width` numbers.
            *lanes = unsafe { load(unit, key, step * LANES) };
        }
        simd::transpose(unit, &mut square);
        for (out, lanes) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(square) {
            *out = unit.store(lanes);
        }
    }
}

/// Loads sixteen numbers from index `at`.
///
/// # Safety
/// They are in the slice.
#[inline(always)]
unsafe fn load<S: Simd>(unit: S, from: &[f32], at: usize) -> S::Lanes {
    debug_assert!(at + LANES <= from.len());
    // SAFETY: upheld by the caller; an array of numbers has the alignment of one.
    unit.load(unsafe { &*from.as_ptr().add(at).cast() })
}

/// `M` rows times sixteen keys.
struct Folded<'a, R, const M: usize> {
    queries: &'a [f32],
    keys: R,
    width: usize,
    out: &'a mut [f32],
}

impl<R: Rows, const M: usize> Body for Folded<'_, R, M> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self { queries, keys, width, out } = self;
        assert!(queries.len() >= M * width && keys.reach(LANES, width), "{M} rows, sixteen keys");
        let mut fours = [[unit.zero(); 4]; M];
        // With this order, folding leaves the keys in their original order.
        let orders = [[0, 8, 4, 12], [2, 10, 6, 14], [1, 9, 5, 13], [3, 11, 7, 15]];
        for (at, order) in orders.into_iter().enumerate() {
            let mut sums = [[unit.zero(); 4]; M];
            for part in 0..width / (R::LANES * LANES) {
                let [a, b, c, d] = order;
                // SAFETY: there are sixteen keys of `width`, which is whole parts.
                let parts = unsafe {
                    [
                        keys.part(unit, a, part),
                        keys.part(unit, b, part),
                        keys.part(unit, c, part),
                        keys.part(unit, d, part),
                    ]
                };
                for i in 0..R::LANES {
                    for (row, sums) in sums.iter_mut().enumerate() {
                        // SAFETY: there are `M` rows of `width`.
                        let query = unsafe { load(unit, queries, row * width + (part * R::LANES + i) * LANES) };
                        for (sum, part) in sums.iter_mut().zip(&parts) {
                            *sum = unit.fma(query, part.as_ref()[i], *sum);
                        }
                    }
                }
            }
            for (fours, [a, b, c, d]) in fours.iter_mut().zip(sums) {
                fours[at] = unit.fold::<4>(unit.fold::<8>(a, b), unit.fold::<8>(c, d));
            }
        }
        for (row, [a, b, c, d]) in fours.into_iter().enumerate() {
            let sums = unit.fold::<1>(unit.fold::<2>(a, b), unit.fold::<2>(c, d));
            out[row * BLOCK..][..LANES].copy_from_slice(&unit.store(sums));
        }
    }
}

/// `M` rows times sixteen transposed keys.
struct Turned<'a, const M: usize> {
    queries: &'a [f32],
    keys: &'a [f32],
    width: usize,
    out: &'a mut [f32],
}

impl<const M: usize> Body for Turned<'_, M> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self { queries, keys, width, out } = self;
        assert!(queries.len() >= M * width && keys.len() >= width * LANES && width.is_multiple_of(LANES));
        // The lanes of the sum are added in halves: 0 and 8, 4 and 12, and so on.
        let mut sums = [unit.zero(); M];
        for half in 0..2 {
            let mut quarter = [unit.zero(); M];
            for at in 0..2 {
                let lane = half + 2 * at;
                // SAFETY: the lengths were checked.
                let (first, second) = unsafe {
                    let first = pair::<S, M>(unit, queries, keys, width, lane);
                    (first, pair::<S, M>(unit, queries, keys, width, lane + 4))
                };
                for row in 0..M {
                    let sum = unit.add(first[row], second[row]);
                    quarter[row] = if at == 0 { sum } else { unit.add(quarter[row], sum) };
                }
            }
            for row in 0..M {
                sums[row] = if half == 0 { quarter[row] } else { unit.add(sums[row], quarter[row]) };
            }
        }
        for (row, sum) in sums.into_iter().enumerate() {
            out[row * BLOCK..][..LANES].copy_from_slice(&unit.store(sum));
        }
    }
}

/// The sums of lanes `lane` and `lane + 8`, for `M` rows.
///
/// # Safety
/// There are `M` rows of `width`, and `width` rows of sixteen keys.
#[inline(always)]
unsafe fn pair<S: Simd, const M: usize>(
    unit: S,
    queries: &[f32],
    keys: &[f32],
    width: usize,
    lane: usize,
) -> [S::Lanes; M] {
    let (mut first, mut second) = ([unit.zero(); M], [unit.zero(); M]);
    for element in (lane..width).step_by(LANES) {
        // SAFETY: `width` is whole lanes, so both elements exist.
        let lanes = unsafe { [load(unit, keys, element * LANES), load(unit, keys, (element + 8) * LANES)] };
        for (row, (first, second)) in first.iter_mut().zip(&mut second).enumerate() {
            // SAFETY: as above.
            let queries = unsafe { queries.get_unchecked(row * width + element..).get_unchecked(..9) };
            *first = unit.fma(unit.splat(queries[0]), lanes[0], *first);
            *second = unit.fma(unit.splat(queries[8]), lanes[1], *second);
        }
    }
    for (first, second) in first.iter_mut().zip(second) {
        *first = unit.add(*first, second);
    }
    first
}
