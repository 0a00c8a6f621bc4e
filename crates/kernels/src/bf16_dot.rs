//! Products of rows with weights in bf16, in AMX tiles.
//!
//! Tiles multiply bf16 by bf16 and add in f32. A row is split into pieces: the nearest bf16, the one nearest to the
//! remainder, and so on; three pieces represent an f32 exactly. Weights are read in their stored format, with sixteen
//! columns as the rows of a tile, and one row of the input takes as many tiles as sixteen.
//!
//! A sum runs over pairs of elements, and in each 32 elements over the first pieces before the second: so its bits are
//! the same for any number of rows, but differ from those without tiles.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::amx::{Amx, ROW, ROWS, Tiles};
use crate::bytewise::{Body, Bytewise};
use crate::dispatch::dispatch;
use crate::out::Out;
use crate::pool;
use crate::simd::{LANES, transpose};
use crate::weights::Weights;

/// The number of elements of a row in a tile.
const STEP: usize = ROW / 2;

/// The number of words in a tile.
const TILE: usize = ROWS * ROW / 4;

/// The number of pieces of a row: with two, the error is that of sums in f32.
const PIECES: usize = 2;

/// The size in bytes of rows in pieces that are multiplied before the next ones: they fit a second-level cache.
const PART: usize = 1 << 20;

/// The number of steps by which columns are read ahead.
const AHEAD: usize = 2;

/// The memory of a tile: pairs of elements.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct TileWords([u32; TILE]);

/// Rows in pieces, in the layout of tiles: for sixteen rows and 32 elements, pair by pair, those of all rows.
#[derive(Debug)]
pub(crate) struct SplitRows {
    amx: Amx,
    tiles: Vec<TileWords>,
    rows: usize,
    /// The number of steps of 32 elements in a row.
    steps: usize,
}

impl SplitRows {
    pub(crate) fn new(amx: Amx) -> Self {
        Self { amx, tiles: Vec::new(), rows: 0, steps: 0 }
    }

    /// Splits rows of `k`.
    pub(crate) fn set(&mut self, x: &[f32], k: usize) {
        (self.rows, self.steps) = (x.len() / k, k.div_ceil(STEP));
        let of_group = self.steps * PIECES;
        let groups = self.rows.div_ceil(ROWS);
        if self.tiles.len() < groups * of_group {
            self.tiles.resize(groups * of_group, TileWords([0; TILE]));
        }
        let tasks = x.chunks(ROWS * k).zip(self.tiles.chunks_mut(of_group));
        if groups <= 1 {
            return tasks.for_each(|(x, to)| split(x, k, to));
        }
        let tasks: Vec<_> = tasks.map(Mutex::new).collect();
        pool::run(groups, &|task| {
            let (x, to) = &mut *tasks[task].lock().unwrap_or_else(PoisonError::into_inner);
            split(x, k, to);
        });
    }

    /// The elements of a row as the products see them.
    #[cfg(test)]
    pub(crate) fn numbers(&self, row: usize, k: usize) -> Vec<f64> {
        let (group, at) = (row / ROWS, row % ROWS);
        let piece = |c: usize, piece: usize| {
            let pair = self.step(group, c / STEP)[piece].0[c % STEP / 2 * self.of_group(group) + at];
            f64::from(f32::from_bits(pair >> (16 * (c % 2)) << 16))
        };
        (0..k).map(|c| (0..PIECES).map(|p| piece(c, p)).sum()).collect()
    }

    /// The number of rows in a group, at most sixteen.
    fn of_group(&self, group: usize) -> usize {
        ROWS.min(self.rows - ROWS * group)
    }

    /// The size of the pieces of one row in bytes.
    fn row_bytes(&self) -> usize {
        self.steps * PIECES * ROW
    }

    /// The shapes of tiles for `groups` groups from `group` on.
    fn shapes(&self, group: usize, groups: usize) -> [(usize, usize); 8] {
        let of_w = (ROWS, ROW);
        let first = (ROWS, 4 * self.of_group(group));
        let second = if groups == 2 { (ROWS, 4 * self.of_group(group + 1)) } else { first };
        [first, second, first, second, of_w, of_w, first, second]
    }

    /// The pieces of 32 elements of a group.
    fn step(&self, group: usize, step: usize) -> &[TileWords] {
        &self.tiles[(group * self.steps + step) * PIECES..][..PIECES]
    }
}

dispatch! {
    /// Splits up to sixteen rows.
    fn split(x: &[f32], k: usize, to: &mut [TileWords]) = split_body
}

