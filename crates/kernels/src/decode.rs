//! Decoding of each format to sixteen lanes of f32 in registers.
//!
//! Code that computes with lanes has no closures: they are separate functions, which are not compiled for the CPU's
//! widest unit.

use crate::format::{MICRO_FLOATS, NON_LINEAR};
use crate::half::half;
use crate::simd::{LANES, Simd};

/// A format, for kernels compiled for it.
///
/// # Contract
/// The parts of a step, in order, hold the weights of the step, in order. A weight is the formula that `format.rs`
/// gives, rounded once.
pub(crate) trait Decode {
    /// The number of weights that one step decodes, whose bytes are contiguous.
    const STEP: usize;
    const STEP_BYTES: usize;
    /// The number of parts of a step, which are decoded one after the other.
    const PARTS: usize;
    /// The number of registers of sixteen lanes in a part.
    const LANES: usize;
    /// The data that the parts of a step share, such as scales.
    type Header: Copy;
    /// A decoded part.
    type Part<S: Simd>: AsRef<[S::Lanes]>;

    fn header<S: Simd>(unit: S, bytes: &[u8]) -> Self::Header;

    fn part<S: Simd>(unit: S, bytes: &[u8], head: &Self::Header, part: usize) -> Self::Part<S>;

    /// Decodes fewer weights than a step, one by one; only formats without blocks need this.
    fn rest(_bytes: &[u8], _out: &mut [f32]) {
        unreachable!("a row is whole blocks")
    }
}

#[inline(always)]
pub(crate) fn at<const N: usize>(bytes: &[u8], from: usize) -> &[u8; N] {
    bytes[from..from + N].try_into().expect("the length is that of the range")
}

pub(crate) struct F32;
pub(crate) struct F16;
pub(crate) struct Bf16;
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

/// Thirty-two numbers of five bits: the lower four bits in pairs, with the first sixteen numbers in the lower halves,
/// and the fifth bits in a bit mask.
#[inline(always)]
pub(crate) fn five_bits(fifth: &[u8; 4], pairs: &[u8; 16]) -> [u8; 32] {
    const FOUR: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    // Spreads the bits of a byte: each becomes the fifth bit of its own byte.
    let apart = |byte: u8| {
        let each = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        ((each + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080) >> 3
    };
    let mut out = [0; 32];
    for (i, pairs) in pairs.as_chunks().0.iter().enumerate() {
        let pairs = u64::from_le_bytes(*pairs);
        out[8 * i..8 * i + 8].copy_from_slice(&(pairs & FOUR | apart(fifth[i])).to_le_bytes());
        out[16 + 8 * i..24 + 8 * i].copy_from_slice(&(pairs >> 4 & FOUR | apart(fifth[2 + i])).to_le_bytes());
    }
    out
}

/// The scales of six bits in a block of [`Format::Q3K`], four per word: the lower four bits of the first eight are in
/// the lower halves of eight bytes, those of the others in the upper halves, and the upper two bits of all in four more
/// bytes.
#[inline(always)]
pub(crate) fn q3k_scales(packed: &[u8; 12]) -> [u32; 4] {
    let word = |from: usize| u32::from_le_bytes(*at(packed, from));
    let (first, second, upper) = (word(0), word(4), word(8));
    let (four, two) = (0x0f0f_0f0f, 0x0303_0303);
    [
        first & four | (upper & two) << 4,
        second & four | (upper >> 2 & two) << 4,
        first >> 4 & four | (upper >> 4 & two) << 4,
        second >> 4 & four | (upper >> 6 & two) << 4,
    ]
}

/// The scales of six bits in a block of [`Format::Iq4Xs`]: the lower four bits are stored two per byte, the upper two
/// bits of all eight in the two bytes before.
#[inline(always)]
pub(crate) fn iq4xs_scales(upper: [u8; 2], lower: &[u8; 4]) -> [u8; 8] {
    let (upper, mut scales) = (u16::from_le_bytes(upper), [0; 8]);
    for (i, scale) in scales.iter_mut().enumerate() {
        *scale = lower[i / 2] >> (4 * (i % 2)) & 15 | ((upper >> (2 * i)) as u8 & 3) << 4;
    }
    scales
}

/// Half of the power of two that a byte of [`Format::Mxfp4`] encodes.
#[inline(always)]
pub(crate) fn half_power(exponent: u8) -> f32 {
    // The smallest two are subnormal in 32 bits.
    let bits = if exponent < 2 { 0x0020_0000 << exponent } else { u32::from(exponent - 1) << 23 };
    f32::from_bits(bits)
}

/// Looks up sixteen pairs of four-bit indices in a list, lower ones first, and scales the numbers.
#[inline(always)]
fn listed<S: Simd>(unit: S, list: &[i8; 16], pairs: &[u8; 16], scale: f32) -> [S::Lanes; 2] {
    let (low, high) =
        (pairs.map(|pair| list[usize::from(pair & 15)] as u8), pairs.map(|pair| list[usize::from(pair >> 4)] as u8));
    let scale = unit.splat(scale);
    [unit.mul(unit.float(unit.signed(&low)), scale), unit.mul(unit.float(unit.signed(&high)), scale)]
}

/// The scale and offset of each 32 weights of [`Format::Q4K`] and [`Format::Q5K`], from the beginning of a block.
#[inline(always)]
fn of_each_32<S: Simd>(unit: S, bytes: &[u8]) -> [(f32, f32); 8] {
    let (scale, offset) = (unit.half(*at(bytes, 0)), unit.half(*at(bytes, 2)));
    let packed: &[u8; 12] = at(bytes, 4);
    // The first four are the lower six bits of a byte each; the others have their lower four bits in the last bytes,
    // and their upper two bits above the first four.
    let mut head = [(0.0, 0.0); 8];
    for i in 0..4 {
        let (s, m) = (packed[i] & 63, packed[i + 4] & 63);
        head[i] = (scale * f32::from(s), -offset * f32::from(m));
        let (s, m) = (packed[i + 8] & 15 | packed[i] >> 6 << 4, packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
        head[i + 4] = (scale * f32::from(s), -offset * f32::from(m));
    }
    head
}

impl Decode for F32 {
    const STEP: usize = 2 * LANES;
    const STEP_BYTES: usize = 8 * LANES;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = ();
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], (): &(), _: usize) -> [S::Lanes; 2] {
        [unit.f32(at(bytes, 0)), unit.f32(at(bytes, 4 * LANES))]
    }

    fn rest(bytes: &[u8], out: &mut [f32]) {
        out.iter_mut().zip(bytes.as_chunks().0).for_each(|(out, &bytes)| *out = f32::from_le_bytes(bytes));
    }
}

