//! The block formats as integers, sixteen columns at a time.

use super::columns::Columns;
use super::rows::BLOCK;
use crate::bytewise::Bytewise;
use crate::format::{Bits, Blocks, Layout, Numbers, Scales};

/// Two blocks of 32 weights in the layout of products: four weights per lane, one lane per column.
pub(crate) type Weights<S> = [<S as crate::simd::Simd>::Ints; 16];

/// The data that the parts of a stored block share.
pub(crate) struct Header<S: Bytewise> {
    /// The scales and the minimums, or their common factors.
    coarse: [S::Lanes; 2],
    /// The other factors, several per word; or the fifth bits of weights.
    fine: [S::Ints; 4],
}

/// A block format, for products compiled for it.
///
/// # Contract
/// A stored block consists of `PARTS` parts, and a part has 32 weights for each of its `BLOCKS`; [`BlockDot::place`]
/// returns which 32 of the stored block they are.
pub(crate) trait BlockDot: Blocks + Sized {
    const PARTS: usize = if Self::LAYOUT.block == BLOCK { 1 } else { 4 };
    const BLOCKS: usize = if Self::LAYOUT.block == BLOCK { 1 } else { 2 };
    /// The number of groups of 32 weights from a block of a part to the next.
    const APART: usize = if Self::LAYOUT.low.span == 2 * BLOCK { 2 } else { 1 };
    /// Whether there is a scale for each 16 weights, instead of for each 32.
    const HAS_HALVES: bool = Self::LAYOUT.scales.has_halves();
    /// Whether there are minimums, which are added to the scaled weights.
    const HAS_LEAST: bool = matches!(Self::LAYOUT.numbers, Numbers::Least);
    /// Whether the integers are signed.
    const IS_SIGNED: bool = matches!(Self::LAYOUT.numbers, Numbers::Signed | Numbers::Listed(_));

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Header<S> {
        let Layout { bytes, scales, coarse, high, .. } = Self::LAYOUT;
        // Sixteen bytes with the common factors.
        let from = coarse.min(bytes - 16);
        let words = w.bytes16(unit, from);
        let both = match (coarse - from) % 4 {
            0 => words[(coarse - from) / 4],
            _ => unit.shift_right(words[(coarse - from) / 4], 16),
        };
        let (scale, least) = (unit.halves(both), unit.halves(unit.shift_right(both, 16)));
        let none = unit.word(0);
        match scales {
            Scales::One => {
                let fifth = match high {
                    Some(high) => word(unit, words, high.at),
                    None => none,
                };
                Header { coarse: [scale, least], fine: [fifth, none, none, none] }
            }
            Scales::Power => {
                // Half of a power of two, as a product of two powers: the smallest are subnormal in 32 bits.
                let exponent = unit.and(words[0], 0xff);
                let other = unit.add_ints(exponent, unit.word(1));
                let [first, second] = [unit.shift_right(exponent, 1), unit.shift_right(other, 1)];
                let power = unit.mul(power(unit, first), power(unit, second));
                Header { coarse: [power, least], fine: [none; 4] }
            }
            Scales::Q2K => Header { coarse: [scale, negative(unit, least)], fine: w.bytes16(unit, 0) },
            Scales::Q3K => {
                let [first, second, upper] = [word(unit, words, 2), word(unit, words, 6), word(unit, words, 10)];
                let mut fine = [first, second, unit.shift_right(first, 4), unit.shift_right(second, 4)];
                for (i, fine) in fine.iter_mut().enumerate() {
                    let two = unit.and(unit.shift_right(upper, 2 * i as u32), TWO);
                    *fine = unit.or(unit.and(*fine, FOUR), unit.shift_left(two, 4));
                }
                Header { coarse: [scale, least], fine }
            }
            Scales::Q4K => {
                let [_, first, second, third] = words;
                // Six bits of each byte; or four of one byte and two of another.
                let six = 0x3f3f_3f3f;
                let upper = [unit.and(unit.shift_right(first, 6), TWO), unit.and(unit.shift_right(second, 6), TWO)];
                let lower = [unit.and(third, FOUR), unit.and(unit.shift_right(third, 4), FOUR)];
                let scales = [unit.and(first, six), unit.or(lower[0], unit.shift_left(upper[0], 4))];
                let least_ones = [unit.and(second, six), unit.or(lower[1], unit.shift_left(upper[1], 4))];
                let fine = [scales[0], scales[1], least_ones[0], least_ones[1]];
                Header { coarse: [scale, negative(unit, least)], fine }
            }
            Scales::Q6K => {
                let scale = unit.mul(scale, unit.splat(1.0 / 16_777_216.0));
                Header { coarse: [scale, least], fine: w.bytes16(unit, 192) }
            }
            // The upper two bits of scales, and the lower four.
            Scales::Iq4Xs => {
                Header { coarse: [scale, least], fine: [unit.shift_right(words[0], 16), words[1], none, none] }
            }
        }
    }

