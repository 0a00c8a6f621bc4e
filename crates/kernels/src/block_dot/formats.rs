//! The block formats as integers, sixteen columns at a time.

use super::columns::Columns;
use crate::bytewise::Bytewise;
use crate::format::{Format, MICRO_FLOATS, NON_LINEAR};

/// Two blocks of 32 weights in the layout of products: four weights per lane, one lane per column.
pub(crate) type Weights<S> = [<S as crate::simd::Simd>::Ints; 16];

/// A block format, for kernels compiled for it.
///
/// # Contract
/// A stored block consists of `PARTS` parts, and a part has 32 weights for each of its `BLOCKS`; [`BlockDot::place`]
/// returns which 32 of the stored block they are.
pub(crate) trait BlockDot {
    const FORMAT: Format;
    const PARTS: usize = 1;
    const BLOCKS: usize = 1;
    /// Whether there is a scale for each 16 weights, instead of for each 32.
    const HAS_HALVES: bool = false;
    /// Whether there are minimums, which are added to the scaled weights.
    const HAS_LEAST: bool = false;
    /// Whether the integers are signed.
    const IS_SIGNED: bool = false;
    /// The data that the parts of a block share.
    type Header<S: Bytewise>: Copy;

    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S>;

    /// The weights of a part as integers; the second half is used only if the part has two blocks.
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, head: &Self::Header<S>, part: usize) -> Weights<S>;

    /// The index of a part's block among the stored block's groups of 32 weights.
    #[inline(always)]
    fn place(part: usize, block: usize) -> usize {
        Self::BLOCKS * part + block
    }

    /// The scales of the 16 or 32 weights at index `at`.
    fn scale<S: Bytewise>(unit: S, head: &Self::Header<S>, at: usize) -> S::Lanes;

    /// The minimums of the 16 or 32 weights at index `at`.
    fn least<S: Bytewise>(_unit: S, _head: &Self::Header<S>, _at: usize) -> S::Lanes {
        unreachable!("weights without a least one")
    }
}

pub(crate) struct Q8_0;
pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q2K;
pub(crate) struct Q3K;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;
pub(crate) struct Iq4Nl;
pub(crate) struct Iq4Xs;
pub(crate) struct Mxfp4;

/// The lower four bits of each byte, and the lower two.
const FOUR: u32 = 0x0f0f_0f0f;
const TWO: u32 = 0x0303_0303;

