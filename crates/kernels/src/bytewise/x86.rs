//! Bytes on x86-64: VNNI, and AVX2.

use super::{BYTES, Body, Bytewise};
use crate::simd::{Avx2, Avx512, LANES};
use std::arch::x86_64::*;

impl Bytewise for Avx512 {
    type Bytes = __m512i;

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,fma,f16c")]
        fn compiled<B: Body>(unit: Avx512, body: B) {
            body.run(unit);
        }
        // SAFETY: `self` exists only where the CPU has all of them.
        unsafe { compiled(self, body) }
    }

    #[inline(always)]
    fn bytes64(self, from: &[u8; BYTES]) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 64 bytes, and an unaligned load asks for
        // no more.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f; both arrays are 32 bytes, and unaligned loads ask for
        // no more.
        unsafe {
            let first = _mm512_castsi256_si512(_mm256_loadu_si256(first.as_ptr().cast()));
            _mm512_inserti64x4::<1>(first, _mm256_loadu_si256(second.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn shift_and(self, a: __m512i, bits: [u32; 4], mask: u8) -> __m512i {
        let [a0, a1, a2, a3] = bits.map(i64::from);
        // SAFETY: `self` exists only where the CPU has avx512f.
        unsafe {
            let bits = _mm512_set_epi64(a3, a3, a2, a2, a1, a1, a0, a0);
            _mm512_and_si512(_mm512_srlv_epi64(a, bits), _mm512_set1_epi32(i32::from_ne_bytes([mask; 4])))
        }
    }

    #[inline(always)]
    fn shift_up(self, a: __m512i, bits: u32) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f.
        unsafe { _mm512_sll_epi64(a, _mm_cvtsi32_si128(bits as i32)) }
    }

    #[inline(always)]
    fn or_bytes(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: __m512i) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512bw; the list is 16 bytes, and an unaligned load asks for no
        // more.
        unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(list.as_ptr().cast())), at) }
    }

    #[inline(always)]
    fn dot_small(self, weights: __m512i, numbers: __m512i, start: __m512i) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512vnni.
        unsafe { _mm512_dpbusd_epi32(start, weights, numbers) }
    }

    #[inline(always)]
    fn dot_signed(self, weights: __m512i, numbers: __m512i, less: __m512i) -> __m512i {
        // A weight without its sign is one with it and 128.
        // SAFETY: `self` exists only where the CPU has avx512f and avx512vnni.
        unsafe { _mm512_dpbusd_epi32(less, _mm512_xor_si512(weights, _mm512_set1_epi8(-128)), numbers) }
    }

    #[inline(always)]
    fn bytes_of(self, words: [u32; 4]) -> __m512i {
        let [a, b, c, d] = words.map(|word| word as i32);
        // SAFETY: `self` exists only where the CPU has avx512f.
        unsafe { _mm512_cvtepu8_epi32(_mm_set_epi32(d, c, b, a)) }
    }

    #[inline(always)]
    fn ints(self, from: &[i32; LANES]) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 64 bytes, and an unaligned load asks for
        // no more.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn halves(self, low: f32, high: f32) -> __m512 {
        // SAFETY: `self` exists only where the CPU has avx512f.
        unsafe { _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(low), _mm512_set1_ps(high)) }
    }

    #[inline(always)]
    fn spread_halves(self, a: __m512, at: usize) -> __m512 {
        let low = 2 * at as i32;
        // SAFETY: `self` exists only where the CPU has avx512f. Of each index the lowest four bits count.
        unsafe {
            let at = _mm512_mask_blend_epi32(0xff00, _mm512_set1_epi32(low), _mm512_set1_epi32(low + 1));
            _mm512_permutexvar_ps(at, a)
        }
    }

    #[inline(always)]
    fn spread_quarters(self, a: __m512, at: usize) -> __m512 {
        let first = 4 * at as i32;
        // SAFETY: `self` exists only where the CPU has avx512f. Of each index the lowest four bits count.
        unsafe {
            let quarters = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
            _mm512_permutexvar_ps(_mm512_add_epi32(quarters, _mm512_set1_epi32(first)), a)
        }
    }
}

