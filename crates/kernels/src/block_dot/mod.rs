//! Integer products of rows with weights in blocks; the rows are rounded to eight bits first.
//!
//! A row is split into blocks of 32 like the weights, each with a scale and integers from -127 to 127. Within a block
//! the product is exact; blocks are added in f32 one after the other, so a sum has the same bits on every unit.
//! (llama.cpp rounds rows as well, for some formats with one scale for 256.)
//!
//! Sixteen columns are computed together, one lane each: decoded weights serve all rows, and no lanes need adding up at
//! the end.

mod columns;
mod formats;
mod rows;
#[cfg(amx)]
mod tiles;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use crate::bytewise::{Body, Bytewise};
use crate::out::Out;
use crate::simd::{LANES, LINE};
use crate::weights::Weights;
use columns::Columns;
use formats::{BlockDot, most};
use rows::{BLOCK, Block, excess};

pub(crate) use rows::QuantizedRows;

/// `M` rows times sixteen columns of weights, `stride` bytes apart, with sums in registers.
#[inline(always)]
fn tile<S: Bytewise, F: BlockDot, const M: usize>(
    unit: S,
    x: [&[Block]; M],
    w: &[u8],
    stride: usize,
    k: usize,
) -> [S::Lanes; M] {
    let (stored, bytes) = (F::LAYOUT.block, F::LAYOUT.bytes);
    assert!(x.iter().all(|x| x.len() == k / BLOCK), "rows of {k}");
    let mut sums = [unit.zero(); M];
    let most = const { most::<F>(M) };
    // The next sixteen columns, of which each group prefetches as many bytes as it reads. A CPU fetches some twenty
    // lines at a time, so those of a group are spread over its parts.
    let soon = w.as_ptr().wrapping_add(LANES * stride);
    for group in 0..k / stored {
        let (at, lines) = (group * LANES * bytes, (LANES * bytes).div_ceil(LINE));
        let columns = Columns::new(&w[group * bytes..], stride, bytes);
        let head = F::header(unit, columns);
        for part in 0..F::PARTS {
            for line in part * lines / F::PARTS..(part + 1) * lines / F::PARTS {
                unit.prefetch(soon.wrapping_add(at + line * LINE));
            }
            let mut weights = F::weights(unit, columns, &head, part);
            if F::IS_SIGNED {
                for weights in &mut weights[..8 * F::BLOCKS] {
                    *weights = unit.bias(*weights);
                }
            }
            for block in 0..F::BLOCKS {
                let place = F::place(part, block);
                let weights = &weights[8 * block..8 * block + 8];
                let at = group * (stored / BLOCK) + place;
                for half in 0..1 + usize::from(F::HAS_HALVES) {
                    let (place, weights) = match F::HAS_HALVES {
                        true => (2 * place + half, &weights[4 * half..4 * half + 4]),
                        false => (place, weights),
                    };
                    let scale = F::scale(unit, &head, place);
                    let least = if F::HAS_LEAST { F::least(unit, &head, place) } else { unit.zero() };
                    for a in 0..M {
                        // SAFETY: rows have the blocks of `k` elements, of which `at` is one.
                        let x = unsafe { x[a].get_unchecked(at) };
                        sums[a] = add::<S, F>(unit, x, half, (weights, most), scale, least, sums[a]);
                    }
                }
            }
        }
    }
    sums
}

/// Adds the products of a row with 16 or 32 weights of each column, of at most some size.
#[inline(always)]
fn add<S: Bytewise, F: BlockDot>(
    unit: S,
    x: &Block,
    half: usize,
    (weights, most): (&[S::Ints], u8),
    scale: S::Lanes,
    least: S::Lanes,
    sum: S::Lanes,
) -> S::Lanes {
    let needs_start = excess(F::LAYOUT.numbers) > 0 && (S::IS_BIASED || !F::IS_SIGNED);
    let start = unit.word(if needs_start { x.sums[half] } else { 0 });
    let numbers = &x.numbers[4 * half..4 * half + weights.len()];
    let products = match F::IS_SIGNED {
        true => unit.dot_bytes::<true>(weights, numbers, most, start),
        false => unit.dot_bytes::<false>(weights, numbers, most, start),
    };
    let sum = unit.fma(unit.float(products), unit.mul(scale, unit.splat(x.scale)), sum);
    match F::HAS_LEAST {
        true => unit.fma(unit.splat(f32::from_bits(x.sums[half])), least, sum),
        false => sum,
    }
}

