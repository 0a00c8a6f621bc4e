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

use crate::amx::{Amx, ROW, ROWS};
use crate::bytewise::{Body, Bytewise};
use crate::dispatch::dispatch;
use crate::encode::to_bf16;
use crate::out::Out;
use crate::pool;
use crate::simd::LANES;
use crate::weights::Weights;

/// The number of elements of a row in a tile.
const STEP: usize = ROW / 2;

/// The number of words in a tile.
const TILE: usize = ROWS * ROW / 4;

/// The number of pieces of a row: with two, the error is that of sums in f32.
const PIECES: usize = 2;

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
        self.tiles.resize(groups * of_group, TileWords([0; TILE]));
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
        let mut pieces = [[[0u8; 2]; STEP]; ROWS];
        let mut left = [[0f32; STEP]; ROWS];
        for (x, left) in x.chunks(k).zip(&mut left) {
            let x = &x[step * STEP..k.min((step + 1) * STEP)];
            left[..x.len()].copy_from_slice(x);
        }
        for to in to {
            for (pieces, left) in pieces[..rows].iter_mut().zip(&mut left) {
                for (piece, left) in pieces.iter_mut().zip(left) {
                    *piece = to_bf16(*left);
                    *left -= f32::from_bits(u32::from(u16::from_le_bytes(*piece)) << 16);
                }
            }
            for quarter in 0..4 {
                let mut of_row: [&[u8; 16]; LANES] = [&[0; 16]; LANES];
                for (of_row, pieces) in of_row.iter_mut().zip(&pieces) {
                    *of_row = &pieces.as_flattened().as_chunks().0[quarter];
                }
                for (i, pairs) in unit.transpose(of_row).into_iter().enumerate() {
                    // A row of the tile has one word for each row of the input.
                    let pairs = unit.store(unit.of_bits(pairs)).map(f32::to_bits);
                    to.0[(4 * quarter + i) * rows..][..rows].copy_from_slice(&pairs[..rows]);
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
        let groups = x.rows.div_ceil(ROWS);
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
            let [first, second] = [0, panels - 1].map(|panel| Panel {
                bytes: &bytes[panel * ROWS * stride..],
                stride,
                whole,
                rest: &rests[panel],
            });
            let mut group = 0;
            while group < groups {
                let both = groups - group >= 2;
                // SAFETY: upheld by the caller.
                unsafe {
                    match (panels, both) {
                        (2, true) => block::<S, 2, 2>(unit, x, group, [first, second], j, count, out),
                        (2, false) => block::<S, 2, 1>(unit, x, group, [first, second], j, count, out),
                        (_, true) => block::<S, 1, 2>(unit, x, group, [first, second], j, count, out),
                        (_, false) => block::<S, 1, 1>(unit, x, group, [first, second], j, count, out),
                    }
                }
                group += 1 + usize::from(both);
            }
            j += count;
        }
        PADDED.set(padded);
    }
}

/// Multiplies `M` groups of rows by `N` times sixteen columns.
///
/// # Safety
/// No other thread writes these columns.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
unsafe fn block<S: Bytewise, const N: usize, const M: usize>(
    unit: S,
    x: &SplitRows,
    group: usize,
    w: [Panel<'_>; 2],
    column: usize,
    count: usize,
    out: &Out<'_>,
) {
    let (first, second) = (x.of_group(group), if M == 2 { x.of_group(group + 1) } else { 1 });
    let (of_w, of_first, of_second) = ((ROWS, ROW), (ROWS, 4 * first), (ROWS, 4 * second));
    let tiles = x.amx.configure([of_first, of_second, of_first, of_second, of_w, of_w, of_first, of_second]);
    tiles.zero::<0>();
    tiles.zero::<1>();
    tiles.zero::<2>();
    tiles.zero::<3>();
    for panel in &w[..N] {
        assert!(panel.bytes.len() >= (ROWS - 1) * panel.stride + panel.whole * ROW, "sixteen columns");
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
    let mut sums = TileWords([0; TILE]);
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
            unsafe { set(unit, &sums, rows, columns, (group + of_rows) * ROWS, column + panel * ROWS, out) };
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
    for quarter in 0..rows.div_ceil(4) {
        let mut bytes = [[0; 16]; LANES];
        for (bytes, sums) in bytes.iter_mut().zip(sums.0.as_chunks::<LANES>().0) {
            for (bytes, sum) in bytes.as_chunks_mut().0.iter_mut().zip(&sums[4 * quarter..]) {
                *bytes = sum.to_ne_bytes();
            }
        }
        let mut of_column: [&[u8; 16]; LANES] = [&[0; 16]; LANES];
        for (of_column, bytes) in of_column.iter_mut().zip(&bytes) {
            *of_column = bytes;
        }
        let of_rows = unit.transpose(of_column);
        for (i, &of_row) in of_rows[..4.min(rows - 4 * quarter)].iter().enumerate() {
            let values = unit.store(unit.of_bits(of_row));
            // SAFETY: upheld by the caller.
            unsafe { out.set_some(row + 4 * quarter + i, column, &values[..columns]) };
        }
    }
}