#[inline(always)]
fn none<S: Bytewise>(unit: S) -> Weights<S> {
    [unit.word(0); 16]
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

impl BlockDot for Q8_0 {
    const FORMAT: Format = Format::Q8_0;
    const IS_SIGNED: bool = true;
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> S::Lanes {
        unit.halves(w.bytes16(unit, 0)[0])
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &S::Lanes, _: usize) -> Weights<S> {
        let mut to = none(unit);
        to[..8].copy_from_slice(&bytes32(unit, w, 2));
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, &head: &S::Lanes, _: usize) -> S::Lanes {
        head
    }
}

impl BlockDot for Q4_0 {
    const FORMAT: Format = Format::Q4_0;
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> S::Lanes {
        unit.halves(w.bytes16(unit, 0)[0])
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &S::Lanes, _: usize) -> Weights<S> {
        let mut to = none(unit);
        nibbles(unit, w.bytes16(unit, 2), &mut to);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, &head: &S::Lanes, _: usize) -> S::Lanes {
        head
    }
}

impl BlockDot for Q4_1 {
    const FORMAT: Format = Format::Q4_1;
    const HAS_LEAST: bool = true;
    /// Scales and minimums.
    type Header<S: Bytewise> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> [S::Lanes; 2] {
        let both = w.bytes16(unit, 0)[0];
        [unit.halves(both), unit.halves(unit.shift_right(both, 16))]
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &[S::Lanes; 2], _: usize) -> Weights<S> {
        let mut to = none(unit);
        nibbles(unit, w.bytes16(unit, 4), &mut to);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, head: &[S::Lanes; 2], _: usize) -> S::Lanes {
        head[0]
    }

    #[inline(always)]
    fn least<S: Bytewise>(_: S, head: &[S::Lanes; 2], _: usize) -> S::Lanes {
        head[1]
    }
}

impl BlockDot for Q5_0 {
    const FORMAT: Format = Format::Q5_0;
    /// Scales, and the fifth bits.
    type Header<S: Bytewise> = (S::Lanes, S::Ints);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S> {
        let [first, second, ..] = w.bytes16(unit, 0);
        (unit.halves(first), unit.or(unit.shift_right(first, 16), unit.shift_left(second, 16)))
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, &(_, bits): &Self::Header<S>, _: usize) -> Weights<S> {
        let mut to = none(unit);
        nibbles(unit, w.bytes16(unit, 6), &mut to);
        for (i, to) in to[..8].iter_mut().enumerate() {
            *to = unit.or(*to, fifths(unit, bits, i));
        }
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, &(scale, _): &Self::Header<S>, _: usize) -> S::Lanes {
        scale
    }
}

impl BlockDot for Q5_1 {
    const FORMAT: Format = Format::Q5_1;
    const HAS_LEAST: bool = true;
    /// Scales and minimums, and the fifth bits.
    type Header<S: Bytewise> = ([S::Lanes; 2], S::Ints);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S> {
        let [both, bits, ..] = w.bytes16(unit, 0);
        ([unit.halves(both), unit.halves(unit.shift_right(both, 16))], bits)
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, &(_, bits): &Self::Header<S>, _: usize) -> Weights<S> {
        let mut to = none(unit);
        nibbles(unit, w.bytes16(unit, 8), &mut to);
        for (i, to) in to[..8].iter_mut().enumerate() {
            *to = unit.or(*to, fifths(unit, bits, i));
        }
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, (both, _): &Self::Header<S>, _: usize) -> S::Lanes {
        both[0]
    }

    #[inline(always)]
    fn least<S: Bytewise>(_: S, (both, _): &Self::Header<S>, _: usize) -> S::Lanes {
        both[1]
    }
}

/// The lower two bits of the weights of a part: of 128 weights the first 32 are the lowest two bits of 32 bytes, the
/// next 32 the next two, and so on.
#[inline(always)]
fn two_bits<S: Bytewise>(unit: S, w: Columns<'_>, from: usize, part: usize) -> Weights<S> {
    let mut to = none(unit);
    for (i, four) in bytes32(unit, w, from + 32 * (part / 2)).into_iter().enumerate() {
        let four = unit.shift_right(four, 4 * (part as u32 % 2));
        to[i] = unit.and(four, TWO);
        to[8 + i] = unit.and(unit.shift_right(four, 2), TWO);
    }
    to
}

/// Adds bit `place` to the weights of a part, from 32 bytes with one bit for each 32 weights of a block.
#[inline(always)]
fn add_bits<S: Bytewise>(unit: S, w: Columns<'_>, from: usize, part: usize, place: u32, to: &mut Weights<S>) {
    for (i, bits) in bytes32(unit, w, from).into_iter().enumerate() {
        let bits = unit.shift_right(bits, 2 * part as u32);
        let [first, second] = [unit.and(bits, 0x0101_0101), unit.and(unit.shift_right(bits, 1), 0x0101_0101)];
        to[i] = unit.or(to[i], unit.shift_left(first, place));
        to[8 + i] = unit.or(to[8 + i], unit.shift_left(second, place));
    }
}

impl BlockDot for Q2K {
    const FORMAT: Format = Format::Q2K;
    const PARTS: usize = 4;
    const BLOCKS: usize = 2;
    const HAS_HALVES: bool = true;
    const HAS_LEAST: bool = true;
    /// Four-bit scales and offsets, and their common factors.
    type Header<S: Bytewise> = ([S::Ints; 4], [S::Lanes; 2]);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S> {
        let both = w.bytes16(unit, 68)[3];
        let offsets = unit.halves(unit.shift_right(both, 16));
        (w.bytes16(unit, 0), [unit.halves(both), unit.mul(offsets, unit.splat(-1.0))])
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &Self::Header<S>, part: usize) -> Weights<S> {
        two_bits(unit, w, 16, part)
    }

    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, (fine, coarse): &Self::Header<S>, at: usize) -> S::Lanes {
        unit.mul(byte(unit, fine[at / 4], at % 4, 15), coarse[0])
    }

    #[inline(always)]
    fn least<S: Bytewise>(unit: S, (fine, coarse): &Self::Header<S>, at: usize) -> S::Lanes {
        unit.mul(byte(unit, unit.shift_right(fine[at / 4], 4), at % 4, 15), coarse[1])
    }
}