impl Decode for F16 {
    const STEP: usize = 2 * LANES;
    const STEP_BYTES: usize = 4 * LANES;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = ();
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], (): &(), _: usize) -> [S::Lanes; 2] {
        [unit.f16(at(bytes, 0)), unit.f16(at(bytes, 2 * LANES))]
    }

    fn rest(bytes: &[u8], out: &mut [f32]) {
        out.iter_mut().zip(bytes.as_chunks().0).for_each(|(out, &bytes)| *out = half(bytes));
    }
}

impl Decode for Bf16 {
    const STEP: usize = 2 * LANES;
    const STEP_BYTES: usize = 4 * LANES;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = ();
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(_: S, _: &[u8]) {}

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], (): &(), _: usize) -> [S::Lanes; 2] {
        [unit.bf16(at(bytes, 0)), unit.bf16(at(bytes, 2 * LANES))]
    }

    fn rest(bytes: &[u8], out: &mut [f32]) {
        let value = |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
        out.iter_mut().zip(bytes.as_chunks().0).for_each(|(out, &bytes)| *out = value(bytes));
    }
}

impl Decode for Q8_0 {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 34;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = f32;
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> f32 {
        unit.half(*at(bytes, 0))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &scale: &f32, _: usize) -> [S::Lanes; 2] {
        let scale = unit.splat(scale);
        let (first, second) = (unit.float(unit.signed(at(bytes, 2))), unit.float(unit.signed(at(bytes, 18))));
        [unit.mul(first, scale), unit.mul(second, scale)]
    }
}

impl Decode for Q4_0 {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 18;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = f32;
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> f32 {
        unit.half(*at(bytes, 0))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &scale: &f32, _: usize) -> [S::Lanes; 2] {
        let table = unit.table(scale, -8.0 * scale);
        let pairs = unit.bytes(at(bytes, 2));
        [unit.look(table, pairs), unit.look(table, unit.shift_right(pairs, 4))]
    }
}

impl Decode for Q4_1 {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 20;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    /// Scale and minimum.
    type Header = (f32, f32);
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> (f32, f32) {
        (unit.half(*at(bytes, 0)), unit.half(*at(bytes, 2)))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &(scale, least): &(f32, f32), _: usize) -> [S::Lanes; 2] {
        let table = unit.table(scale, least);
        let pairs = unit.bytes(at(bytes, 4));
        [unit.look(table, pairs), unit.look(table, unit.shift_right(pairs, 4))]
    }
}

impl Decode for Q5_0 {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 22;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = f32;
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> f32 {
        unit.half(*at(bytes, 0))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &scale: &f32, _: usize) -> [S::Lanes; 2] {
        // Both products are exact.
        scaled(unit, &five_bits(at(bytes, 2), at(bytes, 6)), (scale, -16.0 * scale))
    }
}

