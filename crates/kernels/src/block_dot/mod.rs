//! Products of rows with weights in blocks: as whole numbers, after the rows have been rounded to eight bits too.
//!
//! A row is cut into blocks of 32 as the weights are, and each becomes a scale and whole numbers from -127 to 127.
//! Within a block the product is exact; blocks are added in f32, lane by lane, in an order that depends on the length
//! of the row alone. (llama.cpp rounds rows as well, for some formats with one scale for 256.)

mod formats;

use std::marker::PhantomData;
use std::ops::Range;

use crate::bytewise::{BYTES, Body, Bytewise};
use crate::format::Format;
use crate::out::Out;
use crate::simd::LANES;
use crate::weights::Weights;

pub(crate) use formats::{BlockDot, Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// Elements of a row that are worked on together: two blocks.
const STEP: usize = BYTES;

/// Steps for which a row keeps sums of blocks together.
const SUMS: usize = 4;

/// Two blocks of a row.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct TwoBlocks {
    numbers: [u8; STEP],
    /// For each four of them, their sum times what a format has taken from weights; or their sum, where each 32 or 16
    /// weights have a least one of their own.
    start: [i32; LANES],
    /// The scale of the first block in eight lanes, that of the second in the others.
    scale: [f32; LANES],
}

/// Rows as whole numbers.
#[derive(Debug, Default)]
pub(crate) struct QuantizedRows {
    steps: Vec<TwoBlocks>,
    /// For each four steps in eight lanes, from the eighth on, the sums of their blocks: what offsets of weights are
    /// multiplied by.
    sums: Vec<[f32; LANES]>,
    /// Steps of a row.
    a_row: usize,
}

impl QuantizedRows {
    /// Rounds rows of `k`, which are whole blocks, for weights in a format.
    pub(crate) fn set(&mut self, x: &[f32], k: usize, format: Format) {
        let less = match format {
            Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs | Format::Mxfp4 => 128,
            Format::Q6K => 32,
            Format::Q5_0 => 16,
            Format::Q4_0 => 8,
            Format::Q3K => 4,
            // The sums themselves.
            Format::Q4_1 | Format::Q5_1 | Format::Q2K => -1,
            _ => 0,
        };
        self.a_row = k.div_ceil(STEP);
        self.steps.clear();
        self.sums.clear();
        for row in x.chunks_exact(k) {
            for two in row.chunks(STEP) {
                self.steps.push(step(two, less));
            }
            for steps in self.steps[self.steps.len() - self.a_row..].chunks(SUMS) {
                let mut sums = [0.0; LANES];
                for (step, sums) in steps.iter().zip(sums[8..].chunks_exact_mut(2)) {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let all: i32 = step.numbers[32 * i..32 * i + 32].iter().map(|&q| i32::from(q as i8)).sum();
                        *sum = step.scale[8 * i] * all as f32;
                    }
                }
                self.sums.push(sums);
            }
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.steps.len() / self.a_row.max(1)
    }

    /// The elements of a row again, as the products see them.
    #[cfg(test)]
    pub(crate) fn numbers(&self, row: usize) -> Vec<f64> {
        let steps = &self.steps[row * self.a_row..(row + 1) * self.a_row];
        let number = |step: &TwoBlocks, i: usize| f64::from(step.numbers[i] as i8) * f64::from(step.scale[i / 4]);
        steps.iter().flat_map(|step| (0..STEP).map(|i| number(step, i)).collect::<Vec<_>>()).collect()
    }
}

/// One or two blocks.
fn step(two: &[f32], less: i32) -> TwoBlocks {
    let mut step = TwoBlocks { numbers: [0; STEP], start: [0; LANES], scale: [0.0; LANES] };
    for (i, block) in two.chunks_exact(32).enumerate() {
        let block: &[f32; 32] = block.try_into().expect("a block");
        let mut most = [0f32; 8];
        // No number, once there is one that is none.
        let mut harm = [0f32; 8];
        for eight in block.as_chunks::<8>().0 {
            for l in 0..8 {
                most[l] = most[l].max(eight[l].abs());
                harm[l] += eight[l] * 0.0;
            }
        }
        let most = most.into_iter().fold(0f32, f32::max);
        let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
        // Too small for an inverse: then they are nothing.
        let inverse = if inverse.is_finite() { inverse } else { 0.0 };
        // Added to a number of this size, what is behind the point is rounded away, and the number stands in the lowest
        // bits.
        const ROUND: f32 = 12_582_912.0;
        for (q, x) in step.numbers[32 * i..32 * i + 32].iter_mut().zip(block) {
            *q = (x * inverse + ROUND).to_bits() as u8;
        }
        step.scale[8 * i..8 * i + 8].fill(most / 127.0 + harm.iter().sum::<f32>());
    }
    for (start, four) in step.start.iter_mut().zip(step.numbers.chunks_exact(4)) {
        *start = -less * four.iter().map(|&q| i32::from(q as i8)).sum::<i32>();
    }
    step
}

