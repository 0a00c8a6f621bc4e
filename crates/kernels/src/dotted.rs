//! Products of rows with weights in blocks: as whole numbers, after the rows have been rounded to eight bits too.
//!
//! A row is cut into blocks of 32 as the weights are, and each becomes a scale and whole numbers from -127 to 127. Within a block the
//! product is exact; blocks are added in f32, lane by lane, in an order that depends on the length of the row alone. (llama.cpp rounds
//! rows as well, for some formats with one scale for 256.)

use std::marker::PhantomData;
use std::ops::Range;

use crate::bytewise::{BYTES, Bytewise};
use crate::linear::{Out, Weights};
use crate::simd::{Body, LANES};
use crate::stored::{Format, at};

/// Elements of a row that are worked on together: two blocks.
const STEP: usize = BYTES;

/// Steps for which a row keeps sums of blocks together.
const SUMS: usize = 4;

/// Two blocks of a row.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Step {
    numbers: [u8; STEP],
    /// For each four of them, their sum times what formats have taken from weights.
    start: [i32; LANES],
    /// The scale of the first block in eight lanes, that of the second in the others.
    scale: [f32; LANES],
}

/// Rows as whole numbers.
#[derive(Debug, Default)]
pub(crate) struct Rounded {
    steps: Vec<Step>,
    /// For each four steps in eight lanes, from the eighth on, the sums of their blocks: what offsets of weights are multiplied by.
    sums: Vec<[f32; LANES]>,
    /// Steps of a row.
    a_row: usize,
}

impl Rounded {
    /// Rounds rows of `k`, which are whole blocks, for weights in a format.
    pub(crate) fn set(&mut self, x: &[f32], k: usize, format: Format) {
        let less = match format {
            Format::Q8_0 => 128,
            Format::Q6K => 32,
            Format::Q4_0 => 8,
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
        let number = |step: &Step, i: usize| f64::from(step.numbers[i] as i8) * f64::from(step.scale[i / 4]);
        steps.iter().flat_map(|step| (0..STEP).map(|i| number(step, i)).collect::<Vec<_>>()).collect()
    }
}

/// One or two blocks.
fn step(two: &[f32], less: i32) -> Step {
    let mut step = Step { numbers: [0; STEP], start: [0; LANES], scale: [0.0; LANES] };
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
        // Added to a number of this size, what is behind the point is rounded away, and the number stands in the lowest bits.
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

/// A format of blocks, for a kernel that is compiled for it.
///
/// # Contract
/// The weights of a group are those of its steps, in order.
pub(crate) trait Dotted {
    /// Steps whose bytes lie together.
    const STEPS: usize;
    const BYTES: usize;
    /// Whether weights have offsets.
    const HAS_OFFSETS: bool = false;
    /// Whether weights were larger before they were stored, or units need it.
    const HAS_START: bool = true;
    /// What the steps of a group share.
    type Head<S: Bytewise>: Copy;

    fn head<S: Bytewise>(unit: S, bytes: &[u8]) -> Self::Head<S>;

    /// The weights of a step, and for each lane what their products are multiplied by.
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: Self::Head<S>, step: usize) -> (S::Bytes, S::Lanes);

    /// As [`Dotted::step`], where a row ends after the first block.
    fn last<S: Bytewise>(_unit: S, _bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        unreachable!("rows are whole groups")
    }

    /// The products of a step.
    fn dot<S: Bytewise>(unit: S, weights: S::Bytes, numbers: S::Bytes, start: S::Ints) -> S::Ints {
        unit.dot_small(weights, numbers, start)
    }

    /// What the sums of a row's blocks are multiplied by, in the lanes in which they are.
    fn offsets<S: Bytewise>(_: S, _: Self::Head<S>) -> S::Lanes {
        unreachable!("weights without offsets")
    }
}

pub(crate) struct Q8_0;
pub(crate) struct Q4_0;
pub(crate) struct Q4K;
pub(crate) struct Q6K;

impl Dotted for Q8_0 {
    const STEPS: usize = 1;
    const BYTES: usize = 68;
    type Head<S: Bytewise> = ();

