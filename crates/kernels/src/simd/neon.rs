//! Sixteen lanes on 64-bit ARM, which always has NEON: four 128-bit registers.

use std::arch::aarch64::*;

use super::{LANES, Simd};

/// Four 128-bit registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon;

/// The number of bytes in a register.
const BYTES: usize = 16;

impl Neon {
    /// Converts numbers in half precision, each in the lower half of a lane whose upper half is zero.
    #[inline(always)]
    pub(crate) fn of_halves(self, bits: [uint32x4_t; 4]) -> [float32x4_t; 4] {
        bits.map(|bits| {
            // SAFETY: 64-bit ARM has NEON.
            unsafe {
                // The same steps as `half` in `half.rs`.
                let magnitude = vandq_u32(bits, vdupq_n_u32(0x7fff));
                let sign = vshlq_n_u32::<16>(vandq_u32(bits, vdupq_n_u32(0x8000)));
                let shifted = vshlq_n_u32::<13>(magnitude);
                let finite = vmulq_n_f32(vreinterpretq_f32_u32(shifted), f32::from_bits((127 + 112) << 23));
                let other = vorrq_u32(shifted, vdupq_n_u32(0x7f80_0000));
                let is_other = vcgeq_u32(magnitude, vdupq_n_u32(0x7c00));
                let value = vbslq_u32(is_other, other, vreinterpretq_u32_f32(finite));
                vreinterpretq_f32_u32(vorrq_u32(value, sign))
            }
        })
    }
}

impl Simd for Neon {
    type Lanes = [float32x4_t; 4];
    type Ints = [uint32x4_t; 4];
    /// Scale and offset.
    type Table = (float32x4_t, float32x4_t);
    const IS_WIDE: bool = false;