impl BlockDot for Q3K {
    const FORMAT: Format = Format::Q3K;
    const PARTS: usize = 4;
    const BLOCKS: usize = 2;
    const HAS_HALVES: bool = true;
    /// Six-bit scales, and their common factor.
    type Header<S: Bytewise> = ([S::Ints; 4], S::Lanes);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S> {
        // Twelve bytes of scales, and the last two bytes of the block.
        let [a, b, c, d] = w.bytes16(unit, 94);
        let joined = [(a, b), (b, c), (c, d)];
        let mut words = [a; 3];
        for (word, (low, high)) in words.iter_mut().zip(joined) {
            *word = unit.or(unit.shift_right(low, 16), unit.shift_left(high, 16));
        }
        // The lower four bits of the first eight scales are in the lower halves of eight bytes, those of the others in
        // the upper halves, and the upper two bits of all in four more bytes.
        let [first, second, upper] = words;
        let lower = [first, second, unit.shift_right(first, 4), unit.shift_right(second, 4)];
        let mut fine = lower;
        for (i, fine) in fine.iter_mut().enumerate() {
            let two = unit.and(unit.shift_right(upper, 2 * i as u32), TWO);
            *fine = unit.or(unit.and(lower[i], FOUR), unit.shift_left(two, 4));
        }
        (fine, unit.halves(unit.shift_right(d, 16)))
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &Self::Header<S>, part: usize) -> Weights<S> {
        let mut to = two_bits(unit, w, 32, part);
        add_bits(unit, w, 0, part, 2, &mut to);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, (fine, coarse): &Self::Header<S>, at: usize) -> S::Lanes {
        unit.mul(unit.add(byte(unit, fine[at / 4], at % 4, 63), unit.splat(-32.0)), *coarse)
    }
}

/// Six-bit scales and offsets in a block of `Q4K` or `Q5K`, four per word, and their common factors.
#[derive(Clone, Copy)]
pub(crate) struct OfEach32<S: Bytewise> {
    scales: [S::Ints; 2],
    offsets: [S::Ints; 2],
    coarse: [S::Lanes; 2],
}

impl<S: Bytewise> OfEach32<S> {
    #[inline(always)]
    fn new(unit: S, w: Columns<'_>) -> Self {
        let [both, first, second, third] = w.bytes16(unit, 0);
        let offset = unit.mul(unit.halves(unit.shift_right(both, 16)), unit.splat(-1.0));
        // Six bits of each byte; or four of one byte and two of another.
        let six = 0x3f3f_3f3f;
        let upper = [unit.and(unit.shift_right(first, 6), TWO), unit.and(unit.shift_right(second, 6), TWO)];
        let lower = [unit.and(third, FOUR), unit.and(unit.shift_right(third, 4), FOUR)];
        Self {
            scales: [unit.and(first, six), unit.or(lower[0], unit.shift_left(upper[0], 4))],
            offsets: [unit.and(second, six), unit.or(lower[1], unit.shift_left(upper[1], 4))],
            coarse: [unit.halves(both), offset],
        }
    }