    #[inline(always)]
    fn head<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 34)));
        (unit.join(at(bytes, 2), at(bytes, 36)), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        (unit.join(at(bytes, 2), &[0; 32]), unit.halves(unit.half(*at(bytes, 0)), 0.0))
    }

    #[inline(always)]
    fn dot<S: Bytewise>(unit: S, weights: S::Bytes, numbers: S::Bytes, start: S::Ints) -> S::Ints {
        unit.dot_signed(weights, numbers, start)
    }
}

impl Q4_0 {
    /// Sixteen bytes twice: of the second the upper halves will be taken.
    #[inline(always)]
    fn twice(bytes: &[u8; 16]) -> [u8; 32] {
        let mut out = [0; 32];
        out[..16].copy_from_slice(bytes);
        out[16..].copy_from_slice(bytes);
        out
    }
}

impl Dotted for Q4_0 {
    const STEPS: usize = 1;
    const BYTES: usize = 36;
    type Head<S: Bytewise> = ();

    #[inline(always)]
    fn head<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 18)));
        let pairs = unit.join(&Self::twice(at(bytes, 2)), &Self::twice(at(bytes, 20)));
        (unit.shift_and(pairs, [0, 4, 0, 4], 15), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let pairs = unit.join(&Self::twice(at(bytes, 2)), &[0; 32]);
        (unit.shift_and(pairs, [0, 4, 0, 4], 15), unit.halves(unit.half(*at(bytes, 0)), 0.0))
    }
}

impl Dotted for Q4K {
    const STEPS: usize = 4;
    const BYTES: usize = 144;
    const HAS_OFFSETS: bool = true;
    const HAS_START: bool = false;
    /// The scales of eight blocks, and then their offsets.
    type Head<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn head<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        let word = |from: usize| u32::from_le_bytes(*at(bytes, from));
        let (first, second, third) = (word(4), word(8), word(12));
        // Six bits of each byte; or four of one and two of another.
        let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
        let words = [
            first & six,
            third & four | (first >> 6 & two) << 4,
            second & six,
            third >> 4 & four | (second >> 6 & two) << 4,
        ];
        let coarse = unit.halves(unit.half(*at(bytes, 0)), -unit.half(*at(bytes, 2)));
        unit.mul(unit.float(unit.bytes_of(words)), coarse)
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: S::Lanes, step: usize) -> (S::Bytes, S::Lanes) {
        let pairs = at(bytes, 16 + 32 * step);
        (unit.shift_and(unit.join(pairs, pairs), [0, 0, 4, 4], 15), unit.spread_halves(head, step))
    }

    #[inline(always)]
    fn offsets<S: Bytewise>(_: S, head: S::Lanes) -> S::Lanes {
        // The lower lanes are scales, and meet sums that are zero.
        head
    }
}

impl Dotted for Q6K {
    const STEPS: usize = 4;
    const BYTES: usize = 210;
    /// The scales of sixteen blocks.
    type Head<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn head<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        unit.mul(unit.float(unit.signed(at(bytes, 192))), unit.splat(unit.half(*at(bytes, 208))))
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: S::Lanes, step: usize) -> (S::Bytes, S::Lanes) {
        // As `Stored` has it: of 128 weights the first 64 have their lower four bits in the lower halves of 64 bytes, and the upper
        // two of all lie in 32 bytes.
        let (of_both, shift) = (step / 2, 4 * (step as u32 % 2));
        let lower = unit.shift_and(unit.bytes64(at(bytes, 64 * of_both)), [shift; 4], 15);
        let upper = at(bytes, 128 + 32 * of_both);
        let upper = unit.shift_and(unit.join(upper, upper), [shift, shift, shift + 2, shift + 2], 3);
        (unit.or_bytes(lower, unit.shift_up(upper, 4)), unit.spread_quarters(head, step))
    }
}