#[inline(always)]
fn split_body<S: Bytewise>(unit: S, x: &[f32], k: usize, to: &mut [TileWords]) {
    let rows = x.len() / k;
    for (step, to) in to.chunks_mut(PIECES).enumerate() {
        // What is left of the elements of all rows: for each element, one lane per row.
        let mut left = [[unit.zero(); LANES]; 2];
        for (row, x) in x.chunks(k).enumerate() {
            let (lanes, rest) = x[step * STEP..k.min((step + 1) * STEP)].as_chunks::<LANES>();
            for (left, lanes) in left.iter_mut().zip(lanes) {
                left[row] = unit.load(lanes);
            }
            if !rest.is_empty() {
                let mut padded = [0.0; LANES];
                padded[..rest.len()].copy_from_slice(rest);
                left[lanes.len()][row] = unit.load(&padded);
            }
        }
        left.iter_mut().for_each(|square| transpose(unit, square));
        let minus = unit.splat(-1.0);
        for to in to {
            let (pairs, _) = left.as_flattened_mut().as_chunks_mut();
            for (i, [first, second]) in pairs.iter_mut().enumerate() {
                let (a, b) = (unit.round_to_bf16(*first), unit.round_to_bf16(*second));
                (*first, *second) = (unit.fma(a, minus, *first), unit.fma(b, minus, *second));
                let words = unit.or(unit.shift_right(unit.to_bits(a), 16), unit.to_bits(b));
                let words = unit.store(unit.of_bits(words)).map(f32::to_bits);
                // A row of the tile has one word for each row of the input.
                if rows == ROWS {
                    to.0.as_chunks_mut().0[i] = words;
                } else {
                    to.0[i * rows..][..rows].copy_from_slice(&words[..rows]);
                }
            }
        }
    }
}

/// Multiplies every row by some columns of weights in bf16.
///
/// # Safety
/// No other thread writes these columns.
#[inline(always)]
pub(crate) unsafe fn dot_bf16<S: Bytewise>(
    unit: S,
    x: &SplitRows,
    w: Weights<'_>,
    columns: Range<usize>,
    out: &Out<'_>,
) {
    unit.run(Bf16Tiles { x, w, columns, out });
}

struct Bf16Tiles<'a> {
    x: &'a SplitRows,
    w: Weights<'a>,
    columns: Range<usize>,
    out: &'a Out<'a>,
}

/// Sixteen columns: their bytes, and the last elements of each, padded with zeros.
#[derive(Clone, Copy)]
struct Panel<'a> {
    bytes: &'a [u8],
    stride: usize,
    /// The number of whole steps.
    whole: usize,
    rest: &'a [[u8; ROW]; ROWS],
}

impl Body for Bf16Tiles<'_> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        thread_local!(static PADDED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
        let Self { x, w, columns, out } = self;
        let (k, stride) = (w.columns(), w.stride());
        let (whole, last) = (k / STEP, k % STEP);
        let mut padded = PADDED.take();
        let mut rests = [[[0; ROW]; ROWS]; 2];
        let mut sums = TileWords([0; TILE]);
        let mut tiles = x.amx.configure(x.shapes(0, 1));
        let groups = x.rows.div_ceil(ROWS);
        // Rows are used again for the next columns, and so are columns for the next rows of a part.
        let part = (PART / (ROWS * x.row_bytes())).max(2).next_multiple_of(2);
        for first in (0..groups).step_by(part) {
            let last_group = (first + part).min(groups);
            let mut j = columns.start;
            while j < columns.end {
                let count = (2 * ROWS).min(columns.end - j);
                // Sixteen columns take as long as one.
                let panels = count.div_ceil(ROWS);
                let mut bytes = w.rows_from(j, count);
                if count < panels * ROWS {
                    padded.clear();
                    padded.extend_from_slice(bytes);
                    padded.resize(panels * ROWS * stride, 0);
                    bytes = &padded;
                }
                if last > 0 {
                    for (i, rest) in rests.as_flattened_mut()[..panels * ROWS].iter_mut().enumerate() {
                        rest[..2 * last].copy_from_slice(&bytes[i * stride + whole * ROW..][..2 * last]);
                    }
                }
                let panels = [0, panels - 1].map(|panel| Panel {
                    bytes: &bytes[panel * ROWS * stride..],
                    stride,
                    whole,
                    rest: &rests[panel],
                });
                let product = Block { x, w: panels, column: j, count, out };
                for group in (first..last_group).step_by(2) {
                    let both = last_group - group >= 2;
                    tiles.reshape(x.shapes(group, 1 + usize::from(both)));
                    // SAFETY: upheld by the caller.
                    unsafe {
                        match (count > ROWS, both) {
                            (true, true) => product.compute::<S, 2, 2>(unit, &tiles, group, &mut sums),
                            (true, false) => product.compute::<S, 2, 1>(unit, &tiles, group, &mut sums),
                            (false, true) => product.compute::<S, 1, 2>(unit, &tiles, group, &mut sums),
                            (false, false) => product.compute::<S, 1, 1>(unit, &tiles, group, &mut sums),
                        }
                    }
                }
                j += count;
            }
        }
        PADDED.set(padded);
    }
}

