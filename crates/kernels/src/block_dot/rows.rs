//! Rows as integers.

use std::sync::{Mutex, PoisonError};

use crate::dispatch::dispatch;
use crate::format::{Format, Numbers};
use crate::pool;
use crate::simd::{LANES, Simd};

/// The number of elements of a row that share a scale.
pub(crate) const BLOCK: usize = 32;

/// The number of blocks that a task rounds; up to that number, the calling thread rounds all.
const TASK: usize = 1 << 10;

/// Thirty-two elements of a row: `scale` times integers from -127 to 127.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub(crate) struct Block {
    /// The first field, since tiles read it at the address of the block.
    pub(crate) numbers: [[u8; 4]; BLOCK / 4],
    pub(crate) scale: f32,
    /// For each half, or in the first for both: the negated sum of the numbers times the excess of the format; or, if
    /// the format has minimums, the sum times the scale, as the bits of an `f32`.
    pub(crate) sums: [u32; 2],
}

/// Rows as integers.
#[derive(Debug, Default)]
pub(crate) struct QuantizedRows {
    blocks: Vec<Block>,
    /// The number of blocks in a row.
    a_row: usize,
}

/// The excess of a format's integers over its weights; 0 for formats with minimums.
pub(crate) const fn excess(numbers: Numbers) -> i32 {
    match numbers {
        Numbers::Excess(excess) => excess as i32,
        // Some units add 128 to signed bytes.
        Numbers::Signed | Numbers::Listed(_) => 128,
        Numbers::Least => 0,
    }
}

impl QuantizedRows {
    /// Rounds rows of `k`, a whole number of blocks, for weights in a format.
    pub(crate) fn set(&mut self, x: &[f32], k: usize, format: Format) {
        let layout = format.layout().expect("a format with blocks");
        let (excess, has_halves) = (excess(layout.numbers), layout.scales.has_halves());
        self.a_row = k / BLOCK;
        let x = x.as_chunks().0;
        self.blocks.resize(x.len(), Block::default());
        if x.len() <= TASK {
            return round(x, &mut self.blocks, excess, has_halves);
        }
        let tasks: Vec<_> = x.chunks(TASK).zip(self.blocks.chunks_mut(TASK)).map(Mutex::new).collect();
        pool::run(tasks.len(), &|task| {
            let (x, to) = &mut *tasks[task].lock().unwrap_or_else(PoisonError::into_inner);
            round(x, to, excess, has_halves);
        });
    }

    pub(crate) fn rows(&self) -> usize {
        self.blocks.len() / self.a_row.max(1)
    }

    /// The blocks of a row.
    pub(crate) fn row(&self, row: usize) -> &[Block] {
        &self.blocks[row * self.a_row..(row + 1) * self.a_row]
    }

    /// The address of a block of row `row`, and the number of bytes to the same block of the next of `rows` rows.
    #[cfg(amx)]
    pub(crate) fn strided(&self, row: usize, rows: usize, block: usize) -> (*const Block, usize) {
        assert!(row + rows <= self.rows() && block < self.a_row, "inside the rows");
        (&raw const self.blocks[row * self.a_row + block], self.a_row * size_of::<Block>())
    }

    /// The elements of a row as the products see them.
    #[cfg(test)]
    pub(crate) fn numbers(&self, row: usize) -> Vec<f64> {
        let of_block = |block: &Block| {
            let scale = f64::from(block.scale);
            block.numbers.as_flattened().iter().map(|&q| f64::from(q as i8) * scale).collect::<Vec<_>>()
        };
        self.row(row).iter().flat_map(of_block).collect()
    }
}

dispatch! {
    /// Rounds each block.
    fn round(x: &[[f32; BLOCK]], to: &mut [Block], excess: i32, has_halves: bool) = round_each
}

#[inline(always)]
fn round_each<S: Simd>(unit: S, x: &[[f32; BLOCK]], to: &mut [Block], excess: i32, has_halves: bool) {
    for (x, to) in x.iter().zip(to) {
        *to = block(unit, x, excess, has_halves);
    }
}

#[inline(always)]
fn block<S: Simd>(unit: S, x: &[f32; BLOCK], excess: i32, has_halves: bool) -> Block {
    let (halves, _) = x.as_chunks::<LANES>();
    let [first, second] = [unit.load(&halves[0]), unit.load(&halves[1])];
    let size = |lanes| unit.of_bits(unit.and(unit.to_bits(lanes), 0x7fff_ffff));
    let most = unit.largest(unit.max(size(first), size(second)));
    // NaN if an element is not finite.
    let harm = unit.fma(first, unit.zero(), unit.mul(second, unit.zero()));
    let [harm, _] = unit.sums(harm, harm);
    let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
    // Elements too small for a finite inverse become zero.
    let inverse = unit.splat(if inverse.is_finite() { inverse } else { 0.0 });
    // Adding a number of this size rounds to an integer, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let rounded = [first, second].map(|lanes| unit.add(unit.mul(lanes, inverse), unit.splat(ROUND)));
    let mut numbers = [[0; 4]; BLOCK / 4];
    for (q, lanes) in numbers.as_flattened_mut().as_chunks_mut::<LANES>().0.iter_mut().zip(rounded) {
        *q = unit.store(lanes).map(|x| x.to_bits() as u8);
    }
    let [first, second] = rounded.map(|lanes| unit.add(lanes, unit.splat(-ROUND)));
    let scale = most / 127.0 + harm;
    let mut halves = unit.sums(first, second);
    if !has_halves {
        halves = [halves[0] + halves[1], 0.0];
    }
    let sums =
        halves.map(|sum| if excess > 0 { (-excess).wrapping_mul(sum as i32) as u32 } else { (scale * sum).to_bits() });
    Block { numbers, scale, sums }
}