/// `M` rows from `row` on against a column of weights, with sums in registers; of the rows there are `rows`, and where that is less the
/// last one is computed again.
#[inline(always)]
fn tile<S: Bytewise, F: Dotted, const M: usize>(
    unit: S,
    x: &Rounded,
    row: usize,
    rows: usize,
    w: &[u8],
    k: usize,
) -> [f32; M] {
    let (all, whole) = (x.a_row, k / STEP);
    let sums_a_row = all.div_ceil(SUMS);
    let mut of_row: [&[Step]; M] = [&[]; M];
    let mut sums_of_row: [&[[f32; LANES]]; M] = [&[]; M];
    for a in 0..M {
        let at = row + a.min(rows - 1);
        of_row[a] = &x.steps[at * all..(at + 1) * all];
        sums_of_row[a] = &x.sums[at * sums_a_row..(at + 1) * sums_a_row];
    }
    let mut sums = [unit.zero(); M];
    for (group, bytes) in w.chunks_exact(F::BYTES).enumerate() {
        let head = F::head(unit, bytes);
        for step in 0..F::STEPS {
            let (weights, scales) = F::step(unit, bytes, head, step);
            for a in 0..M {
                sums[a] = add::<S, F>(unit, &of_row[a][group * F::STEPS + step], weights, scales, sums[a]);
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
        let (weights, scales) = F::last(unit, &w[whole * F::BYTES..]);
        for a in 0..M {
            sums[a] = add::<S, F>(unit, &of_row[a][whole], weights, scales, sums[a]);
        }
    }
    let mut out = [0.0; M];
    for a in 0..M {
        out[a] = unit.finish(sums[a], &[], &[]);
    }
    out
}

#[inline(always)]
fn add<S: Bytewise, F: Dotted>(unit: S, x: &Step, weights: S::Bytes, scales: S::Lanes, sum: S::Lanes) -> S::Lanes {
    let start = if F::HAS_START { unit.ints(&x.start) } else { unit.ints(&[0; LANES]) };
    let products = F::dot(unit, weights, unit.bytes64(&x.numbers), start);
    unit.fma(unit.float(products), unit.mul(scales, unit.load(&x.scale)), sum)
}

/// Every row against some columns of weights in blocks.
///
/// # Safety
/// No other thread writes these columns.
#[inline(always)]
pub(crate) unsafe fn of_blocks<S: Bytewise, F: Dotted>(
    unit: S,
    x: &Rounded,
    w: Weights<'_>,
    columns: Range<usize>,
    out: &Out<'_>,
) {
    let (m, mut row) = (x.rows(), 0);
    while row < m {
        let place = Blocks { x, w, from: columns.start, to: columns.end, row, out };
        // A column at a time: its bytes come from memory in the order in which memory expects to be asked for them.
        row += match (m - row, S::IS_WIDE) {
            (1, _) => place.run::<S, F, 1>(unit),
            (2, _) => place.run::<S, F, 2>(unit),
            (3, true) => place.run::<S, F, 3>(unit),
            (4, true) | (_, false) => place.run::<S, F, 4>(unit),
            (5 | 6, true) => place.run::<S, F, 6>(unit),
            (_, true) => place.run::<S, F, 8>(unit),
        };
    }
}

/// Where a run of tiles stands: the rows from `row` on, against columns of the weights from one to before another.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    x: &'a Rounded,
    w: Weights<'a>,
    from: usize,
    to: usize,
    row: usize,
    out: &'a Out<'a>,
}

impl Blocks<'_> {
    /// Up to `M` rows against all columns; gives how many rows there were.
    #[inline(always)]
    fn run<S: Bytewise, F: Dotted, const M: usize>(self, unit: S) -> usize {
        unit.run(BlockTiles::<F, M>(self, PhantomData));
        M.min(self.x.rows() - self.row)
    }
}

struct BlockTiles<'a, F, const M: usize>(Blocks<'a>, PhantomData<F>);

impl<F: Dotted, const M: usize> Body for BlockTiles<'_, F, M> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self(Blocks { x, w, from, to, row, out }, _) = self;
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