impl Decode for Q5_1 {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 24;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    /// Scale and minimum.
    type Header = (f32, f32);
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> (f32, f32) {
        (unit.half(*at(bytes, 0)), unit.half(*at(bytes, 2)))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &head: &(f32, f32), _: usize) -> [S::Lanes; 2] {
        scaled(unit, &five_bits(at(bytes, 4), at(bytes, 8)), head)
    }
}

/// `q * scale + offset`, rounded once.
#[inline(always)]
fn scaled<S: Simd>(unit: S, q: &[u8; 32], (scale, offset): (f32, f32)) -> [S::Lanes; 2] {
    let (scale, offset) = (unit.splat(scale), unit.splat(offset));
    let (first, second) = (unit.float(unit.bytes(at(q, 0))), unit.float(unit.bytes(at(q, 16))));
    [unit.fma(first, scale, offset), unit.fma(second, scale, offset)]
}

impl Decode for Q2K {
    const STEP: usize = 256;
    const STEP_BYTES: usize = 84;
    const PARTS: usize = 4;
    const LANES: usize = 4;
    /// The common factors of scales and of offsets.
    type Header = (f32, f32);
    type Part<S: Simd> = [S::Lanes; 4];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> (f32, f32) {
        (unit.half(*at(bytes, 80)), -unit.half(*at(bytes, 82)))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &(scale, offset): &(f32, f32), part: usize) -> [S::Lanes; 4] {
        let mut weights = [unit.zero(); 4];
        for (i, weights) in weights.iter_mut().enumerate() {
            // Of 128 weights the first 32 are the lowest two bits of 32 bytes, the next 32 the next two, and so on.
            let q = unit.bytes(at(bytes, 16 + 32 * (part / 2) + 16 * (i % 2)));
            let q = unit.and(unit.shift_right(q, 4 * (part as u32 % 2) + 2 * (i as u32 / 2)), 3);
            let fine = bytes[4 * part + i];
            let (scale, offset) = (scale * f32::from(fine & 15), offset * f32::from(fine >> 4));
            *weights = unit.fma(unit.float(q), unit.splat(scale), unit.splat(offset));
        }
        weights
    }
}

impl Decode for Q3K {
    const STEP: usize = 256;
    const STEP_BYTES: usize = 110;
    const PARTS: usize = 4;
    const LANES: usize = 4;
    /// The common scale, and for each 16 weights its factor plus 32.
    type Header = (f32, [u32; 4]);
    type Part<S: Simd> = [S::Lanes; 4];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> (f32, [u32; 4]) {
        (unit.half(*at(bytes, 108)), q3k_scales(at(bytes, 96)))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &(scale, fine): &(f32, [u32; 4]), part: usize) -> [S::Lanes; 4] {
        let mut weights = [unit.zero(); 4];
        for (i, weights) in weights.iter_mut().enumerate() {
            // The lower two bits are stored as in `Q2K`; the third bits of each 32 weights are one bit of 32 bytes.
            let lower = unit.bytes(at(bytes, 32 + 32 * (part / 2) + 16 * (i % 2)));
            let lower = unit.and(unit.shift_right(lower, 4 * (part as u32 % 2) + 2 * (i as u32 / 2)), 3);
            let third = unit.bytes(at(bytes, 16 * (i % 2)));
            let third = unit.and(unit.shift_right(third, 2 * part as u32 + i as u32 / 2), 1);
            let q = unit.or(lower, unit.shift_left(third, 2));
            let scale = scale * ((fine[part] >> (8 * i) & 63) as f32 - 32.0);
            *weights = unit.mul(unit.add(unit.float(q), unit.splat(-4.0)), unit.splat(scale));
        }
        weights
    }
}

impl Decode for Q4K {
    const STEP: usize = 256;
    const STEP_BYTES: usize = 144;
    const PARTS: usize = 4;
    const LANES: usize = 4;
    /// Scale and offset of each 32 weights.
    type Header = [(f32, f32); 8];
    type Part<S: Simd> = [S::Lanes; 4];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> [(f32, f32); 8] {
        of_each_32(unit, bytes)
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], head: &[(f32, f32); 8], part: usize) -> [S::Lanes; 4] {
        let (first, second) = (unit.bytes(at(bytes, 16 + 32 * part)), unit.bytes(at(bytes, 32 + 32 * part)));
        let (low, high) = (head[2 * part], head[2 * part + 1]);
        let (low, high) = (unit.table(low.0, low.1), unit.table(high.0, high.1));
        [
            unit.look(low, first),
            unit.look(low, second),
            unit.look(high, unit.shift_right(first, 4)),
            unit.look(high, unit.shift_right(second, 4)),
        ]
    }
}