    #[inline(always)]
    fn scale(&self, unit: S, at: usize) -> S::Lanes {
        unit.mul(byte(unit, self.scales[at / 4], at % 4, 63), self.coarse[0])
    }

    #[inline(always)]
    fn least(&self, unit: S, at: usize) -> S::Lanes {
        unit.mul(byte(unit, self.offsets[at / 4], at % 4, 63), self.coarse[1])
    }
}

/// 64 weights: the first half in the lower halves of 32 bytes, the others in the upper halves.
#[inline(always)]
fn of_pairs<S: Bytewise>(unit: S, w: Columns<'_>, from: usize) -> Weights<S> {
    let mut to = none(unit);
    for (i, pairs) in bytes32(unit, w, from).into_iter().enumerate() {
        to[i] = unit.and(pairs, FOUR);
        to[8 + i] = unit.and(unit.shift_right(pairs, 4), FOUR);
    }
    to
}

impl BlockDot for Q4K {
    const FORMAT: Format = Format::Q4K;
    const PARTS: usize = 4;
    const BLOCKS: usize = 2;
    const HAS_LEAST: bool = true;
    type Header<S: Bytewise> = OfEach32<S>;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> OfEach32<S> {
        OfEach32::new(unit, w)
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &OfEach32<S>, part: usize) -> Weights<S> {
        of_pairs(unit, w, 16 + 32 * part)
    }

    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, head: &OfEach32<S>, at: usize) -> S::Lanes {
        head.scale(unit, at)
    }

    #[inline(always)]
    fn least<S: Bytewise>(unit: S, head: &OfEach32<S>, at: usize) -> S::Lanes {
        head.least(unit, at)
    }
}

impl BlockDot for Q5K {
    const FORMAT: Format = Format::Q5K;
    const PARTS: usize = 4;
    const BLOCKS: usize = 2;
    const HAS_LEAST: bool = true;
    type Header<S: Bytewise> = OfEach32<S>;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> OfEach32<S> {
        OfEach32::new(unit, w)
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &OfEach32<S>, part: usize) -> Weights<S> {
        let mut to = of_pairs(unit, w, 48 + 32 * part);
        add_bits(unit, w, 16, part, 4, &mut to);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, head: &OfEach32<S>, at: usize) -> S::Lanes {
        head.scale(unit, at)
    }

    #[inline(always)]
    fn least<S: Bytewise>(unit: S, head: &OfEach32<S>, at: usize) -> S::Lanes {
        head.least(unit, at)
    }
}

impl BlockDot for Q6K {
    const FORMAT: Format = Format::Q6K;
    const PARTS: usize = 4;
    const BLOCKS: usize = 2;
    const HAS_HALVES: bool = true;
    /// Eight-bit scales, and their common factor.
    type Header<S: Bytewise> = ([S::Ints; 4], S::Lanes);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S> {
        let coarse = unit.halves(unit.shift_right(w.bytes16(unit, 194)[3], 16));
        (w.bytes16(unit, 192), unit.mul(coarse, unit.splat(1.0 / 16_777_216.0)))
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &Self::Header<S>, part: usize) -> Weights<S> {
        // Of 128 weights the first 64 have their lower four bits in the lower halves of 64 bytes; the upper two bits of
        // all are in 32 bytes.
        let (of_both, half) = (part / 2, part as u32 % 2);
        let mut to = of_pairs(unit, w, 64 * of_both + 32 * half as usize);
        for (i, upper) in bytes32(unit, w, 128 + 32 * of_both).into_iter().enumerate() {
            let upper = unit.shift_right(upper, 2 * half);
            let [first, second] = [unit.and(upper, TWO), unit.and(unit.shift_right(upper, 4), TWO)];
            to[i] = unit.or(to[i], unit.shift_left(first, 4));
            to[8 + i] = unit.or(to[8 + i], unit.shift_left(second, 4));
        }
        to
    }