/// `M` rows from `row` on against a column of weights, with sums in registers; of the rows there are `rows`, and where
/// that is less the last one is computed again.
#[inline(always)]
fn tile<S: Bytewise, F: BlockDot, const M: usize>(
    unit: S,
    x: &QuantizedRows,
    row: usize,
    rows: usize,
    w: &[u8],
    k: usize,
) -> [f32; M] {
    let (all, whole) = (x.a_row, k / STEP);
    let sums_a_row = all.div_ceil(SUMS);
    let mut of_row: [&[TwoBlocks]; M] = [&[]; M];
    let mut sums_of_row: [&[[f32; LANES]]; M] = [&[]; M];
    for a in 0..M {
        let at = row + a.min(rows - 1);
        of_row[a] = &x.steps[at * all..(at + 1) * all];
        sums_of_row[a] = &x.sums[at * sums_a_row..(at + 1) * sums_a_row];
    }
    let mut sums = [unit.zero(); M];
    for (group, bytes) in w.chunks_exact(F::BYTES).enumerate() {
        let head = F::header(unit, bytes);
        for step in 0..F::STEPS {
            let (weights, scales) = F::step(unit, bytes, head, step);
            let least = if F::HAS_LEAST { F::least(unit, bytes, head, step) } else { unit.zero() };
            for a in 0..M {
                sums[a] = add::<S, F>(unit, &of_row[a][group * F::STEPS + step], (weights, scales, least), sums[a]);
            }
        }
        if F::HAS_OFFSETS {
            let offsets = F::offsets(unit, head);
            for a in 0..M {
                sums[a] = unit.fma(unit.load(&sums_of_row[a][group]), offsets, sums[a]);
            }
        }
    }
    if all > whole {
        let bytes = &w[whole * F::BYTES..];
        let (weights, scales) = F::last(unit, bytes);
        let least = if F::HAS_LEAST { F::last_least(unit, bytes) } else { unit.zero() };
        for a in 0..M {
            sums[a] = add::<S, F>(unit, &of_row[a][whole], (weights, scales, least), sums[a]);
        }
    }
    let mut out = [0.0; M];
    for a in 0..M {
        out[a] = unit.finish(sums[a], &[], &[]);
    }
    out
}

#[inline(always)]
fn add<S: Bytewise, F: BlockDot>(
    unit: S,
    x: &TwoBlocks,
    (weights, scales, least): (S::Bytes, S::Lanes, S::Lanes),
    sum: S::Lanes,
) -> S::Lanes {
    let start = if F::HAS_START { unit.ints(&x.start) } else { unit.ints(&[0; LANES]) };
    let products = F::dot(unit, weights, unit.bytes64(&x.numbers), start);
    let scale = unit.load(&x.scale);
    let sum = unit.fma(unit.float(products), unit.mul(scales, scale), sum);
    if !F::HAS_LEAST {
        return sum;
    }
    unit.fma(unit.float(unit.ints(&x.start)), unit.mul(least, scale), sum)
}

/// Every row against some columns of weights in blocks.
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
    while row < m {
        let run = BlockRun { x, w, from: columns.start, to: columns.end, row, out };
        // A column at a time: its bytes come from memory in the order in which memory expects to be asked for them.
        row += match (m - row, S::IS_WIDE) {
            (1, _) => run.run::<S, F, 1>(unit),
            (2, _) => run.run::<S, F, 2>(unit),
            (3, true) => run.run::<S, F, 3>(unit),
            (4, true) | (_, false) => run.run::<S, F, 4>(unit),
            (5 | 6, true) => run.run::<S, F, 6>(unit),
            (_, true) => run.run::<S, F, 8>(unit),
        };
    }
}

/// Where a run of tiles stands: the rows from `row` on, against columns of the weights from one to before another.
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
    /// Up to `M` rows against all columns; gives how many rows there were.
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
        let rows = M.min(x.rows() - row);
        for j in from..to {
            let sums = tile::<S, F, M>(unit, x, row, rows, w.rows_from(j, 1), w.columns());
            for (a, &sum) in sums[..rows].iter().enumerate() {
                // SAFETY: these columns are this task's, as whoever called `of_columns` has promised.
                unsafe { out.set(row + a, j, sum) };
            }
        }
    }
}
