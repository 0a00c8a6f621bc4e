//! Decoding of each format to sixteen lanes of f32 in registers.
//!
//! Code that computes with lanes has no closures: they are separate functions, which are not compiled for the CPU's
//! widest unit.

use crate::format::{Bits, Blocks, Layout, Numbers, Scales};
use crate::half::half;
use crate::simd::{LANES, Simd};

pub(crate) use crate::format::Q8_0;

/// The number of weights in a step of a format that is decoded in steps.
pub(crate) const STEP: usize = 2 * LANES;

/// A format that is decoded in steps of two registers, for kernels compiled for it.
///
/// # Contract
/// The registers of a step, in order, hold the weights of the step, in order. A weight is the formula that `format.rs`
/// gives, rounded once.
pub(crate) trait Decode: Copy {
    /// The number of contiguous bytes of a step.
    const STEP_BYTES: usize;

    fn step<S: Simd>(unit: S, bytes: &[u8]) -> [S::Lanes; 2];

    /// Decodes fewer weights than a step, one by one; only formats without blocks need this.
    fn rest(_bytes: &[u8], _out: &mut [f32]) {
        unreachable!("a row is whole blocks")
    }
}

#[inline(always)]
fn at<const N: usize>(bytes: &[u8], from: usize) -> &[u8; N] {
    bytes[from..from + N].try_into().expect("the length is that of the range")
}

/// Defines formats without blocks: their size in bytes, and how to load sixteen and to convert one.
macro_rules! floats {
    ($($name:ident: $size:literal bytes, $load:ident, $one:path;)*) => {
        $(
            #[derive(Clone, Copy)]
            pub(crate) struct $name;

            impl Decode for $name {
                const STEP_BYTES: usize = $size * STEP;

                #[inline(always)]
                fn step<S: Simd>(unit: S, bytes: &[u8]) -> [S::Lanes; 2] {
                    [unit.$load(at(bytes, 0)), unit.$load(at(bytes, $size * LANES))]
                }

                fn rest(bytes: &[u8], out: &mut [f32]) {
                    out.iter_mut().zip(bytes.as_chunks().0).for_each(|(out, &bytes)| *out = $one(bytes));
                }
            }
        )*
    };
}

floats! {
    F32: 4 bytes, f32, f32::from_le_bytes;
    F16: 2 bytes, f16, half;
    Bf16: 2 bytes, bf16, bf16;
}

fn bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

impl Decode for Q8_0 {
    const STEP_BYTES: usize = Self::LAYOUT.bytes;

    #[inline(always)]
    fn step<S: Simd>(unit: S, bytes: &[u8]) -> [S::Lanes; 2] {
        let head = Header::new::<S, Self>(unit, bytes);
        [sixteen::<S, Self>(unit, bytes, &head, 0), sixteen::<S, Self>(unit, bytes, &head, 1)]
    }
}

/// Decodes whole blocks.
#[inline(always)]
pub(crate) fn decode_blocks<S: Simd, F: Blocks>(unit: S, bytes: &[u8], out: &mut [f32]) {
    for (out, bytes) in out.chunks_exact_mut(F::LAYOUT.block).zip(bytes.chunks_exact(F::LAYOUT.bytes)) {
        let head = Header::new::<S, F>(unit, bytes);
        for (i, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            *out = unit.store(sixteen::<S, F>(unit, bytes, &head, i));
        }
    }
}

/// The data that the weights of a block share.
struct Header {
    /// The common factors of scales and of offsets.
    coarse: (f32, f32),
    /// The other factors: of scales, then of offsets if they have bytes of their own.
    fine: [u8; 16],
}

impl Header {
    #[inline(always)]
    fn new<S: Simd, F: Blocks>(unit: S, bytes: &[u8]) -> Self {
        let Layout { scales, coarse, numbers, .. } = F::LAYOUT;
        let scale = match scales {
            Scales::Power => half_power(bytes[0]),
            _ => unit.half(*at(bytes, coarse)),
        };
        let offset = match (scales, numbers) {
            (Scales::One, Numbers::Least) => unit.half(*at(bytes, coarse + 2)),
            // This product is exact.
            (Scales::One, Numbers::Excess(excess)) => -f32::from(excess) * scale,
            (_, Numbers::Least) => -unit.half(*at(bytes, coarse + 2)),
            _ => 0.0,
        };
        Self { coarse: (scale, offset), fine: fine_bytes(scales, bytes) }
    }

    /// The scale and offset of sixteen weights.
    #[inline(always)]
    fn scale<F: Blocks>(&self, sixteen: usize) -> (f32, f32) {
        let (scale, offset) = self.coarse;
        match F::LAYOUT.scales {
            Scales::One | Scales::Power => self.coarse,
            scales => {
                let (factor, least) = factors(scales, &self.fine, sixteen);
                (scale * f32::from(factor), offset * f32::from(least))
            }
        }
    }
}

/// The bytes of a block with the factors of its scales and minimums.
#[inline(always)]
pub(crate) fn fine_bytes(scales: Scales, bytes: &[u8]) -> [u8; 16] {
    match scales {
        Scales::One | Scales::Power => [0; 16],
        Scales::Q2K => *at(bytes, 0),
        Scales::Q3K => q3k_scales(at(bytes, 96)),
        Scales::Q4K => q4k_scales(at(bytes, 4)),
        Scales::Q6K => *at(bytes, 192),
        Scales::Iq4Xs => iq4xs_scales(*at(bytes, 2), at(bytes, 4)),
    }
}