/// Rows times one or two panels of columns.
struct Block<'a> {
    x: &'a SplitRows,
    w: [Panel<'a>; 2],
    column: usize,
    /// The number of columns.
    count: usize,
    out: &'a Out<'a>,
}

impl Block<'_> {
    /// Multiplies `M` groups of rows by `N` panels.
    ///
    /// # Safety
    /// No other thread writes these columns.
    #[inline(always)]
    unsafe fn compute<S: Bytewise, const N: usize, const M: usize>(
        &self,
        unit: S,
        tiles: &Tiles,
        group: usize,
        sums: &mut TileWords,
    ) {
        let Self { x, w, column, count, out } = *self;
        let (first, second) = (x.of_group(group), if M == 2 { x.of_group(group + 1) } else { 1 });
        tiles.zero::<0>();
        tiles.zero::<1>();
        tiles.zero::<2>();
        tiles.zero::<3>();
        for panel in &w[..N] {
            assert!(panel.bytes.len() >= (ROWS - 1) * panel.stride + panel.whole * ROW, "sixteen columns");
        }
        for row in group * ROWS..((group + M) * ROWS).min(x.rows) {
            out.prefetch(unit, row, column, count);
        }
        for step in 0..x.steps {
            let of_panel = |panel: &Panel<'_>| match step < panel.whole {
                true => (panel.bytes[step * ROW..].as_ptr(), panel.stride),
                false => (panel.rest.as_ptr().cast(), ROW),
            };
            // SAFETY: there are sixteen columns, and this step is one of the whole ones, or the padded rest.
            unsafe {
                let (from, stride) = of_panel(&w[0]);
                tiles.load::<4>(from, stride);
                if N == 2 {
                    let (from, stride) = of_panel(&w[1]);
                    tiles.load::<5>(from, stride);
                }
            }
            for panel in &w[..N] {
                for row in 0..ROWS {
                    unit.prefetch_near(panel.bytes.as_ptr().wrapping_add(row * panel.stride + (step + AHEAD) * ROW));
                }
            }
            for piece in 0..PIECES {
                // SAFETY: a tile's memory has sixteen rows, with one word for each row of the input.
                unsafe {
                    tiles.load::<6>(x.step(group, step)[piece].0.as_ptr().cast(), 4 * first);
                    if M == 2 {
                        tiles.load::<7>(x.step(group + 1, step)[piece].0.as_ptr().cast(), 4 * second);
                    }
                }
                tiles.dot_bf16::<0, 4, 6>();
                if M == 2 {
                    tiles.dot_bf16::<1, 4, 7>();
                }
                if N == 2 {
                    tiles.dot_bf16::<2, 5, 6>();
                }
                if N == 2 && M == 2 {
                    tiles.dot_bf16::<3, 5, 7>();
                }
            }
        }
        for panel in 0..N {
            for of_rows in 0..M {
                let to = (&raw mut sums.0).cast();
                // SAFETY: there is room for sixteen rows of 64 bytes.
                unsafe {
                    match (panel, of_rows) {
                        (0, 0) => tiles.store::<0>(to, ROW),
                        (0, _) => tiles.store::<1>(to, ROW),
                        (_, 0) => tiles.store::<2>(to, ROW),
                        _ => tiles.store::<3>(to, ROW),
                    }
                }
                let (rows, columns) = (x.of_group(group + of_rows), ROWS.min(count - panel * ROWS));
                // SAFETY: upheld by the caller.
                unsafe { set(unit, sums, rows, columns, (group + of_rows) * ROWS, column + panel * ROWS, out) };
            }
        }
    }
}

/// Writes sums, which are stored column by column.
///
/// # Safety
/// No other thread writes these columns.
#[inline(always)]
unsafe fn set<S: Bytewise>(
    unit: S,
    sums: &TileWords,
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
    out: &Out<'_>,
) {
    let mut square = [unit.zero(); LANES];
    for (lanes, sums) in square.iter_mut().zip(sums.0.as_chunks::<LANES>().0) {
        *lanes = unit.load(&sums.map(f32::from_bits));
    }
    transpose(unit, &mut square);
    for (i, &lanes) in square.iter().enumerate().take(rows) {
        let values = unit.store(lanes);
        // SAFETY: upheld by the caller.
        unsafe { out.set_lanes(row + i, column, &values, columns) };
    }
}
