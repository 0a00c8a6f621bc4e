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

    /// Runs a body as a function of its own, compiled for this unit: the registers are its alone.
    fn run<B: Body>(self, body: B);

    /// Bytes that follow each other.
    fn bytes64(self, from: &[u8; BYTES]) -> Self::Bytes;

    /// Two times thirty-two.
    fn join(self, first: &[u8; BYTES / 2], second: &[u8; BYTES / 2]) -> Self::Bytes;

    /// Each byte shifted to the right, by a number for each sixteen bytes, and what a mask leaves of it. The mask has
    /// no bits that would come from another byte.
    fn shift_and(self, a: Self::Bytes, bits: [u32; 4], mask: u8) -> Self::Bytes;

    /// Each byte shifted to the left; none has a bit that would be lost.
    fn shift_up(self, a: Self::Bytes, bits: u32) -> Self::Bytes;

    /// The bits of both.
    fn or_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;

    /// Of sixteen bytes the one whose place each byte is; all are below sixteen.
    fn look_bytes(self, list: &[i8; 16], at: Self::Bytes) -> Self::Bytes;

    /// For each lane `start` and four products of a weight, from 0 to 127, and a number with a sign, from -127 to 127.
    fn dot_small(self, weights: Self::Bytes, numbers: Self::Bytes, start: Self::Ints) -> Self::Ints;

    /// For each lane four products of a weight with a sign and a number with a sign, from -127 to 127; `less` is -128
    /// times the sum of the numbers, which some units need.
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

/// What a unit runs.
pub(crate) trait Body {
    /// Always inlined.
    fn run<S: Bytewise>(self, unit: S);
}

impl Bytewise for Portable {
    type Bytes = [u8; BYTES];

    #[inline(always)]
    fn run<B: Body>(self, body: B) {
        body.run(self);
    }

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
    fn look_bytes(self, list: &[i8; 16], at: [u8; BYTES]) -> [u8; BYTES] {
        at.map(|at| list[usize::from(at)] as u8)
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

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

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
        let list = std::array::from_fn(|i| w[i] as i8);
        let looked = unit.look_bytes(&list, unit.shift_and(joined, [0, 4, 0, 4], 15));
        let sums = std::array::from_fn(|lane| -128 * (0..4).map(|i| i32::from(x[4 * lane + i] as i8)).sum::<i32>());
        let start = unit.ints(start);
        let ints = [
            unit.dot_small(unit.bytes64(&small), numbers, start),
            unit.dot_signed(unit.bytes64(w), numbers, unit.ints(&sums)),
            unit.dot_small(packed, numbers, start),
            unit.dot_signed(looked, numbers, unit.ints(&sums)),
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
            #[cfg(target_arch = "aarch64")]
            assert_eq!(all(crate::simd::Neon, &w, &x, &start), portable);
            let exact: i32 = (0..4).map(|i| i32::from(w[i] as i8) * i32::from(x[i] as i8)).sum();
            assert_eq!(portable[1][0], exact as f32);
        }
    }
}
