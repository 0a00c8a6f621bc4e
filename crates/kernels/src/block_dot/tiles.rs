//! Products with blocks in AMX tiles: integers are exact, and floats are added in the same order as without tiles, so
//! the bits are those of every other unit.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use super::columns::Columns;
use super::formats::BlockDot;
use super::rows::{BLOCK, Block, QuantizedRows, excess};
use super::sixteen_columns;
use crate::amx::{Amx, ROW, ROWS, Tiles};
use crate::bytewise::{Body, Bytewise};
use crate::out::Out;
use crate::simd::LANES;
use crate::weights::Weights;

/// The number of rows from which tiles are faster than products in vectors.
pub(super) const FROM: usize = 12;

/// The number of blocks of each column that are decoded at a time: those of all panels, and of sixteen rows, fit a
/// first-level cache.
const CHUNK: usize = 8;

/// The number of panels of sixteen columns for which rows are read once.
const PANELS: usize = 4;

/// The number of result tiles at a time.
const AT_ONCE: usize = 4;

/// Integer products of 16 rows and 16 columns, as a tile stores them.
#[repr(C, align(64))]
struct Products([[f32; LANES]; ROWS]);

/// Some weights of sixteen columns. The 16 or 32 weights of each column that share a scale make a unit of products.
struct Decoded<S: Bytewise> {
    /// Four weights of each column per lane.
    weights: [S::Ints; 8 * CHUNK],
    scale: [S::Lanes; 2 * CHUNK],
    least: [S::Lanes; 2 * CHUNK],
    /// For each unit, the block of a row that it is multiplied by, and the half of that block.
    places: [(usize, usize); 2 * CHUNK],
    units: usize,
}

impl<S: Bytewise> Decoded<S> {
    /// Decodes stored blocks of sixteen columns.
    #[inline(always)]
    fn set<F: BlockDot>(&mut self, unit: S, w: &[u8], stride: usize, groups: Range<usize>) {
        let (stored, bytes) = (F::LAYOUT.block, F::LAYOUT.bytes);
        let (halves, words) = if F::HAS_HALVES { (2, 4) } else { (1, 8) };
        self.units = 0;
        for group in groups {
            let columns = Columns::new(&w[group * bytes..], stride, bytes);
            let head = F::header(unit, columns);
            for part in 0..F::PARTS {
                let weights = F::weights(unit, columns, &head, part);
                for block in 0..F::BLOCKS {
                    let place = F::place(part, block);
                    for half in 0..halves {
                        let at = self.units;
                        for word in 0..words {
                            let weights = weights[8 * block + words * half + word];
                            self.weights[words * at + word] = signed::<S, F>(unit, weights);
                        }
                        self.scale[at] = F::scale(unit, &head, halves * place + half);
                        if F::HAS_LEAST {
                            self.least[at] = F::least(unit, &head, halves * place + half);
                        }
                        self.places[at] = (group * (stored / BLOCK) + place, half);
                        self.units += 1;
                    }
                }
            }
        }
        // Pads with units that add nothing.
        while !self.units.is_multiple_of(AT_ONCE) {
            self.weights[words * self.units..words * (self.units + 1)].fill(unit.word(0));
            (self.scale[self.units], self.least[self.units]) = (unit.zero(), unit.zero());
            self.places[self.units] = (0, 0);
            self.units += 1;
        }
    }
}

/// Signed bytes, without the excess that a format adds to them.
#[inline(always)]
fn signed<S: Bytewise, F: BlockDot>(unit: S, weights: S::Ints) -> S::Ints {
    let excess = excess(F::LAYOUT.numbers) as u32;
    if F::IS_SIGNED || excess == 0 {
        return weights;
    }
    // The uppermost bit keeps each byte from borrowing from the next; the `bias` of these units removes it again.
    let with_bit = unit.or(weights, unit.word(0x8080_8080));
    unit.bias(unit.add_ints(with_bit, unit.word((0x0101_0101 * excess).wrapping_neg())))
}

/// Multiplies every row by some columns.
pub(super) struct BlockTiles<'a, F> {
    pub(super) amx: Amx,
    pub(super) x: &'a QuantizedRows,
    pub(super) w: Weights<'a>,
    pub(super) columns: Range<usize>,
    pub(super) out: &'a Out<'a>,
    pub(super) of: PhantomData<F>,
}

impl<F: BlockDot> Body for BlockTiles<'_, F> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        thread_local!(static SCRATCH: Cell<(Vec<u8>, Vec<[f32; LANES]>)> = Cell::default());
        let Self { amx, x, w, columns, out, .. } = self;
        let (mut padded, mut sums) = SCRATCH.take();
        let (groups, rows) = (w.columns() / F::LAYOUT.block, x.rows());
        let step = CHUNK * BLOCK / F::LAYOUT.block;
        let mut decoded = std::array::from_fn::<_, PANELS, _>(|_| Decoded::<S> {
            weights: [unit.word(0); 8 * CHUNK],
            scale: [unit.zero(); 2 * CHUNK],
            least: [unit.zero(); 2 * CHUNK],
            places: [(0, 0); 2 * CHUNK],
            units: 0,
        });
        let shapes = |rows: usize| {
            let words = if F::HAS_HALVES { 4 } else { 8 };
            let (of_c, of_a, of_b) = ((rows, ROW), (rows, 4 * words), (words, ROW));
            [of_c, of_c, of_c, of_c, of_a, of_a, of_b, of_b]
        };
        let mut tiles = amx.configure(shapes(ROWS.min(rows)));
        let mut products = [const { [const { Products([[0.0; LANES]; ROWS]) }; AT_ONCE] }; 2];
        for from in columns.clone().step_by(PANELS * LANES) {
            let panels = || (from..columns.end).step_by(LANES).take(PANELS).zip(0..);
            sums.clear();
            sums.resize(panels().count() * rows, [0.0; LANES]);
            for first in (0..groups).step_by(step) {
                for ((j, _), decoded) in panels().zip(&mut decoded) {
                    let bytes = sixteen_columns(w, j, LANES.min(columns.end - j), &mut padded);
                    decoded.set::<F>(unit, bytes, w.stride(), first..(first + step).min(groups));
                }
                for row in (0..rows).step_by(ROWS) {
                    let count = ROWS.min(rows - row);
                    tiles.reshape(shapes(count));
                    for ((_, panel), decoded) in panels().zip(&decoded) {
                        let sums = &mut sums[panel * rows + row..][..count];
                        some_rows::<S, F>(unit, &tiles, x, row, decoded, &mut products, sums);
                    }
                }
            }
            for row in 0..rows {
                for (j, panel) in panels() {
                    let (sums, count) = (&sums[panel * rows + row], LANES.min(columns.end - j));
                    // SAFETY: these columns belong to this task, as the caller of `of_columns` promised.
                    unsafe { out.set_lanes(row, j, sums, count) };
                }
            }
        }
        SCRATCH.set((padded, sums));
    }
}

