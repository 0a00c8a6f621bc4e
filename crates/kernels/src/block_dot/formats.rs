//! The block formats as whole numbers, two blocks of 32 at a time.

use crate::bytewise::Bytewise;
use crate::decode::{at, five_bits, half_power, iq4xs_scales, q3k_scales};
use crate::format::{MICRO_FLOATS, NON_LINEAR};

/// A format of blocks, for a kernel that is compiled for it.
///
/// # Contract
/// The weights of a group are those of its steps, in order.
pub(crate) trait BlockDot {
    /// Steps whose bytes lie together.
    const STEPS: usize;
    const BYTES: usize;
    /// Whether each 32 weights have an offset, which a group has together.
    const HAS_OFFSETS: bool = false;
    /// Whether weights have least ones, which are known step by step.
    const HAS_LEAST: bool = false;
    /// Whether weights were larger before they were stored, or units need it.
    const HAS_START: bool = true;
    /// What the steps of a group share.
    type Header<S: Bytewise>: Copy;

    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> Self::Header<S>;

    /// The weights of a step, and for each lane what their products are multiplied by.
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: Self::Header<S>, step: usize) -> (S::Bytes, S::Lanes);

    /// As [`BlockDot::step`], where a row ends after the first block.
    fn last<S: Bytewise>(_unit: S, _bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        unreachable!("rows are whole groups")
    }

    /// The products of a step.
    fn dot<S: Bytewise>(unit: S, weights: S::Bytes, numbers: S::Bytes, start: S::Ints) -> S::Ints {
        unit.dot_small(weights, numbers, start)
    }

    /// The least weights of a step, by which the sums of each lane's four numbers are multiplied.
    fn least<S: Bytewise>(_unit: S, _bytes: &[u8], _head: Self::Header<S>, _step: usize) -> S::Lanes {
        unreachable!("weights without a least one")
    }

    /// As [`BlockDot::least`], where a row ends after the first block.
    fn last_least<S: Bytewise>(_unit: S, _bytes: &[u8]) -> S::Lanes {
        unreachable!("rows are whole groups, or weights have no least one")
    }

    /// What the sums of a row's blocks are multiplied by, in the lanes in which they are.
    fn offsets<S: Bytewise>(_: S, _: Self::Header<S>) -> S::Lanes {
        unreachable!("weights without offsets")
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

impl BlockDot for Q8_0 {
    const STEPS: usize = 1;
    const BYTES: usize = 68;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

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

/// Sixteen bytes twice: of the second the upper halves will be taken.
#[inline(always)]
fn twice(bytes: &[u8; 16]) -> [u8; 32] {
    let mut out = [0; 32];
    out[..16].copy_from_slice(bytes);
    out[16..].copy_from_slice(bytes);
    out
}

impl BlockDot for Q4_0 {
    const STEPS: usize = 1;
    const BYTES: usize = 36;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 18)));
        let pairs = unit.join(&twice(at(bytes, 2)), &twice(at(bytes, 20)));
        (unit.shift_and(pairs, [0, 4, 0, 4], 15), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let pairs = unit.join(&twice(at(bytes, 2)), &[0; 32]);
        (unit.shift_and(pairs, [0, 4, 0, 4], 15), unit.halves(unit.half(*at(bytes, 0)), 0.0))
    }
}

impl BlockDot for Q4_1 {
    const STEPS: usize = 1;
    const BYTES: usize = 40;
    const HAS_LEAST: bool = true;
    const HAS_START: bool = false;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 20)));
        let pairs = unit.join(&twice(at(bytes, 4)), &twice(at(bytes, 24)));
        (unit.shift_and(pairs, [0, 4, 0, 4], 15), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let pairs = unit.join(&twice(at(bytes, 4)), &[0; 32]);
        (unit.shift_and(pairs, [0, 4, 0, 4], 15), unit.halves(unit.half(*at(bytes, 0)), 0.0))
    }

    #[inline(always)]
    fn least<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> S::Lanes {
        unit.halves(unit.half(*at(bytes, 2)), unit.half(*at(bytes, 22)))
    }

    #[inline(always)]
    fn last_least<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        unit.halves(unit.half(*at(bytes, 2)), 0.0)
    }
}

impl BlockDot for Q5_0 {
    const STEPS: usize = 1;
    const BYTES: usize = 44;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 22)));
        let (first, second) = (five_bits(at(bytes, 2), at(bytes, 6)), five_bits(at(bytes, 24), at(bytes, 28)));
        (unit.join(&first, &second), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let first = five_bits(at(bytes, 2), at(bytes, 6));
        (unit.join(&first, &[0; 32]), unit.halves(unit.half(*at(bytes, 0)), 0.0))
    }
}