/// The bytes of `count` columns from `from`, padded to sixteen with zeros, which also makes the scales zero.
#[inline(always)]
fn sixteen_columns<'a>(w: Weights<'a>, from: usize, count: usize, padded: &'a mut Vec<u8>) -> &'a [u8] {
    let bytes = w.rows_from(from, count);
    if count == LANES {
        return bytes;
    }
    padded.clear();
    padded.extend_from_slice(bytes);
    padded.resize(LANES * w.stride(), 0);
    padded
}

/// Multiplies every row by some columns of weights in blocks.
///
/// # Safety
/// No other thread writes these columns.
#[inline(always)]
pub(crate) unsafe fn dot_blocks<S: Bytewise, F: BlockDot>(
    unit: S,
    x: &QuantizedRows,
    w: Weights<'_>,
    columns: Range<usize>,
    out: &Out<'_>,
) {
    let (m, mut row) = (x.rows(), 0);
    #[cfg(amx)]
    if let Some(amx) = unit.amx().filter(|_| m >= tiles::FROM) {
        return unit.run(tiles::BlockTiles::<F> { amx, x, w, columns, out, of: PhantomData });
    }
    while row < m {
        let run = BlockRun { x, w, from: columns.start, to: columns.end, row, out };
        row += match (m - row, S::IS_WIDE) {
            (1, _) => run.run::<S, F, 1>(unit),
            (2, _) => run.run::<S, F, 2>(unit),
            (3 | 4, true) | (_, false) => run.run::<S, F, 4>(unit),
            (_, true) => run.run::<S, F, 8>(unit),
        };
    }
}

/// A run of tiles: the rows from `row` on, times the columns `from..to` of the weights.
#[derive(Clone, Copy)]
struct BlockRun<'a> {
    x: &'a QuantizedRows,
    w: Weights<'a>,
    from: usize,
    to: usize,
    row: usize,
    out: &'a Out<'a>,
}

impl BlockRun<'_> {
    /// Multiplies up to `M` rows by all columns; returns the number of rows.
    #[inline(always)]
    fn run<S: Bytewise, F: BlockDot, const M: usize>(self, unit: S) -> usize {
        unit.run(BlockTiles::<F, M>(self, PhantomData));
        M.min(self.x.rows() - self.row)
    }
}

struct BlockTiles<'a, F, const M: usize>(BlockRun<'a>, PhantomData<F>);

impl<F: BlockDot, const M: usize> Body for BlockTiles<'_, F, M> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self(BlockRun { x, w, from, to, row, out }, _) = self;
        let (rows, k) = (M.min(x.rows() - row), w.columns());
        // If there are fewer rows, the last one is repeated.
        let mut of_row: [&[Block]; M] = [&[]; M];
        for (a, of_row) in of_row.iter_mut().enumerate() {
            *of_row = x.row(row + a.min(rows - 1));
        }
        thread_local!(static PADDED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
        let mut padded = PADDED.take();
        for j in (from..to).step_by(LANES) {
            let count = LANES.min(to - j);
            let bytes = sixteen_columns(w, j, count, &mut padded);
            let sums = tile::<S, F, M>(unit, of_row, bytes, w.stride(), k);
            for (a, &sums) in sums[..rows].iter().enumerate() {
                // SAFETY: these columns belong to this task, as the caller of `of_columns` promised.
                unsafe { out.set_lanes(row + a, j, &unit.store(sums), count) };
            }
        }
        PADDED.set(padded);
    }
}