    /// The weights of a part as integers; the second half is used only if the part has two blocks.
    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, head: &Header<S>, part: usize) -> Weights<S> {
        let Layout { numbers, low, high, .. } = Self::LAYOUT;
        let mut to = [unit.word(0); 16];
        match (low.count, low.span) {
            (8, _) => to[..8].copy_from_slice(&bytes32(unit, w, low.at)),
            (4, 16) => {
                let from = low.at + 16 * Self::BLOCKS * part;
                nibbles(unit, w.bytes16(unit, from), &mut to);
                if Self::BLOCKS == 2 {
                    nibbles(unit, w.bytes16(unit, from + 16), &mut to[8..]);
                }
            }
            _ => add_bits::<S, Self>(unit, w, low, part, 0, &mut to),
        }
        match high {
            Some(high) if high.span == 1 => {
                for (i, to) in to[..8].iter_mut().enumerate() {
                    *to = unit.or(*to, fifths(unit, head.fine[0], i));
                }
            }
            Some(high) => add_bits::<S, Self>(unit, w, high, part, low.count, &mut to),
            None => {}
        }
        if let Numbers::Listed(list) = numbers {
            for to in &mut to[..8 * Self::BLOCKS] {
                *to = unit.look_bytes(list, *to);
            }
        }
        to
    }

    /// The index of a part's block among the stored block's groups of 32 weights.
    #[inline(always)]
    fn place(part: usize, block: usize) -> usize {
        match Self::APART {
            1 => Self::BLOCKS * part + block,
            _ => 4 * (part / 2) + part % 2 + 2 * block,
        }
    }

    /// The scales of the 16 or 32 weights at index `at`.
    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, head: &Header<S>, at: usize) -> S::Lanes {
        let (coarse, fine) = (head.coarse[0], &head.fine);
        match Self::LAYOUT.scales {
            Scales::One | Scales::Power => coarse,
            Scales::Q2K => unit.mul(byte(unit, fine[at / 4], at % 4, 15), coarse),
            Scales::Q3K => unit.mul(unit.add(byte(unit, fine[at / 4], at % 4, 63), unit.splat(-32.0)), coarse),
            Scales::Q4K => unit.mul(byte(unit, fine[at / 4], at % 4, 63), coarse),
            Scales::Q6K => {
                // A byte at the upper end of a word keeps its sign, and is 2^24 times as large.
                let byte = unit.and(unit.shift_left(fine[at / 4], 24 - 8 * (at as u32 % 4)), 0xff00_0000);
                unit.mul(unit.float(byte), coarse)
            }
            Scales::Iq4Xs => {
                let upper = unit.and(unit.shift_right(fine[0], 2 * at as u32), 3);
                let lower = unit.and(unit.shift_right(fine[1], 4 * at as u32), 15);
                let fine = unit.float(unit.or(lower, unit.shift_left(upper, 4)));
                unit.mul(unit.add(fine, unit.splat(-32.0)), coarse)
            }
        }
    }

    /// The minimums of the 16 or 32 weights at index `at`.
    #[inline(always)]
    fn least<S: Bytewise>(unit: S, head: &Header<S>, at: usize) -> S::Lanes {
        let (coarse, fine) = (head.coarse[1], &head.fine);
        match Self::LAYOUT.scales {
            Scales::Q2K => unit.mul(byte(unit, unit.shift_right(fine[at / 4], 4), at % 4, 15), coarse),
            Scales::Q4K => unit.mul(byte(unit, fine[2 + at / 4], at % 4, 63), coarse),
            _ => coarse,
        }
    }
}

impl<F: Blocks> BlockDot for F {}