    #[inline(always)]
    fn place(part: usize, block: usize) -> usize {
        4 * (part / 2) + part % 2 + 2 * block
    }

    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, (fine, coarse): &Self::Header<S>, at: usize) -> S::Lanes {
        // A byte at the upper end of a word keeps its sign, and is 2^24 times as large.
        let byte = unit.and(unit.shift_left(fine[at / 4], 24 - 8 * (at as u32 % 4)), 0xff00_0000);
        unit.mul(unit.float(byte), *coarse)
    }
}

/// Looks up thirty-two weights in a list, from sixteen pairs of four-bit indices.
#[inline(always)]
fn listed<S: Bytewise>(unit: S, list: &[i8; 16], pairs: [S::Ints; 4], to: &mut [S::Ints]) {
    nibbles(unit, pairs, to);
    for to in to[..8].iter_mut() {
        *to = unit.look_bytes(list, *to);
    }
}

impl BlockDot for Iq4Nl {
    const FORMAT: Format = Format::Iq4Nl;
    const IS_SIGNED: bool = true;
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> S::Lanes {
        unit.halves(w.bytes16(unit, 0)[0])
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &S::Lanes, _: usize) -> Weights<S> {
        let mut to = none(unit);
        listed(unit, &NON_LINEAR, w.bytes16(unit, 2), &mut to);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, &head: &S::Lanes, _: usize) -> S::Lanes {
        head
    }
}

impl BlockDot for Iq4Xs {
    const FORMAT: Format = Format::Iq4Xs;
    const PARTS: usize = 4;
    const BLOCKS: usize = 2;
    const IS_SIGNED: bool = true;
    /// The upper two bits of scales, the lower four, and their common factor.
    type Header<S: Bytewise> = (S::Ints, S::Ints, S::Lanes);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> Self::Header<S> {
        let [first, lower, ..] = w.bytes16(unit, 0);
        (unit.shift_right(first, 16), lower, unit.halves(first))
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &Self::Header<S>, part: usize) -> Weights<S> {
        let mut to = none(unit);
        listed(unit, &NON_LINEAR, w.bytes16(unit, 8 + 32 * part), &mut to);
        listed(unit, &NON_LINEAR, w.bytes16(unit, 24 + 32 * part), &mut to[8..]);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(unit: S, &(upper, lower, coarse): &Self::Header<S>, at: usize) -> S::Lanes {
        let upper = unit.and(unit.shift_right(upper, 2 * at as u32), 3);
        let lower = unit.and(unit.shift_right(lower, 4 * at as u32), 15);
        let fine = unit.float(unit.or(lower, unit.shift_left(upper, 4)));
        unit.mul(unit.add(fine, unit.splat(-32.0)), coarse)
    }
}

/// Two to the power of each number minus 64.
#[inline(always)]
fn power<S: Bytewise>(unit: S, of: S::Ints) -> S::Lanes {
    unit.of_bits(unit.shift_left(unit.add_ints(of, unit.word(63)), 23))
}

impl BlockDot for Mxfp4 {
    const FORMAT: Format = Format::Mxfp4;
    const IS_SIGNED: bool = true;
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, w: Columns<'_>) -> S::Lanes {
        // Half of a power of two, as a product of two powers: the smallest are subnormal in 32 bits.
        let exponent = unit.and(w.bytes16(unit, 0)[0], 0xff);
        let other = unit.add_ints(exponent, unit.word(1));
        let [first, second] = [unit.shift_right(exponent, 1), unit.shift_right(other, 1)];
        unit.mul(power(unit, first), power(unit, second))
    }

    #[inline(always)]
    fn weights<S: Bytewise>(unit: S, w: Columns<'_>, _: &S::Lanes, _: usize) -> Weights<S> {
        let mut to = none(unit);
        listed(unit, &MICRO_FLOATS, w.bytes16(unit, 1), &mut to);
        to
    }

    #[inline(always)]
    fn scale<S: Bytewise>(_: S, &head: &S::Lanes, _: usize) -> S::Lanes {
        head
    }
}
