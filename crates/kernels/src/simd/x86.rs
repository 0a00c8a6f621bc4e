//! Sixteen lanes on x86-64: AVX-512, and AVX2 with FMA.

use super::{LANES, Simd};
use std::arch::x86_64::*;

/// One 512-bit register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

/// Two 256-bit registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        // CPUs have all of them since Cascade Lake and Zen 4. Earlier ones are as fast with AVX2.
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
        let has = has && is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl");
        let has = has && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        (has && is_x86_feature_detected!("f16c")).then_some(Self(()))
    }
}

impl Simd for Avx512 {
    type Lanes = __m512;
    type Ints = __m512i;
    type Table = __m512;
    const IS_WIDE: bool = true;

    intrinsics! {
        fn half(from: [u8; 2]) -> f32 { half_f16c(from) }
        fn splat(x: f32) -> Self::Lanes { _mm512_set1_ps(x) }
        fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { _mm512_add_ps(a, b) }
        fn mul(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { _mm512_mul_ps(a, b) }
        fn div(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { _mm512_div_ps(a, b) }
        fn max(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { _mm512_max_ps(a, b) }
        fn to_bits(a: Self::Lanes) -> Self::Ints { _mm512_castps_si512(a) }
        fn of_bits(a: Self::Ints) -> Self::Lanes { _mm512_castsi512_ps(a) }
        fn add_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints { _mm512_add_epi32(a, b) }
        fn and(a: Self::Ints, mask: u32) -> Self::Ints { _mm512_and_si512(a, _mm512_set1_epi32(mask as i32)) }
        fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints { _mm512_or_si512(a, b) }
        fn shift_left(a: Self::Ints, bits: u32) -> Self::Ints { _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
        fn shift_right(a: Self::Ints, bits: u32) -> Self::Ints { _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits as i32)) }
        fn float(a: Self::Ints) -> Self::Lanes { _mm512_cvtepi32_ps(a) }
        fn zero() -> Self::Lanes { _mm512_setzero_ps() }
        fn fma(a: Self::Lanes, b: Self::Lanes, sum: Self::Lanes) -> Self::Lanes { _mm512_fmadd_ps(a, b, sum) }
    }

    #[inline(always)]
    fn f32(self, from: &[u8; 4 * LANES]) -> __m512 {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 64 bytes, and the load requires no
        // alignment. x86 is little-endian.
        unsafe { _mm512_loadu_ps(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn f16(self, from: &[u8; 2 * LANES]) -> __m512 {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 32 bytes, and the load requires no
        // alignment.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn bf16(self, from: &[u8; 2 * LANES]) -> __m512 {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 32 bytes, and the load requires no
        // alignment.
        unsafe {
            let halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves))
        }
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; LANES]) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 16 bytes, and the load requires no
        // alignment.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn signed(self, from: &[u8; LANES]) -> __m512i {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is 16 bytes, and the load requires no
        // alignment.
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast())) }
    }

    #[inline(always)]
    fn table(self, scale: f32, offset: f32) -> __m512 {
        const NUMBERS: [f32; LANES] =
            [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];
        self.fma(self.load(&NUMBERS), self.splat(scale), self.splat(offset))
    }

    #[inline(always)]
    fn look(self, table: __m512, at: __m512i) -> __m512 {
        // SAFETY: `self` exists only where the CPU has avx512f. Only the lowest four bits of each index count.
        unsafe { _mm512_permutexvar_ps(at, table) }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> __m512 {
        // SAFETY: `self` exists only where the CPU has avx512f; the array is sixteen floats, and the load requires no
        // alignment.
        unsafe { _mm512_loadu_ps(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, lanes: __m512) -> [f32; LANES] {
        let mut to = [0.0; LANES];
        // SAFETY: `self` exists only where the CPU has avx512f; the array is sixteen floats, and the store requires no
        // alignment.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), lanes) };
        to
    }

    #[inline(always)]
    fn to_half_finite(self, a: __m512) -> [[u8; 2]; LANES] {
        // SAFETY: `self` exists only where there is AVX-512; both types are 32 bytes of any value.
        unsafe {
            // A NaN stays one: the second operand is returned for it.
            let a = _mm512_max_ps(_mm512_set1_ps(-65504.0), _mm512_min_ps(_mm512_set1_ps(65504.0), a));
            std::mem::transmute(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a))
        }
    }

    #[cfg(any(amx, test))]
    #[inline(always)]
    fn round_to_bf16(self, a: __m512) -> __m512 {
        // SAFETY: `self` exists only where there is AVX-512.
        unsafe {
            let bits = _mm512_castps_si512(a);
            let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff)));
            // A NaN stays one.
            let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a);
            let rounded = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x40_0000));
            _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(0xffff_0000_u32 as i32)))
        }
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: every x86-64 CPU has it; prefetching an invalid address causes no fault.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[cfg(amx)]
    #[inline(always)]
    fn prefetch_near(self, at: *const u8) {
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }

    #[cfg(amx)]
    #[inline(always)]
    fn prefetch_to_write(self, at: *const u8) {
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) }
    }

    #[inline(always)]
    fn exchange<const WIDTH: usize>(self, a: __m512, b: __m512) -> (__m512, __m512) {
        // Indices from 16 on select lanes of `b`.
        const fn lane(i: usize, width: usize, second: bool) -> i32 {
            let of_b = i & width != 0;
            (if of_b == second { i } else { i ^ width }) as i32 + if of_b { 16 } else { 0 }
        }
        const fn lanes(width: usize, second: bool) -> [i32; LANES] {
            let (mut lanes, mut i) = ([0; LANES], 0);
            while i < LANES {
                lanes[i] = lane(i, width, second);
                i += 1;
            }
            lanes
        }
        // SAFETY: `self` exists only where the CPU has avx512f; both arrays are 64 bytes, and the load requires no
        // alignment.
        unsafe {
            let first = _mm512_loadu_si512(const { &lanes(WIDTH, false) }.as_ptr().cast());
            let second = _mm512_loadu_si512(const { &lanes(WIDTH, true) }.as_ptr().cast());
            (_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b))
        }
    }
}