    intrinsics! {
        fn splat(x: f32) -> Self::Lanes { [vdupq_n_f32(x); 4] }
        fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [0, 1, 2, 3].map(|i| vaddq_f32(a[i], b[i])) }
        fn mul(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [0, 1, 2, 3].map(|i| vmulq_f32(a[i], b[i])) }
        fn div(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [0, 1, 2, 3].map(|i| vdivq_f32(a[i], b[i])) }
        fn max(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
            [0, 1, 2, 3].map(|i| vbslq_f32(vcgtq_f32(a[i], b[i]), a[i], b[i]))
        }
        fn to_bits(a: Self::Lanes) -> Self::Ints { a.map(|a| vreinterpretq_u32_f32(a)) }
        fn of_bits(a: Self::Ints) -> Self::Lanes { a.map(|a| vreinterpretq_f32_u32(a)) }
        fn add_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints { [0, 1, 2, 3].map(|i| vaddq_u32(a[i], b[i])) }
        fn and(a: Self::Ints, mask: u32) -> Self::Ints { a.map(|a| vandq_u32(a, vdupq_n_u32(mask))) }
        fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints { [0, 1, 2, 3].map(|i| vorrq_u32(a[i], b[i])) }
        fn shift_left(a: Self::Ints, bits: u32) -> Self::Ints { a.map(|a| vshlq_u32(a, vdupq_n_s32(bits as i32))) }
        fn shift_right(a: Self::Ints, bits: u32) -> Self::Ints {
            // A left shift by a negative number is a right shift.
            a.map(|a| vshlq_u32(a, vdupq_n_s32(-(bits as i32))))
        }
        fn float(a: Self::Ints) -> Self::Lanes { a.map(|a| vcvtq_f32_s32(vreinterpretq_s32_u32(a))) }
        fn table(scale: f32, offset: f32) -> (float32x4_t, float32x4_t) { (vdupq_n_f32(scale), vdupq_n_f32(offset)) }
        fn fma(a: Self::Lanes, b: Self::Lanes, sum: Self::Lanes) -> Self::Lanes {
            [0, 1, 2, 3].map(|i| vfmaq_f32(sum[i], a[i], b[i]))
        }
    }

    #[inline(always)]
    fn f32(self, from: &[u8; 4 * LANES]) -> [float32x4_t; 4] {
        let (registers, _) = from.as_chunks::<BYTES>();
        // SAFETY: 64-bit ARM has NEON; each chunk is 16 bytes, and the load requires no alignment.
        [0, 1, 2, 3].map(|i| unsafe { vreinterpretq_f32_u8(vld1q_u8(registers[i].as_ptr())) })
    }

    #[inline(always)]
    fn f16(self, from: &[u8; 2 * LANES]) -> [float32x4_t; 4] {
        self.of_halves(halves(from))
    }

    #[inline(always)]
    fn bf16(self, from: &[u8; 2 * LANES]) -> [float32x4_t; 4] {
        // SAFETY: 64-bit ARM has NEON.
        halves(from).map(|bits| unsafe { vreinterpretq_f32_u32(vshlq_n_u32::<16>(bits)) })
    }

    #[inline(always)]
    fn half(self, from: [u8; 2]) -> f32 {
        crate::half::half(from)
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; LANES]) -> [uint32x4_t; 4] {
        // SAFETY: as above; the array is 16 bytes, and the load requires no alignment.
        unsafe {
            let bytes = vld1q_u8(from.as_ptr());
            let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
            let [a, b] = [low, high].map(|words| [vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]);
            [a[0], a[1], b[0], b[1]]
        }
    }

    #[inline(always)]
    fn signed(self, from: &[u8; LANES]) -> [uint32x4_t; 4] {
        // SAFETY: as above.
        unsafe {
            let bytes = vreinterpretq_s8_u8(vld1q_u8(from.as_ptr()));
            let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
            let [a, b] = [low, high].map(|words| [vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)]);
            [a[0], a[1], b[0], b[1]].map(|ints| vreinterpretq_u32_s32(ints))
        }
    }

    #[inline(always)]
    fn look(self, (scale, offset): (float32x4_t, float32x4_t), at: [uint32x4_t; 4]) -> [float32x4_t; 4] {
        // SAFETY: as above.
        self.float(self.and(at, 15)).map(|q| unsafe { vfmaq_f32(offset, q, scale) })
    }

    #[inline(always)]
    fn zero(self) -> [float32x4_t; 4] {
        self.splat(0.0)
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> [float32x4_t; 4] {
        let (registers, _) = from.as_chunks::<4>();
        // SAFETY: as above; each chunk is four floats.
        [0, 1, 2, 3].map(|i| unsafe { vld1q_f32(registers[i].as_ptr()) })
    }

    #[inline(always)]
    fn store(self, lanes: [float32x4_t; 4]) -> [f32; LANES] {
        let mut to = [0.0; LANES];
        for (to, lanes) in to.as_chunks_mut::<4>().0.iter_mut().zip(lanes) {
            // SAFETY: as above; each chunk is four floats.
            unsafe { vst1q_f32(to.as_mut_ptr(), lanes) };
        }
        to
    }

    #[inline(always)]
    fn exchange<const WIDTH: usize>(
        self,
        a: [float32x4_t; 4],
        b: [float32x4_t; 4],
    ) -> ([float32x4_t; 4], [float32x4_t; 4]) {
        match WIDTH {
            8 => ([a[0], a[1], b[0], b[1]], [a[2], a[3], b[2], b[3]]),
            4 => ([a[0], b[0], a[2], b[2]], [a[1], b[1], a[3], b[3]]),
            2 => ([0, 1, 2, 3].map(|i| pairs(a[i], b[i]).0), [0, 1, 2, 3].map(|i| pairs(a[i], b[i]).1)),
            // SAFETY: as above.
            _ => unsafe {
                ([0, 1, 2, 3].map(|i| vtrn1q_f32(a[i], b[i])), [0, 1, 2, 3].map(|i| vtrn2q_f32(a[i], b[i])))
            },
        }
    }
}

/// The first two lanes of both, and the last two.
#[inline(always)]
fn pairs(a: float32x4_t, b: float32x4_t) -> (float32x4_t, float32x4_t) {
    // SAFETY: 64-bit ARM has NEON.
    unsafe {
        let (a, b) = (vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b));
        (vreinterpretq_f32_f64(vtrn1q_f64(a, b)), vreinterpretq_f32_f64(vtrn2q_f64(a, b)))
    }
}

/// Loads sixteen 16-bit numbers as words.
#[inline(always)]
fn halves(from: &[u8; 2 * LANES]) -> [uint32x4_t; 4] {
    let (registers, _) = from.as_chunks::<BYTES>();
    // SAFETY: 64-bit ARM has NEON; each chunk is 16 bytes, and the load requires no alignment.
    unsafe {
        let [a, b] = [0, 1].map(|i| {
            let words = vreinterpretq_u16_u8(vld1q_u8(registers[i].as_ptr()));
            [vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)]
        });
        [a[0], a[1], b[0], b[1]]
    }
}