impl Decode for Q5K {
    const STEP: usize = 256;
    const STEP_BYTES: usize = 176;
    const PARTS: usize = 4;
    const LANES: usize = 4;
    /// Scale and offset of each 32 weights.
    type Header = [(f32, f32); 8];
    type Part<S: Simd> = [S::Lanes; 4];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> [(f32, f32); 8] {
        of_each_32(unit, bytes)
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], head: &[(f32, f32); 8], part: usize) -> [S::Lanes; 4] {
        let mut weights = [unit.zero(); 4];
        for (i, weights) in weights.iter_mut().enumerate() {
            // The lower four bits are stored as in `Q4K`; the fifth bits of each 32 weights are one bit of 32 bytes.
            let lower = unit.bytes(at(bytes, 48 + 32 * part + 16 * (i % 2)));
            let lower = unit.and(unit.shift_right(lower, 4 * (i as u32 / 2)), 15);
            let fifth = unit.bytes(at(bytes, 16 + 16 * (i % 2)));
            let fifth = unit.and(unit.shift_right(fifth, 2 * part as u32 + i as u32 / 2), 1);
            let (scale, offset) = head[2 * part + i / 2];
            let q = unit.float(unit.or(lower, unit.shift_left(fifth, 4)));
            *weights = unit.fma(q, unit.splat(scale), unit.splat(offset));
        }
        weights
    }
}

impl Decode for Q6K {
    const STEP: usize = 256;
    const STEP_BYTES: usize = 210;
    const PARTS: usize = 4;
    const LANES: usize = 4;
    type Header = f32;
    type Part<S: Simd> = [S::Lanes; 4];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> f32 {
        unit.half(*at(bytes, 208))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &scale: &f32, part: usize) -> [S::Lanes; 4] {
        // The lower four bits of 128 weights are in 64 bytes, two per byte, the first 64 in the lower halves; the upper
        // two bits are in 32 bytes, four per byte.
        let (of_both, is_second) = (part / 2, part as u32 % 2);
        let (lower, upper, scales) = (64 * of_both, 128 + 32 * of_both, 192 + 4 * part);
        let mut weights = [unit.zero(); 4];
        for (i, weights) in weights.iter_mut().enumerate() {
            let lower = unit.shift_right(unit.bytes(at(bytes, lower + 16 * i)), 4 * is_second);
            let upper = unit.bytes(at(bytes, upper + 16 * (i % 2)));
            let upper = unit.shift_right(upper, 4 * is_second + 2 * (i as u32 / 2));
            let q = unit.or(unit.and(lower, 15), unit.shift_left(unit.and(upper, 3), 4));
            let scale = scale * f32::from(bytes[scales + i] as i8);
            // Subtracting 32 from six bits is exact.
            *weights = unit.mul(unit.add(unit.float(q), unit.splat(-32.0)), unit.splat(scale));
        }
        weights
    }
}

impl Decode for Iq4Nl {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 18;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = f32;
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> f32 {
        unit.half(*at(bytes, 0))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &scale: &f32, _: usize) -> [S::Lanes; 2] {
        listed(unit, &NON_LINEAR, at(bytes, 2), scale)
    }
}

impl Decode for Iq4Xs {
    const STEP: usize = 256;
    const STEP_BYTES: usize = 136;
    const PARTS: usize = 8;
    const LANES: usize = 2;
    /// The common scale, and for each 32 weights its factor plus 32.
    type Header = (f32, [u8; 8]);
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(unit: S, bytes: &[u8]) -> (f32, [u8; 8]) {
        (unit.half(*at(bytes, 0)), iq4xs_scales(*at(bytes, 2), at(bytes, 4)))
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &(scale, fine): &(f32, [u8; 8]), part: usize) -> [S::Lanes; 2] {
        let scale = scale * (f32::from(fine[part]) - 32.0);
        listed(unit, &NON_LINEAR, at(bytes, 8 + 16 * part), scale)
    }
}

impl Decode for Mxfp4 {
    const STEP: usize = 32;
    const STEP_BYTES: usize = 17;
    const PARTS: usize = 1;
    const LANES: usize = 2;
    type Header = f32;
    type Part<S: Simd> = [S::Lanes; 2];

    #[inline(always)]
    fn header<S: Simd>(_: S, bytes: &[u8]) -> f32 {
        half_power(bytes[0])
    }

    #[inline(always)]
    fn part<S: Simd>(unit: S, bytes: &[u8], &scale: &f32, _: usize) -> [S::Lanes; 2] {
        listed(unit, &MICRO_FLOATS, at(bytes, 1), scale)
    }
}
