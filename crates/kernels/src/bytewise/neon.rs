//! Byte products on 64-bit ARM: sixteen-bit products, added in pairs.

use std::arch::aarch64::*;

use super::{Body, Bytewise};
use crate::simd::{LANES, Neon, Simd};

/// For each of four lanes, four products of signed bytes: each is at most 128 * 127, which fits sixteen bits.
#[inline(always)]
fn products(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    // SAFETY: 64-bit ARM has NEON.
    unsafe {
        let (a, b) = (vreinterpretq_s8_u32(a), vreinterpretq_s8_u32(b));
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        vreinterpretq_u32_s32(vpaddq_s32(low, vpaddlq_s16(vmull_high_s8(a, b))))
    }
}

impl Bytewise for Neon {
    const IS_BIASED: bool = false;

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        #[inline(never)]
        fn compiled<B: Body>(unit: Neon, body: B) {
            body.run(unit);
        }
        compiled(self, body);
    }

    #[inline(always)]
    fn transpose(self, from: [&[u8; 16]; LANES]) -> [[uint32x4_t; 4]; 4] {
        // SAFETY: 64-bit ARM has NEON; each array is 16 bytes, and the load requires no alignment.
        let registers = [0, 1, 2, 3].map(|quarter| unsafe {
            let rows = [0, 1, 2, 3].map(|i| vreinterpretq_u32_u8(vld1q_u8(from[4 * quarter + i].as_ptr())));
            let (a, b) = (vzip1q_u32(rows[0], rows[2]), vzip1q_u32(rows[1], rows[3]));
            let (c, d) = (vzip2q_u32(rows[0], rows[2]), vzip2q_u32(rows[1], rows[3]));
            [vzip1q_u32(a, b), vzip2q_u32(a, b), vzip1q_u32(c, d), vzip2q_u32(c, d)]
        });
        [0, 1, 2, 3].map(|i| [0, 1, 2, 3].map(|quarter| registers[quarter][i]))
    }

    #[inline(always)]
    fn word(self, word: u32) -> [uint32x4_t; 4] {
        // SAFETY: 64-bit ARM has NEON.
        unsafe { [vdupq_n_u32(word); 4] }
    }

    #[inline(always)]
    fn halves(self, a: [uint32x4_t; 4]) -> [float32x4_t; 4] {
        self.of_halves(self.and(a, 0xffff))
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
        // SAFETY: 64-bit ARM has NEON; the list is 16 bytes.
        unsafe {
            let list = vreinterpretq_u8_s8(vld1q_s8(list.as_ptr()));
            at.map(|at| vreinterpretq_u32_u8(vqtbl1q_u8(list, vreinterpretq_u8_u32(at))))
        }
    }

    #[inline(always)]
    fn dot_bytes<const IS_SIGNED: bool>(
        self,
        weights: &[[uint32x4_t; 4]],
        numbers: &[[u8; 4]],
        _most: u8,
        mut sum: [uint32x4_t; 4],
    ) -> [uint32x4_t; 4] {
        for (weights, &numbers) in weights.iter().zip(numbers) {
            let numbers = self.word(u32::from_le_bytes(numbers));
            sum = self.add_ints(sum, [0, 1, 2, 3].map(|i| products(weights[i], numbers[i])));
        }
        sum
    }
}