impl BlockDot for Q5_1 {
    const STEPS: usize = 1;
    const BYTES: usize = 48;
    const HAS_LEAST: bool = true;
    const HAS_START: bool = false;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 24)));
        let (first, second) = (five_bits(at(bytes, 4), at(bytes, 8)), five_bits(at(bytes, 28), at(bytes, 32)));
        (unit.join(&first, &second), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let first = five_bits(at(bytes, 4), at(bytes, 8));
        (unit.join(&first, &[0; 32]), unit.halves(unit.half(*at(bytes, 0)), 0.0))
    }

    #[inline(always)]
    fn least<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> S::Lanes {
        unit.halves(unit.half(*at(bytes, 2)), unit.half(*at(bytes, 26)))
    }

    #[inline(always)]
    fn last_least<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        unit.halves(unit.half(*at(bytes, 2)), 0.0)
    }
}

/// The lower two bits of the weights of a step: of 128 weights the first 32 have the lowest two bits of 32 bytes, the
/// next 32 the next.
#[inline(always)]
fn two_bits<S: Bytewise>(unit: S, all: &[u8], step: usize) -> S::Bytes {
    let (four, shift) = (at(all, 32 * (step / 2)), 4 * (step as u32 % 2));
    unit.shift_and(unit.join(four, four), [shift, shift, shift + 2, shift + 2], 3)
}

/// For each 32 weights of four or five bits in a group a bit of their own, of 32 bytes: those of a step.
#[inline(always)]
fn upper_bits<S: Bytewise>(unit: S, all: &[u8; 32], step: usize) -> S::Bytes {
    let shift = 2 * step as u32;
    unit.shift_and(unit.join(all, all), [shift, shift, shift + 1, shift + 1], 1)
}

impl BlockDot for Q2K {
    const STEPS: usize = 4;
    const BYTES: usize = 84;
    const HAS_LEAST: bool = true;
    const HAS_START: bool = false;
    /// The scales of sixteen blocks, and their offsets.
    type Header<S: Bytewise> = (S::Lanes, S::Lanes);

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Lanes, S::Lanes) {
        let fine = unit.bytes(at(bytes, 0));
        let (scale, offset) = (unit.half(*at(bytes, 80)), -unit.half(*at(bytes, 82)));
        let (scales, offsets) = (unit.float(unit.and(fine, 15)), unit.float(unit.shift_right(fine, 4)));
        (unit.mul(scales, unit.splat(scale)), unit.mul(offsets, unit.splat(offset)))
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (scales, _): Self::Header<S>, step: usize) -> (S::Bytes, S::Lanes) {
        (two_bits(unit, &bytes[16..80], step), unit.spread_quarters(scales, step))
    }

    #[inline(always)]
    fn least<S: Bytewise>(unit: S, _: &[u8], (_, offsets): Self::Header<S>, step: usize) -> S::Lanes {
        unit.spread_quarters(offsets, step)
    }
}

impl BlockDot for Q3K {
    const STEPS: usize = 4;
    const BYTES: usize = 110;
    /// The scales of sixteen blocks.
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        let fine = unit.float(unit.bytes_of(q3k_scales(at(bytes, 96))));
        unit.mul(unit.add(fine, unit.splat(-32.0)), unit.splat(unit.half(*at(bytes, 108))))
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: S::Lanes, step: usize) -> (S::Bytes, S::Lanes) {
        let third = unit.shift_up(upper_bits(unit, at(bytes, 0), step), 2);
        (unit.or_bytes(two_bits(unit, &bytes[32..96], step), third), unit.spread_quarters(head, step))
    }
}

/// The scales of the eight blocks of a group of Q4_K or Q5_K, and then their offsets.
#[inline(always)]
fn of_each_32<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
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

impl BlockDot for Q4K {
    const STEPS: usize = 4;
    const BYTES: usize = 144;
    const HAS_OFFSETS: bool = true;
    const HAS_START: bool = false;
    /// The scales of eight blocks, and then their offsets.
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        of_each_32(unit, bytes)
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

impl BlockDot for Q5K {
    const STEPS: usize = 4;
    const BYTES: usize = 176;
    const HAS_OFFSETS: bool = true;
    const HAS_START: bool = false;
    /// The scales of eight blocks, and then their offsets.
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        of_each_32(unit, bytes)
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: S::Lanes, step: usize) -> (S::Bytes, S::Lanes) {
        let pairs = at(bytes, 48 + 32 * step);
        let lower = unit.shift_and(unit.join(pairs, pairs), [0, 0, 4, 4], 15);
        let fifth = unit.shift_up(upper_bits(unit, at(bytes, 16), step), 4);
        (unit.or_bytes(lower, fifth), unit.spread_halves(head, step))
    }