impl Bytewise for Avx2 {
    type Bytes = [__m256i; 2];

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn compiled<B: Body>(unit: Avx2, body: B) {
            body.run(unit);
        }
        // SAFETY: `self` exists only where the CPU has all of them.
        unsafe { compiled(self, body) }
    }

    #[inline(always)]
    fn bytes64(self, from: &[u8; BYTES]) -> [__m256i; 2] {
        let (low, high) = from.split_at(BYTES / 2);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are 32 bytes, and unaligned loads ask for no
        // more.
        unsafe { [_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())] }
    }

    #[inline(always)]
    fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> [__m256i; 2] {
        // SAFETY: `self` exists only where the CPU has avx2; both arrays are 32 bytes, and unaligned loads ask for no
        // more.
        unsafe { [_mm256_loadu_si256(first.as_ptr().cast()), _mm256_loadu_si256(second.as_ptr().cast())] }
    }

    #[inline(always)]
    fn shift_and(self, a: [__m256i; 2], bits: [u32; 4], mask: u8) -> [__m256i; 2] {
        let [a0, a1, a2, a3] = bits.map(i64::from);
        // SAFETY: `self` exists only where the CPU has avx2.
        unsafe {
            let mask = _mm256_set1_epi8(mask as i8);
            let (low, high) = (_mm256_set_epi64x(a1, a1, a0, a0), _mm256_set_epi64x(a3, a3, a2, a2));
            let (low, high) = (_mm256_srlv_epi64(a[0], low), _mm256_srlv_epi64(a[1], high));
            [_mm256_and_si256(low, mask), _mm256_and_si256(high, mask)]
        }
    }

    #[inline(always)]
    fn shift_up(self, a: [__m256i; 2], bits: u32) -> [__m256i; 2] {
        // SAFETY: `self` exists only where the CPU has avx2.
        unsafe {
            let bits = _mm_cvtsi32_si128(bits as i32);
            [_mm256_sll_epi64(a[0], bits), _mm256_sll_epi64(a[1], bits)]
        }
    }

    #[inline(always)]
    fn or_bytes(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` exists only where the CPU has avx2.
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }

    #[inline(always)]
    fn look_bytes(self, list: &[i8; 16], at: [__m256i; 2]) -> [__m256i; 2] {
        // SAFETY: `self` exists only where the CPU has avx2; the list is 16 bytes, and an unaligned load asks for no
        // more.
        unsafe {
            let list = _mm256_broadcastsi128_si256(_mm_loadu_si128(list.as_ptr().cast()));
            [_mm256_shuffle_epi8(list, at[0]), _mm256_shuffle_epi8(list, at[1])]
        }
    }

    #[inline(always)]
    fn dot_small(self, weights: [__m256i; 2], numbers: [__m256i; 2], start: [__m256i; 2]) -> [__m256i; 2] {
        let mut out = start;
        for (i, out) in out.iter_mut().enumerate() {
            // Two products are at most 2 * 127 * 127, which sixteen bits hold.
            // SAFETY: `self` exists only where the CPU has avx2.
            unsafe {
                let pairs = _mm256_maddubs_epi16(weights[i], numbers[i]);
                *out = _mm256_add_epi32(*out, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
        out
    }

    #[inline(always)]
    fn dot_signed(self, weights: [__m256i; 2], numbers: [__m256i; 2], _: [__m256i; 2]) -> [__m256i; 2] {
        let mut out = weights;
        for (i, out) in out.iter_mut().enumerate() {
            // The sign goes over to the number; two products are at most 2 * 128 * 127, which sixteen bits hold.
            // SAFETY: `self` exists only where the CPU has avx2.
            unsafe {
                let signed = _mm256_sign_epi8(numbers[i], weights[i]);
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights[i]), signed);
                *out = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            }
        }
        out
    }

    #[inline(always)]
    fn bytes_of(self, words: [u32; 4]) -> [__m256i; 2] {
        let [a, b, c, d] = words.map(|word| word as i32);
        // SAFETY: `self` exists only where the CPU has avx2.
        unsafe {
            let (low, high) = (_mm_set_epi32(0, 0, b, a), _mm_set_epi32(0, 0, d, c));
            [_mm256_cvtepu8_epi32(low), _mm256_cvtepu8_epi32(high)]
        }
    }

    #[inline(always)]
    fn ints(self, from: &[i32; LANES]) -> [__m256i; 2] {
        let (low, high) = from.split_at(LANES / 2);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are 32 bytes, and unaligned loads ask for no
        // more.
        unsafe { [_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())] }
    }

    #[inline(always)]
    fn halves(self, low: f32, high: f32) -> [__m256; 2] {
        // SAFETY: `self` exists only where the CPU has avx2.
        unsafe { [_mm256_set1_ps(low), _mm256_set1_ps(high)] }
    }

    #[inline(always)]
    fn spread_halves(self, a: [__m256; 2], at: usize) -> [__m256; 2] {
        let (from, at) = (a[at / 4], 2 * (at % 4) as i32);
        // SAFETY: `self` exists only where the CPU has avx2. Of each index the lowest three bits count.
        unsafe {
            let low = _mm256_permutevar8x32_ps(from, _mm256_set1_epi32(at));
            [low, _mm256_permutevar8x32_ps(from, _mm256_set1_epi32(at + 1))]
        }
    }

    #[inline(always)]
    fn spread_quarters(self, a: [__m256; 2], at: usize) -> [__m256; 2] {
        let (from, at) = (a[at / 2], 4 * (at % 2) as i32);
        // SAFETY: `self` exists only where the CPU has avx2. Of each index the lowest three bits count.
        unsafe {
            let first = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
            let low = _mm256_permutevar8x32_ps(from, _mm256_add_epi32(first, _mm256_set1_epi32(at)));
            let high = _mm256_add_epi32(first, _mm256_set1_epi32(at + 2));
            [low, _mm256_permutevar8x32_ps(from, high)]
        }
    }
}
