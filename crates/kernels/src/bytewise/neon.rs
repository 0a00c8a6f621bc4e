//! Bytes on 64-bit ARM: products of sixteen bits, added by pairs.

use std::arch::aarch64::*;

use super::{BYTES, Body, Bytewise};
use crate::simd::{LANES, Neon, Simd};

/// For each of four lanes, four products of numbers with signs: each is at most 128 * 127, which sixteen bits hold.
#[inline(always)]
fn products(a: uint8x16_t, b: uint8x16_t) -> int32x4_t {
    // SAFETY: 64-bit ARM has NEON.
    unsafe {
        let (a, b) = (vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b));
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(a, b)))
    }
}

#[inline(always)]
fn loaded<const N: usize>(from: &[u8; N], at: usize) -> uint8x16_t {
    let (registers, _) = from.as_chunks::<16>();
    // SAFETY: 64-bit ARM has NEON; each chunk is 16 bytes, and the load asks for no alignment.
    unsafe { vld1q_u8(registers[at].as_ptr()) }
}

impl Bytewise for Neon {
    type Bytes = [uint8x16_t; 4];

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        #[inline(never)]
        fn compiled<B: Body>(unit: Neon, body: B) {
            body.run(unit);
        }
        compiled(self, body);
    }

    #[inline(always)]
    fn bytes64(self, from: &[u8; BYTES]) -> [uint8x16_t; 4] {
        [0, 1, 2, 3].map(|i| loaded(from, i))
    }

    #[inline(always)]
    fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> [uint8x16_t; 4] {
        [loaded(first, 0), loaded(first, 1), loaded(second, 0), loaded(second, 1)]
    }

    #[inline(always)]
    fn shift_and(self, a: [uint8x16_t; 4], bits: [u32; 4], mask: u8) -> [uint8x16_t; 4] {
        // SAFETY: 64-bit ARM has NEON; so in what follows. To the left by less than nothing is to the right.
        [0, 1, 2, 3].map(|i| unsafe { vandq_u8(vshlq_u8(a[i], vdupq_n_s8(-(bits[i] as i8))), vdupq_n_u8(mask)) })
    }

    #[inline(always)]
    fn shift_up(self, a: [uint8x16_t; 4], bits: u32) -> [uint8x16_t; 4] {
        // SAFETY: as above.
        a.map(|a| unsafe { vshlq_u8(a, vdupq_n_s8(bits as i8)) })
    }

    #[inline(always)]
    fn or_bytes(self, a: [uint8x16_t; 4], b: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
        // SAFETY: as above.
        [0, 1, 2, 3].map(|i| unsafe { vorrq_u8(a[i], b[i]) })
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: [uint8x16_t; 4]) -> [uint8x16_t; 4] {
        // SAFETY: as above; the list is 16 bytes.
        unsafe {
            let list = vreinterpretq_u8_s8(vld1q_s8(list.as_ptr()));
            at.map(|at| vqtbl1q_u8(list, at))
        }
    }

    #[inline(always)]
    fn dot_small(self, weights: [uint8x16_t; 4], numbers: [uint8x16_t; 4], start: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
        self.add_ints(start, self.dot_signed(weights, numbers, start))
    }

    #[inline(always)]
    fn dot_signed(self, weights: [uint8x16_t; 4], numbers: [uint8x16_t; 4], _: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
        // SAFETY: as above.
        [0, 1, 2, 3].map(|i| unsafe { vreinterpretq_u32_s32(products(weights[i], numbers[i])) })
    }

    #[inline(always)]
    fn bytes_of(self, words: [u32; 4]) -> [uint32x4_t; 4] {
        let mut bytes = [0; LANES];
        bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        self.bytes(&bytes)
    }

    #[inline(always)]
    fn ints(self, from: &[i32; LANES]) -> [uint32x4_t; 4] {
        let (registers, _) = from.as_chunks::<4>();
        // SAFETY: as above; each chunk is four numbers.
        [0, 1, 2, 3].map(|i| unsafe { vreinterpretq_u32_s32(vld1q_s32(registers[i].as_ptr())) })
    }

    #[inline(always)]
    fn halves(self, low: f32, high: f32) -> [float32x4_t; 4] {
        // SAFETY: as above.
        [low, low, high, high].map(|x| unsafe { vdupq_n_f32(x) })
    }

    #[inline(always)]
    fn spread_halves(self, a: [float32x4_t; 4], at: usize) -> [float32x4_t; 4] {
        let a = self.store(a);
        self.halves(a[2 * at], a[2 * at + 1])
    }

    #[inline(always)]
    fn spread_quarters(self, a: [float32x4_t; 4], at: usize) -> [float32x4_t; 4] {
        let a = self.store(a);
        // SAFETY: as above.
        [0, 1, 2, 3].map(|i| unsafe { vdupq_n_f32(a[4 * at + i]) })
    }
}
