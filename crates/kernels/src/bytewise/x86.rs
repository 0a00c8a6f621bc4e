//! Byte products on x86-64: with VNNI, and with AVX2.

use super::{Body, Bytewise};
use crate::simd::{Avx2, Avx512, LANES, Simd, intrinsics};
use std::arch::x86_64::*;

/// Loads sixteen bytes.
#[inline(always)]
fn load(from: &[u8; 16]) -> __m128i {
    // SAFETY: x86-64 has SSE2; the array is 16 bytes, and the load requires no alignment.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

impl Bytewise for Avx512 {
    const IS_BIASED: bool = true;

    intrinsics! {
        fn word(word: u32) -> Self::Ints { _mm512_set1_epi32(word as i32) }
        fn halves(a: Self::Ints) -> Self::Lanes { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)) }
        fn bias(weights: Self::Ints) -> Self::Ints { _mm512_xor_si512(weights, _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,fma,f16c")]
        fn compiled<B: Body>(unit: Avx512, body: B) {
            body.run(unit);
        }
        // SAFETY: `self` exists only where the CPU has all of these features.
        unsafe { compiled(self, body) }
    }

    #[inline(always)]
    fn transpose(self, from: [&[u8; 16]; LANES]) -> [__m512i; 4] {
        // Each quarter of the four registers is a 4 x 4 matrix of words, which is transposed.
        // SAFETY: `self` exists only where the CPU has avx512f.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); 4];
            for (i, row) in rows.iter_mut().enumerate() {
                *row = _mm512_castsi128_si512(load(from[i]));
                *row = _mm512_inserti32x4::<1>(*row, load(from[4 + i]));
                *row = _mm512_inserti32x4::<2>(*row, load(from[8 + i]));
                *row = _mm512_inserti32x4::<3>(*row, load(from[12 + i]));
            }
            let (a, b) = (_mm512_unpacklo_epi32(rows[0], rows[1]), _mm512_unpacklo_epi32(rows[2], rows[3]));
            let (c, d) = (_mm512_unpackhi_epi32(rows[0], rows[1]), _mm512_unpackhi_epi32(rows[2], rows[3]));
            [
                _mm512_unpacklo_epi64(a, b),
                _mm512_unpackhi_epi64(a, b),
                _mm512_unpacklo_epi64(c, d),
                _mm512_unpackhi_epi64(c, d),
            ]
        }
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: __m512i) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512bw; the list is 16 bytes, and the load requires no
        // alignment.
        unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(list.as_ptr().cast())), at) }
    }

    #[inline(always)]
    fn dot_bytes<const IS_SIGNED: bool>(
        self,
        weights: &[__m512i],
        numbers: &[[u8; 4]],
        _most: u8,
        mut sum: __m512i,
    ) -> __m512i {
        for (&weights, &numbers) in weights.iter().zip(numbers) {
            // SAFETY: `self` exists only where the CPU has avx512vnni.
            sum = unsafe { _mm512_dpbusd_epi32(sum, weights, self.word(u32::from_le_bytes(numbers))) };
        }
        sum
    }

    #[cfg(amx)]
    #[inline(always)]
    fn amx(self) -> Option<crate::amx::Amx> {
        crate::amx::Amx::detect()
    }
}

impl Bytewise for Avx2 {
    const IS_BIASED: bool = false;

    intrinsics! {
        fn word(word: u32) -> Self::Ints { [_mm256_set1_epi32(word as i32); 2] }
    }

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<B: Body>(unit: Avx2, body: B) {
            body.run(unit);
        }
        // SAFETY: `self` exists only where the CPU has all of these features.
        unsafe { compiled(self, body) }
    }

    #[inline(always)]
    fn transpose(self, from: [&[u8; 16]; LANES]) -> [[__m256i; 2]; 4] {
        // Each half of the four registers is a 4 x 4 matrix of words, which is transposed.
        // SAFETY: `self` exists only where the CPU has avx2.
        unsafe {
            let mut out = [[_mm256_setzero_si256(); 2]; 4];
            for half in 0..2 {
                let mut rows = [_mm256_setzero_si256(); 4];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm256_set_m128i(load(from[8 * half + 4 + i]), load(from[8 * half + i]));
                }
                let (a, b) = (_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpacklo_epi32(rows[2], rows[3]));
                let (c, d) = (_mm256_unpackhi_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[2], rows[3]));
                out[0][half] = _mm256_unpacklo_epi64(a, b);
                out[1][half] = _mm256_unpackhi_epi64(a, b);
                out[2][half] = _mm256_unpacklo_epi64(c, d);
                out[3][half] = _mm256_unpackhi_epi64(c, d);
            }
            out
        }
    }

    #[inline(always)]
    fn halves(self, a: [__m256i; 2]) -> [__m256; 2] {
        let [low, high] = self.and(a, 0xffff);
        // SAFETY: `self` exists only where the CPU has avx2 and f16c.
        unsafe {
            let packed = _mm256_permute4x64_epi64::<0b1101_1000>(_mm256_packus_epi32(low, high));
            [_mm256_cvtph_ps(_mm256_castsi256_si128(packed)), _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(packed))]
        }
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` exists only where the CPU has avx2; the list is 16 bytes, and the load requires no alignment.
        unsafe {
            let list = _mm256_broadcastsi128_si256(_mm_loadu_si128(list.as_ptr().cast()));
            [_mm256_shuffle_epi8(list, at[0]), _mm256_shuffle_epi8(list, at[1])]
        }
    }

    #[inline(always)]
    fn dot_bytes<const IS_SIGNED: bool>(
        self,
        weights: &[[__m256i; 2]],
        numbers: &[[u8; 4]],
        most: u8,
        mut sum: [__m256i; 2],
    ) -> [__m256i; 2] {
        // The number of registers whose products, two by two, add up to what fits sixteen bits: at least one.
        let group = i16::MAX as usize / (2 * 127 * usize::from(most));
        for (weights, numbers) in weights.chunks(group).zip(numbers.chunks(group)) {
            // SAFETY: `self` exists only where the CPU has avx2.
            unsafe {
                let mut all = [_mm256_setzero_si256(); 2];
                for (weights, &numbers) in weights.iter().zip(numbers) {
                    let numbers = _mm256_set1_epi32(i32::from_le_bytes(numbers));
                    for (all, &weights) in all.iter_mut().zip(weights) {
                        // The sign of a weight moves to the number.
                        let pairs = match IS_SIGNED {
                            true => _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(numbers, weights)),
                            false => _mm256_maddubs_epi16(weights, numbers),
                        };
                        *all = _mm256_add_epi16(*all, pairs);
                    }
                }
                for (sum, all) in sum.iter_mut().zip(all) {
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(all, _mm256_set1_epi16(1)));
                }
            }
        }
        sum
    }
}