/// Adds the products of up to 16 rows, from `row` on, with the decoded weights. Tiles are multiplied while the previous
/// results are added.
#[inline(always)]
fn some_rows<S: Bytewise, F: BlockDot>(
    unit: S,
    tiles: &Tiles,
    x: &QuantizedRows,
    row: usize,
    w: &Decoded<S>,
    products: &mut [[Products; AT_ONCE]; 2],
    sums: &mut [[f32; LANES]],
) {
    let [current, next] = products;
    let (mut current, mut next) = (current, next);
    multiply_all::<S, F>(tiles, x, row, w, 0, current);
    for at in (0..w.units).step_by(AT_ONCE) {
        if at + AT_ONCE < w.units {
            multiply_all::<S, F>(tiles, x, row, w, at + AT_ONCE, next);
        }
        add::<S, F>(unit, current, x, row, w, at, sums);
        std::mem::swap(&mut current, &mut next);
    }
}

#[inline(always)]
fn multiply_all<S: Bytewise, F: BlockDot>(
    tiles: &Tiles,
    x: &QuantizedRows,
    row: usize,
    w: &Decoded<S>,
    at: usize,
    products: &mut [Products; AT_ONCE],
) {
    let [first, second, third, fourth] = products;
    multiply::<S, F, 0, 4, 6>(tiles, x, row, w, at, first);
    multiply::<S, F, 1, 5, 7>(tiles, x, row, w, at + 1, second);
    multiply::<S, F, 2, 4, 6>(tiles, x, row, w, at + 2, third);
    multiply::<S, F, 3, 5, 7>(tiles, x, row, w, at + 3, fourth);
}

/// Computes one unit of products.
#[inline(always)]
fn multiply<S: Bytewise, F: BlockDot, const C: u8, const A: u8, const B: u8>(
    tiles: &Tiles,
    x: &QuantizedRows,
    row: usize,
    w: &Decoded<S>,
    at: usize,
    products: &mut Products,
) {
    let words = if F::HAS_HALVES { 4 } else { 8 };
    let (block, half) = w.places[at];
    let (of_rows, stride) = x.strided(row, tiles.shape(usize::from(A)).0, block);
    let weights = &w.weights[words * at..words * (at + 1)];
    tiles.zero::<C>();
    // SAFETY: each of the rows has this block, which starts with its numbers; the weights are the rows of a tile; there
    // is room for 16 rows of products.
    unsafe {
        tiles.load::<A>(of_rows.cast::<u8>().add(16 * half), stride);
        tiles.load::<B>(weights.as_ptr().cast(), ROW);
        tiles.dot_bytes::<C, A, B>();
        tiles.store::<C>((&raw mut products.0).cast(), ROW);
    }
}

#[inline(always)]
fn add<S: Bytewise, F: BlockDot>(
    unit: S,
    products: &[Products; AT_ONCE],
    x: &QuantizedRows,
    row: usize,
    w: &Decoded<S>,
    at: usize,
    sums: &mut [[f32; LANES]],
) {
    // The scales and minimums of the units are read once for all rows.
    let mut scale = [unit.zero(); AT_ONCE];
    let mut least = [unit.zero(); AT_ONCE];
    let mut places = [(0, 0); AT_ONCE];
    scale.copy_from_slice(&w.scale[at..at + AT_ONCE]);
    least.copy_from_slice(&w.least[at..at + AT_ONCE]);
    places.copy_from_slice(&w.places[at..at + AT_ONCE]);
    assert!(sums.len() <= ROWS, "the rows of a tile");
    for (a, to) in sums.iter_mut().enumerate() {
        let blocks: &[Block] = x.row(row + a);
        assert!(places.iter().all(|&(place, _)| place < blocks.len()), "the blocks of a row");
        let mut sum = unit.load(to);
        for i in 0..AT_ONCE {
            let (place, half) = places[i];
            // SAFETY: `place` is the index of a block of the row, and `a` that of a row of a tile.
            let (x, products) = unsafe { (blocks.get_unchecked(place), products[i].0.get_unchecked(a)) };
            let products = unit.float(unit.to_bits(unit.load(products)));
            sum = unit.fma(products, unit.mul(scale[i], unit.splat(x.scale)), sum);
            if F::HAS_LEAST {
                sum = unit.fma(unit.splat(f32::from_bits(x.sums[half & 1])), least[i], sum);
            }
        }
        *to = unit.store(sum);
    }
}
