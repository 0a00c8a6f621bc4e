//! Sixty-four bytes at a time: dot products of whole numbers, exact and so the same on every unit.

use crate::simd::{LANES, Portable, Simd, Words};

/// Bytes that are worked on together.
pub(crate) const BYTES: usize = 64;

/// A unit that also multiplies bytes.
///
/// # Contract
/// Whole numbers: nothing is rounded, nothing overflows as long as arguments are within their bounds.
pub(crate) trait Bytewise: Simd {
    /// Sixty-four bytes, four for each lane.
    type Bytes: Copy;

    /// Bytes that follow each other.
    fn bytes64(self, from: &[u8; BYTES]) -> Self::Bytes;

    /// Two times thirty-two.
    fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> Self::Bytes;

    /// Each byte shifted to the right, by a number for each sixteen bytes, and what a mask leaves of it. The mask has no bits that
    /// would come from another byte.
    fn shift_and(self, a: Self::Bytes, bits: [u32; 4], mask: u8) -> Self::Bytes;

    /// Each byte shifted to the left; none has a bit that would be lost.
    fn shift_up(self, a: Self::Bytes, bits: u32) -> Self::Bytes;

    /// The bits of both.
    fn or_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;

    /// For each lane `start` and four products of a weight, from 0 to 127, and a number with a sign, from -127 to 127.
    fn dot_small(self, weights: Self::Bytes, numbers: Self::Bytes, start: Self::Ints) -> Self::Ints;

    /// For each lane four products of a weight with a sign and a number with a sign, from -127 to 127; `less` is -128 times the sum
    /// of the numbers, which some units need.
    fn dot_signed(self, weights: Self::Bytes, numbers: Self::Bytes, less: Self::Ints) -> Self::Ints;

    /// The bytes of four words, without signs.
    fn bytes_of(self, words: [u32; 4]) -> Self::Ints;

    /// Sixteen whole numbers.
    fn ints(self, from: &[i32; LANES]) -> Self::Ints;

    /// One number in the lower eight lanes and another in the upper.
    fn halves(self, low: f32, high: f32) -> Self::Lanes;

    /// Lane `2 at` in the lower eight lanes, and the one after it in the upper; `at` is below four.
    fn spread_halves(self, a: Self::Lanes, at: usize) -> Self::Lanes;

    /// Lanes `4 at` to `4 at + 3`, each four times; `at` is below four.
    fn spread_quarters(self, a: Self::Lanes, at: usize) -> Self::Lanes;
}

impl Bytewise for Portable {
    type Bytes = [u8; BYTES];

    #[inline(always)]
    fn bytes64(self, from: &[u8; BYTES]) -> [u8; BYTES] {
        *from
    }

    #[inline(always)]
    fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> [u8; BYTES] {
        std::array::from_fn(|i| if i < BYTES / 2 { first[i] } else { second[i - BYTES / 2] })
    }

    #[inline(always)]
    fn shift_and(self, a: [u8; BYTES], bits: [u32; 4], mask: u8) -> [u8; BYTES] {
        std::array::from_fn(|i| (a[i] >> bits[i / 16]) & mask)
    }

    #[inline(always)]
    fn shift_up(self, a: [u8; BYTES], bits: u32) -> [u8; BYTES] {
        a.map(|byte| byte << bits)
    }

