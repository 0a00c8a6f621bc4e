//! Rows as integers.

use std::sync::{Mutex, PoisonError};

use crate::dispatch::dispatch;
use crate::format::{Format, Numbers};
use crate::pool;
use crate::simd::Simd;

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
fn round_each<S: Simd>(_: S, x: &[[f32; BLOCK]], to: &mut [Block], excess: i32, has_halves: bool) {
    for (x, to) in x.iter().zip(to) {
        *to = block(x, excess, has_halves);
    }
}

#[inline(always)]
fn block(x: &[f32; BLOCK], excess: i32, has_halves: bool) -> Block {
    let mut most = [0f32; 8];
    // NaN as soon as an element is not finite.
    let mut harm = [0f32; 8];
    for eight in x.as_chunks::<8>().0 {
        for l in 0..8 {
            most[l] = most[l].max(eight[l].abs());
            harm[l] += eight[l] * 0.0;
        }
    }
    let most = most.into_iter().fold(0f32, f32::max);
    let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
    // Elements too small for a finite inverse become zero.
    let inverse = if inverse.is_finite() { inverse } else { 0.0 };
    // Adding a number of this size rounds to an integer, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let mut numbers = [[0; 4]; BLOCK / 4];
    for (q, x) in numbers.as_flattened_mut().iter_mut().zip(x) {
        *q = (x * inverse + ROUND).to_bits() as u8;
    }
    let scale = most / 127.0 + harm.iter().sum::<f32>();
    let mut halves = [0i32; 2];
    for (sum, half) in halves.iter_mut().zip(numbers.as_flattened().as_chunks::<{ BLOCK / 2 }>().0) {
        *sum = half.iter().map(|&q| i32::from(q as i8)).sum();
    }
    if !has_halves {
        halves = [halves[0] + halves[1], 0];
    }
    let sums = halves.map(|sum| if excess > 0 { (-excess * sum) as u32 } else { (scale * sum as f32).to_bits() });
    Block { numbers, scale, sums }
}