/// The factors of the scale and of the minimum of sixteen weights of a block; 0 if there are none.
#[inline(always)]
pub(crate) fn factors(scales: Scales, fine: &[u8; 16], sixteen: usize) -> (i8, u8) {
    let byte = fine[if scales.has_halves() { sixteen } else { sixteen / 2 }];
    match scales {
        Scales::One | Scales::Power => (0, 0),
        Scales::Q2K => ((byte & 15) as i8, byte >> 4),
        Scales::Q3K | Scales::Iq4Xs => (byte as i8 - 32, 0),
        Scales::Q4K => (byte as i8, fine[8 + sixteen / 2]),
        Scales::Q6K => (byte as i8, 0),
    }
}

/// The scales in a block of [`Scales::Q3K`].
#[inline(always)]
fn q3k_scales(packed: &[u8; 12]) -> [u8; 16] {
    let [first, second, upper] = [0, 4, 8].map(|from| u32::from_le_bytes(*at(packed, from)));
    let (lower, mut scales) = ([first, second, first >> 4, second >> 4], [0; 16]);
    for (i, four) in scales.as_chunks_mut().0.iter_mut().enumerate() {
        *four = (lower[i] & 0x0f0f_0f0f | (upper >> (2 * i) & 0x0303_0303) << 4).to_le_bytes();
    }
    scales
}

/// The scales in a block of [`Scales::Q4K`], then the minimums.
#[inline(always)]
fn q4k_scales(packed: &[u8; 12]) -> [u8; 16] {
    let mut scales = [0; 16];
    for i in 0..4 {
        (scales[i], scales[8 + i]) = (packed[i] & 63, packed[i + 4] & 63);
        scales[4 + i] = packed[i + 8] & 15 | packed[i] >> 6 << 4;
        scales[12 + i] = packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4;
    }
    scales
}

/// The scales in a block of [`Scales::Iq4Xs`], followed by zeros.
#[inline(always)]
fn iq4xs_scales(upper: [u8; 2], lower: &[u8; 4]) -> [u8; 16] {
    let (upper, mut scales) = (u16::from_le_bytes(upper), [0; 16]);
    for (i, scale) in scales[..8].iter_mut().enumerate() {
        *scale = lower[i / 2] >> (4 * (i % 2)) & 15 | ((upper >> (2 * i)) as u8 & 3) << 4;
    }
    scales
}

/// Half of the power of two that a byte of [`Scales::Power`] encodes.
#[inline(always)]
pub(crate) fn half_power(exponent: u8) -> f32 {
    // The smallest two are subnormal in 32 bits.
    let bits = if exponent < 2 { 0x0020_0000 << exponent } else { u32::from(exponent - 1) << 23 };
    f32::from_bits(bits)
}

/// Sixteen weights of a block, from weight `16 * i`.
#[inline(always)]
fn sixteen<S: Simd, F: Blocks>(unit: S, bytes: &[u8], head: &Header, i: usize) -> S::Lanes {
    let Layout { block, numbers, low, high, .. } = F::LAYOUT;
    let (scale, offset) = head.scale::<F>(i);
    let (from, shift) = low.find(LANES * i);
    let lower: &[u8; LANES] = at(bytes, from);
    let q = match (numbers, high) {
        (Numbers::Signed, _) => unit.signed(lower),
        (Numbers::Listed(list), _) => unit.signed(&lower.map(|q| list[usize::from(q >> shift & 15)] as u8)),
        (_, None) if low.count == 4 => {
            return unit.look(unit.table(scale, offset), unit.shift_right(unit.bytes(lower), shift));
        }
        (_, None) => some_bits(unit, bytes, low, i),
        (_, Some(high)) if high.span == 1 => unit.bytes(&five_bits(at(bytes, high.find(LANES * i).0), lower, shift)),
        (_, Some(high)) => {
            unit.or(some_bits(unit, bytes, low, i), unit.shift_left(some_bits(unit, bytes, high, i), low.count))
        }
    };
    let (q, scale) = (unit.float(q), unit.splat(scale));
    match numbers {
        Numbers::Signed | Numbers::Listed(_) => unit.mul(q, scale),
        // This sum is exact.
        Numbers::Excess(excess) if block > 32 => unit.mul(unit.add(q, unit.splat(-f32::from(excess))), scale),
        Numbers::Excess(_) | Numbers::Least => unit.fma(q, scale, unit.splat(offset)),
    }
}

/// Some bits of sixteen weights.
#[inline(always)]
fn some_bits<S: Simd>(unit: S, bytes: &[u8], bits: Bits, sixteen: usize) -> S::Ints {
    let (from, shift) = bits.find(LANES * sixteen);
    unit.and(unit.shift_right(unit.bytes(at(bytes, from)), shift), (1 << bits.count) - 1)
}

/// Sixteen numbers of five bits: the lower four are `shift` bits up in their bytes, the fifth bits in a bit mask.
#[inline(always)]
fn five_bits(fifth: &[u8; 2], lower: &[u8; LANES], shift: u32) -> [u8; LANES] {
    let mut out = [0; LANES];
    for (i, (out, lower)) in out.as_chunks_mut().0.iter_mut().zip(lower.as_chunks().0).enumerate() {
        // Spreads the bits of a byte: each becomes the fifth bit of its own byte.
        let apart = (u64::from(fifth[i]) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let apart = ((apart + 0x7f7f_7f7f_7f7f_7f7f) & 0x8080_8080_8080_8080) >> 3;
        *out = (u64::from_le_bytes(*lower) >> shift & 0x0f0f_0f0f_0f0f_0f0f | apart).to_le_bytes();
    }
    out
}