    #[inline(always)]
    fn or_bytes(self, a: [u8; BYTES], b: [u8; BYTES]) -> [u8; BYTES] {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn dot_small(self, weights: [u8; BYTES], numbers: [u8; BYTES], start: Words) -> Words {
        std::array::from_fn(|lane| {
            let product = |i: usize| i32::from(weights[i]) * i32::from(numbers[i] as i8);
            (start[lane] as i32 + (4 * lane..4 * lane + 4).map(product).sum::<i32>()) as u32
        })
    }

    #[inline(always)]
    fn dot_signed(self, weights: [u8; BYTES], numbers: [u8; BYTES], _: Words) -> Words {
        std::array::from_fn(|lane| {
            let product = |i: usize| i32::from(weights[i] as i8) * i32::from(numbers[i] as i8);
            (4 * lane..4 * lane + 4).map(product).sum::<i32>() as u32
        })
    }

    #[inline(always)]
    fn bytes_of(self, words: [u32; 4]) -> Words {
        std::array::from_fn(|i| words[i / 4] >> (8 * (i % 4)) & 0xff)
    }

    #[inline(always)]
    fn ints(self, from: &[i32; LANES]) -> Words {
        from.map(|x| x as u32)
    }

    #[inline(always)]
    fn halves(self, low: f32, high: f32) -> [f32; LANES] {
        std::array::from_fn(|i| if i < 8 { low } else { high })
    }

    #[inline(always)]
    fn spread_halves(self, a: [f32; LANES], at: usize) -> [f32; LANES] {
        std::array::from_fn(|i| a[2 * at + i / 8])
    }

    #[inline(always)]
    fn spread_quarters(self, a: [f32; LANES], at: usize) -> [f32; LANES] {
        std::array::from_fn(|i| a[4 * at + i / 4])
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BYTES, Bytewise};
    use crate::simd::{Avx2, Avx512, LANES};
    use std::arch::x86_64::*;

    impl Bytewise for Avx512 {
        type Bytes = __m512i;

        #[inline(always)]
        fn bytes64(self, from: &[u8; BYTES]) -> __m512i {
            // SAFETY: `self` exists only where the CPU has avx512f; the array is 64 bytes, and an unaligned load asks for no more.
            unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
        }

        #[inline(always)]
        fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> __m512i {
            // SAFETY: `self` exists only where the CPU has avx512f; both arrays are 32 bytes, and unaligned loads ask for no more.
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
            // SAFETY: `self` exists only where the CPU has avx512f; the array is 64 bytes, and an unaligned load asks for no more.
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
        fn bytes64(self, from: &[u8; BYTES]) -> [__m256i; 2] {
            let (low, high) = from.split_at(BYTES / 2);
            // SAFETY: `self` exists only where the CPU has avx2; both halves are 32 bytes, and unaligned loads ask for no more.
            unsafe { [_mm256_loadu_si256(low.as_ptr().cast()), _mm256_loadu_si256(high.as_ptr().cast())] }
        }

        #[inline(always)]
        fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> [__m256i; 2] {
            // SAFETY: `self` exists only where the CPU has avx2; both arrays are 32 bytes, and unaligned loads ask for no more.
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
            // SAFETY: `self` exists only where the CPU has avx2; both halves are 32 bytes, and unaligned loads ask for no more.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a unit does with bytes, as whole numbers.
    fn all<S: Bytewise>(unit: S, w: &[u8; 64], x: &[u8; 64], start: &[i32; 16]) -> Vec<[f32; 16]> {
        let (small, numbers) = (w.map(|w| w & 127), unit.bytes64(x));
        let (first, second) = w.split_at(32);
        let joined = unit.join(second.try_into().unwrap(), first.try_into().unwrap());
        let shifted = unit.shift_and(joined, [0, 4, 2, 6], 3);
        let packed = unit.or_bytes(unit.shift_up(shifted, 4), unit.shift_and(joined, [4; 4], 15));
        let sums = std::array::from_fn(|lane| -128 * (0..4).map(|i| i32::from(x[4 * lane + i] as i8)).sum::<i32>());
        let start = unit.ints(start);
        let ints = [
            unit.dot_small(unit.bytes64(&small), numbers, start),
            unit.dot_signed(unit.bytes64(w), numbers, unit.ints(&sums)),
            unit.dot_small(packed, numbers, start),
        ];
        let mut out = ints.map(|ints| unit.store(unit.float(ints))).to_vec();
        let lanes = unit.load(&std::array::from_fn(|i| i as f32 + 0.5));
        for at in 0..4 {
            out.push(unit.store(unit.spread_halves(lanes, at)));
            out.push(unit.store(unit.spread_quarters(lanes, at)));
        }
        out.push(unit.store(unit.halves(1.5, -2.0)));
        let word = |i: usize| u32::from_le_bytes(w[i..i + 4].try_into().unwrap());
        out.push(unit.store(unit.float(unit.bytes_of([word(0), word(20), word(40), word(60)]))));
        out
    }

    #[test]
    fn every_unit_computes_the_same() {
        for seed in 0..200u32 {
            let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
            let mut byte = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // The ends come often.
                [(state >> 24) as u8, 0x80, 0x7f, 0][if state >> 16 & 3 == 0 { (state >> 18 & 3) as usize } else { 0 }]
            };
            let w: [u8; 64] = std::array::from_fn(|_| byte());
            let x: [u8; 64] =
                std::array::from_fn(|_| byte().max(0x81) & byte() | 1).map(|x| if x == 0x80 { 1 } else { x });
            let start = std::array::from_fn(|_| i32::from(byte()) - 100);
            let portable = all(Portable, &w, &x, &start);
            #[cfg(target_arch = "x86_64")]
            {
                use crate::simd::{Avx2, Avx512};
                assert!(Avx2::detect().is_none_or(|unit| all(unit, &w, &x, &start) == portable));
                assert!(Avx512::detect().is_none_or(|unit| all(unit, &w, &x, &start) == portable));
            }
            let exact: i32 = (0..4).map(|i| i32::from(w[i] as i8) * i32::from(x[i] as i8)).sum();
            assert_eq!(portable[1][0], exact as f32);
        }
    }
}