    #[inline(always)]
    fn offsets<S: Bytewise>(_: S, head: S::Lanes) -> S::Lanes {
        head
    }
}

impl BlockDot for Q6K {
    const STEPS: usize = 4;
    const BYTES: usize = 210;
    /// The scales of sixteen blocks.
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        unit.mul(unit.float(unit.signed(at(bytes, 192))), unit.splat(unit.half(*at(bytes, 208))))
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: S::Lanes, step: usize) -> (S::Bytes, S::Lanes) {
        // As `Decode` has it: of 128 weights the first 64 have their lower four bits in the lower halves of 64 bytes,
        // and the upper two of all lie in 32 bytes.
        let (of_both, shift) = (step / 2, 4 * (step as u32 % 2));
        let lower = unit.shift_and(unit.bytes64(at(bytes, 64 * of_both)), [shift; 4], 15);
        let upper = at(bytes, 128 + 32 * of_both);
        let upper = unit.shift_and(unit.join(upper, upper), [shift, shift, shift + 2, shift + 2], 3);
        (unit.or_bytes(lower, unit.shift_up(upper, 4)), unit.spread_quarters(head, step))
    }
}

/// The weights of two blocks of sixteen pairs, each half of a pair the place of a number in a list.
#[inline(always)]
fn listed<S: Bytewise>(unit: S, list: &[i8; 16], first: &[u8; 32], second: &[u8; 32]) -> S::Bytes {
    unit.look_bytes(list, unit.shift_and(unit.join(first, second), [0, 4, 0, 4], 15))
}

impl BlockDot for Iq4Nl {
    const STEPS: usize = 1;
    const BYTES: usize = 36;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), unit.half(*at(bytes, 18)));
        (listed(unit, &NON_LINEAR, &twice(at(bytes, 2)), &twice(at(bytes, 20))), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(unit.half(*at(bytes, 0)), 0.0);
        (listed(unit, &NON_LINEAR, &twice(at(bytes, 2)), &[0; 32]), scales)
    }

    #[inline(always)]
    fn dot<S: Bytewise>(unit: S, weights: S::Bytes, numbers: S::Bytes, start: S::Ints) -> S::Ints {
        unit.dot_signed(weights, numbers, start)
    }
}

impl BlockDot for Iq4Xs {
    const STEPS: usize = 4;
    const BYTES: usize = 136;
    /// The scales of eight blocks.
    type Header<S: Bytewise> = S::Lanes;

    #[inline(always)]
    fn header<S: Bytewise>(unit: S, bytes: &[u8]) -> S::Lanes {
        let fine = iq4xs_scales(*at(bytes, 2), at(bytes, 4));
        let word = |from: usize| u32::from_le_bytes(*at(&fine, from));
        let fine = unit.float(unit.bytes_of([word(0), word(4), 0, 0]));
        unit.mul(unit.add(fine, unit.splat(-32.0)), unit.splat(unit.half(*at(bytes, 0))))
    }

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], head: S::Lanes, step: usize) -> (S::Bytes, S::Lanes) {
        let (first, second) = (twice(at(bytes, 8 + 32 * step)), twice(at(bytes, 24 + 32 * step)));
        (listed(unit, &NON_LINEAR, &first, &second), unit.spread_halves(head, step))
    }

    #[inline(always)]
    fn dot<S: Bytewise>(unit: S, weights: S::Bytes, numbers: S::Bytes, start: S::Ints) -> S::Ints {
        unit.dot_signed(weights, numbers, start)
    }
}

impl BlockDot for Mxfp4 {
    const STEPS: usize = 1;
    const BYTES: usize = 34;
    type Header<S: Bytewise> = ();

    #[inline(always)]
    fn header<S: Bytewise>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn step<S: Bytewise>(unit: S, bytes: &[u8], (): (), _: usize) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(half_power(bytes[0]), half_power(bytes[17]));
        (listed(unit, &MICRO_FLOATS, &twice(at(bytes, 1)), &twice(at(bytes, 18))), scales)
    }

    #[inline(always)]
    fn last<S: Bytewise>(unit: S, bytes: &[u8]) -> (S::Bytes, S::Lanes) {
        let scales = unit.halves(half_power(bytes[0]), 0.0);
        (listed(unit, &MICRO_FLOATS, &twice(at(bytes, 1)), &[0; 32]), scales)
    }

    #[inline(always)]
    fn dot<S: Bytewise>(unit: S, weights: S::Bytes, numbers: S::Bytes, start: S::Ints) -> S::Ints {
        unit.dot_signed(weights, numbers, start)
    }
}
