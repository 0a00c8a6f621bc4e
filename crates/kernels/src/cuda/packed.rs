//! Matrices in the order in which tensor cores read them: those in block formats as a record for each sixteen rows and
//! 128 columns, as `packed.cuh` describes them.

use rayon::prelude::*;

use crate::decode::{factors, fine_bytes};
use crate::format::{Bits, Blocks, Format, Layout, Numbers, Scales, with_blocks};

/// Rows and columns of a record, and columns of a group, which has one scale or two.
const TILE: usize = 16;
const SLAB: usize = 128;
const GROUP: usize = 32;

/// Rows of weights of two bytes have a multiple of this many columns.
const PADDED: usize = 64;

/// Packs rows of `columns` weights in a block format.
pub(super) fn pack(format: Format, bytes: &[u8], columns: usize) -> Vec<u8> {
    with_blocks!(format, F => pack_as::<F>(bytes, columns))
}

/// Where the parts of a record are.
struct Record {
    low: usize,
    high: usize,
    /// The offset of the scales, and the bytes of a row in each of their planes: scales (in [`Scales::One`] and
    /// [`Scales::Power`]) or fine factors; minimums; coarse factors.
    scales: usize,
    fine_bytes: usize,
    has_least: bool,
    coarse_bytes: usize,
}

impl Record {
    const fn new(layout: Layout) -> Self {
        let low = layout.low.count as usize;
        let high = match layout.high {
            Some(bits) => bits.count as usize,
            None => 0,
        };
        let has_least = matches!(layout.numbers, Numbers::Least);
        let (fine_bytes, coarse_bytes) = match layout.scales {
            Scales::One => (8, 0),
            Scales::Power => (4, 0),
            scales => (if scales.has_halves() { 8 } else { 4 }, if has_least { 4 } else { 2 }),
        };
        Self { low, high, scales: 256 * (low + high), fine_bytes, has_least, coarse_bytes }
    }

    const fn bytes(&self) -> usize {
        let planes = if self.has_least { 2 } else { 1 };
        self.scales + TILE * (self.fine_bytes * planes + self.coarse_bytes)
    }
}

fn pack_as<F: Blocks>(bytes: &[u8], columns: usize) -> Vec<u8> {
    let row_bytes = columns / F::LAYOUT.block * F::LAYOUT.bytes;
    let record = Record::new(F::LAYOUT);
    let (rows, slabs) = (bytes.len() / row_bytes, columns.div_ceil(SLAB));
    let mut packed = vec![0; rows.div_ceil(TILE) * slabs * record.bytes()];
    packed.par_chunks_exact_mut(slabs * record.bytes()).enumerate().for_each(|(tile, of_tile)| {
        for (i, row) in bytes.chunks_exact(row_bytes).skip(tile * TILE).take(TILE).enumerate() {
            for (slab, into) in of_tile.chunks_exact_mut(record.bytes()).enumerate() {
                for group in 0..(columns - slab * SLAB).min(SLAB) / GROUP {
                    let weight = slab * SLAB + group * GROUP;
                    let block = &row[weight / F::LAYOUT.block * F::LAYOUT.bytes..][..F::LAYOUT.bytes];
                    pack_group::<F>(block, weight % F::LAYOUT.block, into, i, group);
                }
            }
        }
    });
    packed
}

/// Packs 32 weights of a block, from number `first` on, as a group of row `row` of a record.
#[inline(always)]
fn pack_group<F: Blocks>(block: &[u8], first: usize, into: &mut [u8], row: usize, group: usize) {
    let Layout { scales, coarse, low, high, .. } = F::LAYOUT;
    let record = const { Record::new(F::LAYOUT) };
    for pair in 0..GROUP / 2 {
        let (lane, at) = place(pair);
        for weight in [2 * pair, 2 * pair + 1] {
            let code = |bits: Bits| {
                let (byte, shift) = bits.find(first + weight);
                u32::from(block[byte]) >> shift & ((1 << bits.count) - 1)
            };
            let lane = row % 8 * 4 + lane;
            put_code(&mut into[row / 8 * 128 * record.low..], record.low, lane, 4 * group + at, weight % 2, code(low));
            if let Some(bits) = high {
                let plane = &mut into[256 * record.low + row / 8 * 128 * record.high..];
                put_code(plane, record.high, lane, 4 * group + at, weight % 2, code(bits));
            }
        }
    }
    let planes = &mut into[record.scales..];
    // Both rows of a lane are adjacent.
    let nth = row % 8 * 2 + row / 8;
    let fine = nth * record.fine_bytes;
    let least = TILE * record.fine_bytes + fine;
    match scales {
        Scales::One => {
            planes[fine + 2 * group..][..2].copy_from_slice(&block[coarse..coarse + 2]);
            if record.has_least {
                planes[least + 2 * group..][..2].copy_from_slice(&block[coarse + 2..coarse + 4]);
            }
        }
        Scales::Power => planes[fine + group] = block[0],
        _ => {
            let parts = if scales.has_halves() { 2 } else { 1 };
            let bytes = fine_bytes(scales, block);
            for part in 0..parts {
                let (factor, least_factor) = factors(scales, &bytes, first / 16 + part);
                planes[fine + parts * group + part] = factor as u8;
                if record.has_least {
                    planes[least + parts * group + part] = least_factor;
                }
            }
            let at = TILE * record.fine_bytes * (1 + usize::from(record.has_least)) + nth * record.coarse_bytes;
            planes[at..at + record.coarse_bytes].copy_from_slice(&block[coarse..coarse + record.coarse_bytes]);
        }
    }
}

/// The lane, among the four of a row, that has a pair of columns of a group, and the number of the pair there.
#[inline(always)]
const fn place(pair: usize) -> (usize, usize) {
    (pair % 8 / 2, pair / 8 * 2 + pair % 2)
}

/// Orders rows of weights of two bytes as lanes read them: in each group of columns, the pairs of a lane are adjacent.
/// Rows are padded with zeros to a multiple of [`PADDED`] columns.
///
/// # Panics
/// If rows are not whole groups.
pub(super) fn order(bytes: &[u8], columns: usize) -> Vec<u8> {
    let padded = columns.next_multiple_of(PADDED);
    let mut ordered = vec![0; bytes.len() / columns * padded];
    let rows = ordered.par_chunks_exact_mut(2 * padded).zip(bytes.par_chunks_exact(2 * columns));
    rows.for_each(|(to, from)| {
        let groups = to.chunks_exact_mut(2 * GROUP).zip(from.chunks_exact(2 * GROUP));
        for (to, from) in groups {
            for (pair, two) in from.as_chunks::<4>().0.iter().enumerate() {
                let (lane, at) = place(pair);
                to[4 * (4 * lane + at)..][..4].copy_from_slice(two);
            }
        }
    });
    ordered
}

/// Sets `bits` bits of a number of pair `pair` of a lane. The words of a lane come at most four at once, those of all
/// lanes together.
#[inline(always)]
fn put_code(plane: &mut [u8], bits: usize, lane: usize, pair: usize, number: usize, code: u32) {
    let in_a_word = 16 / bits;
    let (word, shift) = (pair / in_a_word, pair % in_a_word * bits + 16 * number);
    let together = bits.min(4);
    let at = (word / together * 32 * together + lane * together + word % together) * 4;
    let word: &mut [u8; 4] = (&mut plane[at..at + 4]).try_into().expect("four bytes");
    *word = (u32::from_le_bytes(*word) | code << shift).to_le_bytes();
}