/// The bound on the size of a format's integers for products with `rows` rows. A larger one than needed takes fewer
/// registers, of which AVX2 has too few for two whole blocks and more than two rows.
pub(crate) const fn most<F: BlockDot>(rows: usize) -> u8 {
    match (F::LAYOUT.numbers, F::LAYOUT.high) {
        (Numbers::Signed, _) => 128,
        (Numbers::Listed(list), _) => {
            let (mut most, mut i) = (0, 0);
            while i < list.len() {
                if list[i].unsigned_abs() > most {
                    most = list[i].unsigned_abs();
                }
                i += 1;
            }
            most
        }
        _ if rows > 2 && F::BLOCKS == 2 && !F::HAS_HALVES => 127,
        (_, Some(high)) => (1 << (F::LAYOUT.low.count + high.count)) - 1,
        (_, None) => (1 << F::LAYOUT.low.count) - 1,
    }
}

/// The lower four bits of each byte, and the lower two.
const FOUR: u32 = 0x0f0f_0f0f;
const TWO: u32 = 0x0303_0303;

/// Four bytes of each column, from an even offset among sixteen.
#[inline(always)]
fn word<S: Bytewise>(unit: S, words: [S::Ints; 4], from: usize) -> S::Ints {
    match from % 4 {
        0 => words[from / 4],
        _ => unit.or(unit.shift_right(words[from / 4], 16), unit.shift_left(words[from / 4 + 1], 16)),
    }
}

/// Two to the power of each number minus 64.
#[inline(always)]
fn power<S: Bytewise>(unit: S, of: S::Ints) -> S::Lanes {
    unit.of_bits(unit.shift_left(unit.add_ints(of, unit.word(63)), 23))
}

#[inline(always)]
fn negative<S: Bytewise>(unit: S, a: S::Lanes) -> S::Lanes {
    unit.mul(a, unit.splat(-1.0))
}

/// The lower halves of sixteen bytes, then the upper halves.
#[inline(always)]
fn nibbles<S: Bytewise>(unit: S, pairs: [S::Ints; 4], to: &mut [S::Ints]) {
    for (i, pairs) in pairs.into_iter().enumerate() {
        to[i] = unit.and(pairs, FOUR);
        to[4 + i] = unit.and(unit.shift_right(pairs, 4), FOUR);
    }
}

/// Thirty-two bytes of each column.
#[inline(always)]
fn bytes32<S: Bytewise>(unit: S, w: Columns<'_>, from: usize) -> [S::Ints; 8] {
    let ([a, b, c, d], [e, f, g, h]) = (w.bytes16(unit, from), w.bytes16(unit, from + 16));
    [a, b, c, d, e, f, g, h]
}

/// Adds some bits to the 64 weights of a part, above the `below` bits that they have. The bits of both its blocks are
/// in the same 32 bytes.
#[inline(always)]
fn add_bits<S: Bytewise, F: BlockDot>(
    unit: S,
    w: Columns<'_>,
    bits: Bits,
    part: usize,
    below: u32,
    to: &mut Weights<S>,
) {
    let (from, shift) = bits.find(BLOCK * F::place(part, 0));
    let apart = bits.count * (BLOCK * F::APART / bits.span) as u32;
    let mask = 0x0101_0101 * ((1 << bits.count) - 1);
    for (i, bytes) in bytes32(unit, w, from).into_iter().enumerate() {
        // Four bits of the first block are the lower halves.
        let bytes = if bits.count == 4 { bytes } else { unit.shift_right(bytes, shift) };
        let [first, second] = [unit.and(bytes, mask), unit.and(unit.shift_right(bytes, apart), mask)];
        if below == 0 {
            (to[i], to[8 + i]) = (first, second);
        } else {
            to[i] = unit.or(to[i], unit.shift_left(first, below));
            to[8 + i] = unit.or(to[8 + i], unit.shift_left(second, below));
        }
    }
}

/// Spreads four bits to the fifth bits of four bytes.
#[inline(always)]
fn fifths<S: Bytewise>(unit: S, bits: S::Ints, at: usize) -> S::Ints {
    let four = unit.and(unit.shift_right(bits, 4 * at as u32), 15);
    let apart = unit.or(four, unit.shift_left(four, 7));
    let apart = unit.or(apart, unit.shift_left(apart, 14));
    unit.shift_left(unit.and(apart, 0x0101_0101), 4)
}

/// Byte `at` of each lane, masked, as a float.
#[inline(always)]
fn byte<S: Bytewise>(unit: S, words: S::Ints, at: usize, mask: u32) -> S::Lanes {
    unit.float(unit.and(unit.shift_right(words, 8 * at as u32), mask))
}