/// Converts one number from half precision.
#[inline]
#[target_feature(enable = "f16c")]
fn half_f16c(from: [u8; 2]) -> f32 {
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(u16::from_le_bytes(from).into())))
}

impl Simd for Avx2 {
    type Lanes = [__m256; 2];
    type Ints = [__m256i; 2];
    /// Scale and offset.
    type Table = (__m256, __m256);
    const IS_WIDE: bool = false;

    intrinsics! {
        fn half(from: [u8; 2]) -> f32 { half_f16c(from) }
        fn splat(x: f32) -> Self::Lanes { [_mm256_set1_ps(x); 2] }
        fn add(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        fn mul(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        fn div(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
        fn max(a: Self::Lanes, b: Self::Lanes) -> Self::Lanes { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
        fn to_bits(a: Self::Lanes) -> Self::Ints { [_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])] }
        fn of_bits(a: Self::Ints) -> Self::Lanes { [_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])] }
        fn add_ints(a: Self::Ints, b: Self::Ints) -> Self::Ints {
            [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])]
        }
        fn and(a: Self::Ints, mask: u32) -> Self::Ints {
            let mask = _mm256_set1_epi32(mask as i32);
            [_mm256_and_si256(a[0], mask), _mm256_and_si256(a[1], mask)]
        }
        fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
        fn shift_left(a: Self::Ints, bits: u32) -> Self::Ints {
            let bits = _mm_cvtsi32_si128(bits as i32);
            [_mm256_sll_epi32(a[0], bits), _mm256_sll_epi32(a[1], bits)]
        }
        fn shift_right(a: Self::Ints, bits: u32) -> Self::Ints {
            let bits = _mm_cvtsi32_si128(bits as i32);
            [_mm256_srl_epi32(a[0], bits), _mm256_srl_epi32(a[1], bits)]
        }
        fn float(a: Self::Ints) -> Self::Lanes { [_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])] }
        fn table(scale: f32, offset: f32) -> (__m256, __m256) { (_mm256_set1_ps(scale), _mm256_set1_ps(offset)) }
        fn zero() -> Self::Lanes { [_mm256_setzero_ps(); 2] }
        fn fma(a: Self::Lanes, b: Self::Lanes, sum: Self::Lanes) -> Self::Lanes {
            [_mm256_fmadd_ps(a[0], b[0], sum[0]), _mm256_fmadd_ps(a[1], b[1], sum[1])]
        }
    }

    #[inline(always)]
    fn f32(self, from: &[u8; 4 * LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(2 * LANES);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are 32 bytes, and the load requires no
        // alignment. x86 is little-endian.
        unsafe { [_mm256_loadu_ps(low.as_ptr().cast()), _mm256_loadu_ps(high.as_ptr().cast())] }
    }

    #[inline(always)]
    fn f16(self, from: &[u8; 2 * LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(LANES);
        // SAFETY: `self` exists only where the CPU has f16c; both halves are 16 bytes, and the load requires no
        // alignment.
        unsafe {
            let (low, high) = (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast()));
            [_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)]
        }
    }

    #[inline(always)]
    fn to_half_finite(self, a: [__m256; 2]) -> [[u8; 2]; LANES] {
        // SAFETY: `self` exists only where the CPU has avx and f16c; both types are 32 bytes of any value.
        unsafe {
            let halves = a.map(|a| {
                let a = _mm256_max_ps(_mm256_set1_ps(-65504.0), _mm256_min_ps(_mm256_set1_ps(65504.0), a));
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)
            });
            std::mem::transmute::<[__m128i; 2], [[u8; 2]; LANES]>(halves)
        }
    }

    #[inline(always)]
    fn bf16(self, from: &[u8; 2 * LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(LANES);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are 16 bytes, and the load requires no
        // alignment.
        unsafe {
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(low.as_ptr().cast()));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(high.as_ptr().cast()));
            let (low, high) = (_mm256_slli_epi32::<16>(low), _mm256_slli_epi32::<16>(high));
            [_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)]
        }
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; LANES]) -> [__m256i; 2] {
        let (low, high) = from.split_at(LANES / 2);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are 8 bytes, and the load requires no
        // alignment.
        unsafe {
            let (low, high) = (_mm_loadl_epi64(low.as_ptr().cast()), _mm_loadl_epi64(high.as_ptr().cast()));
            [_mm256_cvtepu8_epi32(low), _mm256_cvtepu8_epi32(high)]
        }
    }

    #[inline(always)]
    fn signed(self, from: &[u8; LANES]) -> [__m256i; 2] {
        let (low, high) = from.split_at(LANES / 2);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are 8 bytes, and the load requires no
        // alignment.
        unsafe {
            let (low, high) = (_mm_loadl_epi64(low.as_ptr().cast()), _mm_loadl_epi64(high.as_ptr().cast()));
            [_mm256_cvtepi8_epi32(low), _mm256_cvtepi8_epi32(high)]
        }
    }

    #[inline(always)]
    fn look(self, (scale, offset): (__m256, __m256), at: [__m256i; 2]) -> [__m256; 2] {
        let q = self.float(self.and(at, 15));
        // SAFETY: `self` exists only where the CPU has fma.
        unsafe { [_mm256_fmadd_ps(q[0], scale, offset), _mm256_fmadd_ps(q[1], scale, offset)] }
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> [__m256; 2] {
        let (low, high) = from.split_at(LANES / 2);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are eight floats, and the load requires no
        // alignment.
        unsafe { [_mm256_loadu_ps(low.as_ptr()), _mm256_loadu_ps(high.as_ptr())] }
    }

    #[inline(always)]
    fn store(self, lanes: [__m256; 2]) -> [f32; LANES] {
        let mut to = [0.0; LANES];
        let (low, high) = to.split_at_mut(LANES / 2);
        // SAFETY: `self` exists only where the CPU has avx2; both halves are eight floats, and the store requires no
        // alignment.
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), lanes[0]);
            _mm256_storeu_ps(high.as_mut_ptr(), lanes[1]);
        }
        to
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        // SAFETY: every x86-64 CPU has it; prefetching an invalid address causes no fault.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    fn exchange<const WIDTH: usize>(self, a: [__m256; 2], b: [__m256; 2]) -> ([__m256; 2], [__m256; 2]) {
        if WIDTH == 8 {
            return ([a[0], b[0]], [a[1], b[1]]);
        }
        let (mut first, mut second) = (a, b);
        for i in 0..2 {
            let (a, b) = (a[i], b[i]);
            // SAFETY: `self` exists only where the CPU has avx2.
            (first[i], second[i]) = unsafe {
                match WIDTH {
                    4 => (_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b)),
                    2 => {
                        let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
                        (_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)))
                    }
                    _ => (
                        _mm256_blend_ps::<0xaa>(a, _mm256_moveldup_ps(b)),
                        _mm256_blend_ps::<0xaa>(_mm256_movehdup_ps(a), b),
                    ),
                }
            };
        }
        (first, second)
    }
}
