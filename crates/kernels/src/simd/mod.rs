//! Sixteen lanes of f32 on every kind of CPU, with the same bits on each.
//!
//! A [`Simd`] value proves that the CPU has what the implementation needs: [`dispatch`](crate::dispatch) obtains it
//! only after checking the CPU. So the kernels are safe code over this trait.

use std::fmt::Debug;

use crate::half::{half, to_half_finite};

/// The number of lanes of every sum.
pub(crate) const LANES: usize = 16;

/// The number of bytes in a cache line.
pub(crate) const LINE: usize = 64;

/// One word per lane.
pub(crate) type U32Lanes = [u32; LANES];

/// Computes all lanes in a simple loop, which the compiler vectorizes if the unit allows it.
#[inline(always)]
pub(crate) fn lanes(f: impl Fn(usize) -> u32) -> U32Lanes {
    let mut out = [0; LANES];
    for (l, out) in out.iter_mut().enumerate() {
        *out = f(l);
    }
    out
}

/// A kind of SIMD unit.
///
/// # Contract
/// `fma` rounds once in each lane, so every implementation gives the same bits.
pub(crate) trait Simd: Copy + Debug {
    /// Sixteen lanes.
    type Lanes: Copy;

    /// Sixteen 32-bit integers.
    type Ints: Copy;

    /// A lookup table of sixteen numbers.
    type Table: Copy;

    fn zero(self) -> Self::Lanes;

    fn load(self, from: &[f32; LANES]) -> Self::Lanes;

    /// Loads sixteen numbers from little-endian bytes.
    fn f32(self, from: &[u8; 4 * LANES]) -> Self::Lanes;

    /// Loads sixteen numbers in half precision.
    fn f16(self, from: &[u8; 2 * LANES]) -> Self::Lanes;

    /// Loads sixteen numbers in bf16.
    fn bf16(self, from: &[u8; 2 * LANES]) -> Self::Lanes;

    /// Converts one number from half precision.
    fn half(self, from: [u8; 2]) -> f32;

    /// The same number in each lane.
    fn splat(self, x: f32) -> Self::Lanes;

    fn add(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    fn mul(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    fn div(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    /// The larger numbers. Inputs are never NaN.
    fn max(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes;

    fn to_bits(self, a: Self::Lanes) -> Self::Ints;

    fn of_bits(self, a: Self::Ints) -> Self::Lanes;

    /// The wrapping sums.
    fn add_ints(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;

    /// Rounds to the nearest bf16.
    #[cfg(any(amx, test))]
    #[inline(always)]
    fn round_to_bf16(self, a: Self::Lanes) -> Self::Lanes {
        self.load(&self.store(a).map(|x| f32::from_bits(u32::from(u16::from_le_bytes(crate::half::to_bf16(x))) << 16)))
    }

    /// Rounds to the nearest finite number in half precision, or NaN.
    #[inline(always)]
    fn to_half_finite(self, a: Self::Lanes) -> [[u8; 2]; LANES] {
        self.store(a).map(to_half_finite)
    }

    /// Loads sixteen unsigned bytes.
    fn bytes(self, from: &[u8; LANES]) -> Self::Ints;

    /// Loads sixteen signed bytes.
    fn signed(self, from: &[u8; LANES]) -> Self::Ints;

    fn and(self, a: Self::Ints, mask: u32) -> Self::Ints;

    fn or(self, a: Self::Ints, b: Self::Ints) -> Self::Ints;

    fn shift_left(self, a: Self::Ints, bits: u32) -> Self::Ints;

    /// Shifts in zeros from the left.
    fn shift_right(self, a: Self::Ints, bits: u32) -> Self::Ints;

    /// Converts signed integers to floats.
    fn float(self, a: Self::Ints) -> Self::Lanes;

    /// `q * scale + offset` for each `q` from 0 to 15, rounded once.
    fn table(self, scale: f32, offset: f32) -> Self::Table;

    /// Looks up the lowest four bits of each number in a table.
    fn look(self, table: Self::Table, at: Self::Ints) -> Self::Lanes;

    /// Whether registers hold some thirty `Lanes` at a time, or only eight.
    const IS_WIDE: bool;

    /// `a * b + sum`, rounded once.
    fn fma(self, a: Self::Lanes, b: Self::Lanes, sum: Self::Lanes) -> Self::Lanes;

    fn store(self, lanes: Self::Lanes) -> [f32; LANES];

    /// Prefetches an address, which will be read soon, or never. The target is the second-level cache: the first level
    /// allows only few outstanding lines, and loads would wait for them.
    #[inline(always)]
    fn prefetch(self, _: *const u8) {}

    /// Prefetches an address that will be read very soon, to the first-level cache.
    #[cfg(amx)]
    #[inline(always)]
    fn prefetch_near(self, _: *const u8) {}

    /// Prefetches an address that will be written very soon.
    #[cfg(amx)]
    #[inline(always)]
    fn prefetch_to_write(self, _: *const u8) {}

    /// Swaps, in each `2 WIDTH` lanes, the second half of `a` with the first of `b`; `WIDTH` is 8, 4, 2 or 1.
    fn exchange<const WIDTH: usize>(self, a: Self::Lanes, b: Self::Lanes) -> (Self::Lanes, Self::Lanes);

    /// The sums of the two halves of each `2 WIDTH` lanes: those of `a`, then those of `b`.
    #[inline(always)]
    fn fold<const WIDTH: usize>(self, a: Self::Lanes, b: Self::Lanes) -> Self::Lanes {
        let (first, second) = self.exchange::<WIDTH>(a, b);
        self.add(first, second)
    }

    /// The largest lane.
    #[inline(always)]
    fn largest(self, lanes: Self::Lanes) -> f32 {
        let halve = |(a, b)| self.max(a, b);
        let lanes = halve(self.exchange::<8>(lanes, lanes));
        let lanes = halve(self.exchange::<4>(lanes, lanes));
        let lanes = halve(self.exchange::<2>(lanes, lanes));
        self.store(halve(self.exchange::<1>(lanes, lanes)))[0]
    }

    /// `e^x` for `x` up to 80, with a relative error of about 1e-7; below -87 it is 1.6e-38.
    #[inline(always)]
    fn exp(self, x: Self::Lanes) -> Self::Lanes {
        // Adding a number of this size rounds to an integer, which is then in the lowest bits.
        const ROUND: f32 = 12_582_912.0;
        let x = self.max(x, self.splat(-87.0));
        let rounded = self.fma(x, self.splat(std::f32::consts::LOG2_E), self.splat(ROUND));
        let n = self.add(rounded, self.splat(-ROUND));
        // x = n ln 2 + r, with ln 2 in two parts, of which the first has few bits.
        let r = self.fma(n, self.splat(-0.693_359_4), x);
        let r = self.fma(n, self.splat(2.121_944_4e-4), r);
        let mut sum = self.splat(1.0 / 5040.0);
        for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            sum = self.fma(sum, r, self.splat(factor));
        }
        self.of_bits(self.add_ints(self.to_bits(sum), self.shift_left(self.to_bits(rounded), 23)))
    }

    /// The dot product of two slices of equal length: lane by lane, with the rest past a multiple of [`LANES`] in the
    /// first lanes, and then over all lanes.
    #[inline(always)]
    fn dot(self, a: &[f32], b: &[f32]) -> f32 {
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        let mut sum = self.zero();
        for (a, b) in a.iter().zip(b) {
            sum = self.fma(self.load(a), self.load(b), sum);
        }
        self.finish(sum, a_rest, b_rest)
    }

    /// Finishes a dot product: adds the rest, then halves the number of lanes four times.
    #[inline(always)]
    fn finish(self, sum: Self::Lanes, a_rest: &[f32], b_rest: &[f32]) -> f32 {
        let mut lanes = sum;
        if !a_rest.is_empty() {
            let mut each = self.store(sum);
            for (lane, (a, b)) in each.iter_mut().zip(a_rest.iter().zip(b_rest)) {
                *lane = a.mul_add(*b, *lane);
            }
            lanes = self.load(&each);
        }
        self.sums(lanes, lanes)[0]
    }

    /// The sums of all lanes of `a` and of `b`, each by halving their number four times.
    #[inline(always)]
    fn sums(self, a: Self::Lanes, b: Self::Lanes) -> [f32; 2] {
        let lanes = self.fold::<8>(a, b);
        let lanes = self.fold::<4>(lanes, lanes);
        let lanes = self.fold::<2>(lanes, lanes);
        let lanes = self.store(self.fold::<1>(lanes, lanes));
        [lanes[0], lanes[8]]
    }
}

/// Exchanges the rows and the columns of sixteen by sixteen numbers.
#[inline(always)]
pub(crate) fn transpose<S: Simd>(unit: S, square: &mut [S::Lanes; LANES]) {
    exchange_all::<S, 8>(unit, square);
    exchange_all::<S, 4>(unit, square);
    exchange_all::<S, 2>(unit, square);
    exchange_all::<S, 1>(unit, square);
}

#[inline(always)]
fn exchange_all<S: Simd, const WIDTH: usize>(unit: S, square: &mut [S::Lanes; LANES]) {
    for i in 0..LANES {
        if i & WIDTH == 0 {
            (square[i], square[i + WIDTH]) = unit.exchange::<WIDTH>(square[i], square[i + WIDTH]);
        }
    }
}

/// Portable code for all other CPUs.
#[cfg_attr(target_arch = "aarch64", allow(dead_code, reason = "all of these have NEON"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Simd for Portable {
    type Lanes = [f32; LANES];
    type Ints = U32Lanes;
    /// Scale and offset.
    type Table = (f32, f32);
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn f32(self, from: &[u8; 4 * LANES]) -> [f32; LANES] {
        let (numbers, _) = from.as_chunks();
        std::array::from_fn(|i| f32::from_le_bytes(numbers[i]))
    }

    #[inline(always)]
    fn f16(self, from: &[u8; 2 * LANES]) -> [f32; LANES] {
        let (numbers, _) = from.as_chunks();
        std::array::from_fn(|i| half(numbers[i]))
    }

    #[inline(always)]
    fn bf16(self, from: &[u8; 2 * LANES]) -> [f32; LANES] {
        let (numbers, _) = from.as_chunks();
        std::array::from_fn(|i| f32::from_bits(u32::from(u16::from_le_bytes(numbers[i])) << 16))
    }

    #[inline(always)]
    fn half(self, from: [u8; 2]) -> f32 {
        half(from)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> [f32; LANES] {
        [x; LANES]
    }

    #[inline(always)]
    fn add(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn mul(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn div(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|i| a[i] / b[i])
    }

    #[inline(always)]
    fn max(self, a: [f32; LANES], b: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn to_bits(self, a: [f32; LANES]) -> U32Lanes {
        lanes(|i| a[i].to_bits())
    }

    #[inline(always)]
    fn of_bits(self, a: U32Lanes) -> [f32; LANES] {
        std::array::from_fn(|i| f32::from_bits(a[i]))
    }

    #[inline(always)]
    fn add_ints(self, a: U32Lanes, b: U32Lanes) -> U32Lanes {
        lanes(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; LANES]) -> U32Lanes {
        lanes(|i| from[i].into())
    }

    #[inline(always)]
    fn signed(self, from: &[u8; LANES]) -> U32Lanes {
        lanes(|i| i32::from(from[i] as i8) as u32)
    }

    #[inline(always)]
    fn and(self, a: U32Lanes, mask: u32) -> U32Lanes {
        lanes(|i| a[i] & mask)
    }

    #[inline(always)]
    fn or(self, a: U32Lanes, b: U32Lanes) -> U32Lanes {
        lanes(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn shift_left(self, a: U32Lanes, bits: u32) -> U32Lanes {
        lanes(|i| a[i] << bits)
    }

    #[inline(always)]
    fn shift_right(self, a: U32Lanes, bits: u32) -> U32Lanes {
        lanes(|i| a[i] >> bits)
    }

    #[inline(always)]
    fn float(self, a: U32Lanes) -> [f32; LANES] {
        std::array::from_fn(|i| a[i] as i32 as f32)
    }

    #[inline(always)]
    fn table(self, scale: f32, offset: f32) -> (f32, f32) {
        (scale, offset)
    }

    #[inline(always)]
    fn look(self, (scale, offset): (f32, f32), at: U32Lanes) -> [f32; LANES] {
        std::array::from_fn(|i| ((at[i] & 15) as f32).mul_add(scale, offset))
    }

    #[inline(always)]
    fn zero(self) -> [f32; LANES] {
        [0.0; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> [f32; LANES] {
        *from
    }

    #[inline(always)]
    fn fma(self, a: [f32; LANES], b: [f32; LANES], sum: [f32; LANES]) -> [f32; LANES] {
        std::array::from_fn(|i| a[i].mul_add(b[i], sum[i]))
    }

    #[inline(always)]
    fn store(self, lanes: [f32; LANES]) -> [f32; LANES] {
        lanes
    }

    #[inline(always)]
    fn exchange<const WIDTH: usize>(self, a: [f32; LANES], b: [f32; LANES]) -> ([f32; LANES], [f32; LANES]) {
        (
            std::array::from_fn(|i| if i & WIDTH == 0 { a[i] } else { b[i ^ WIDTH] }),
            std::array::from_fn(|i| if i & WIDTH == 0 { a[i ^ WIDTH] } else { b[i] }),
        )
    }
}

/// Defines methods of a unit that consist of instructions of its CPU, none of which accesses memory. `self` is omitted.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
macro_rules! intrinsics {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty { $($body:tt)* })*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $type),*) -> $out {
                // SAFETY: `self` exists only where the CPU has these instructions, and they do not access memory.
                unsafe { $($body)* }
            }
        )*
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use intrinsics;

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_and_the_same_on_every_unit() {
        for i in 0..200_000 {
            let x: [f32; LANES] = std::array::from_fn(|l| -87.0 + 167.0 * (16 * i + l) as f32 / 3_200_000.0);
            let got = Portable.exp(x);
            for (x, got) in x.into_iter().zip(got) {
                let exact = f64::from(x).exp();
                assert!((f64::from(got) - exact).abs() <= 2e-7 * exact, "{x}: {got} {exact}");
            }
            #[cfg(target_arch = "x86_64")]
            {
                assert!(Avx2::detect().is_none_or(|unit| unit.store(unit.exp(unit.load(&x))) == got));
                assert!(Avx512::detect().is_none_or(|unit| unit.store(unit.exp(unit.load(&x))) == got));
            }
            #[cfg(target_arch = "aarch64")]
            assert_eq!(Neon.store(Neon.exp(Neon.load(&x))), got);
        }
        assert_eq!(Portable.exp([0.0; LANES]), [1.0; LANES]);
        assert!(Portable.exp([-1e30; LANES])[0] < 2e-38);
    }

    #[test]
    fn every_unit_rounds_in_the_same_way() {
        fn bits<S: Simd>(unit: S, x: &[f32; LANES]) -> U32Lanes {
            unit.store(unit.round_to_bf16(unit.load(x))).map(f32::to_bits)
        }
        fn halves<S: Simd>(unit: S, x: &[f32; LANES]) -> [u16; LANES] {
            // Any NaN is one.
            let canonical = |bits: u16| if bits & 0x7fff > 0x7c00 { bits & 0x8000 | 0x7e00 } else { bits };
            unit.to_half_finite(unit.load(x)).map(|half| canonical(u16::from_le_bytes(half)))
        }
        // Ties of both kinds, numbers next to them, infinities, NaN of all payloads, and numbers below the normal ones.
        let special = [0x3f80_8000, 0x3f81_8000, 0x3f80_7fff, 0x3f81_8001, 0x7f7f_ffff, 0x7f80_0000, 0xff80_0001];
        let more =
            [0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000, 0x0000_8000, 0x0000_8001, 0x8000_0001, 0x807f_ffff, 0, 0x7f80_0001];
        // Halves: ties, the largest, and numbers around the smallest.
        let of_halves =
            [0x477f_e000, 0x477f_f000, 0x4780_0000, 0x3300_0000, 0x3300_0001, 0x3880_0000, 0x387f_f000, 0x3f80_1000];
        let mut all: Vec<u32> = special.into_iter().chain(more).chain(of_halves).collect();
        all.extend((0..10_000u32).map(|i| i.wrapping_mul(0x9E37_79B9)));
        for bits_of_x in all.as_chunks::<LANES>().0 {
            let x = bits_of_x.map(f32::from_bits);
            let (portable, of_halves) = (bits(Portable, &x), halves(Portable, &x));
            for (x, rounded) in x.into_iter().zip(portable) {
                let rounded = f32::from_bits(rounded);
                assert_eq!(rounded.is_nan(), x.is_nan());
                let step = f64::from(x.abs()).max(f64::from(f32::MIN_POSITIVE)) / 128.0;
                let is_near = (f64::from(x) - f64::from(rounded)).abs() <= step / 2.0;
                assert!(
                    is_near || x.is_nan() || x.is_infinite() && rounded == x || rounded.is_infinite(),
                    "{x} {rounded}"
                );
            }
            #[cfg(target_arch = "x86_64")]
            {
                let is_same = |bits, halves| (bits, halves) == (portable, of_halves);
                assert!(Avx2::detect().is_none_or(|unit| is_same(bits(unit, &x), halves(unit, &x))));
                assert!(Avx512::detect().is_none_or(|unit| is_same(bits(unit, &x), halves(unit, &x))));
            }
            #[cfg(target_arch = "aarch64")]
            assert_eq!((bits(Neon, &x), halves(Neon, &x)), (portable, of_halves));
        }
    }

    #[test]
    fn every_unit_exchanges_the_same_lanes() {
        fn all<S: Simd>(unit: S) -> [[[f32; LANES]; 2]; 4] {
            let [a, b] = [0.0, 16.0].map(|from| unit.load(&std::array::from_fn(|i| from + i as f32)));
            let both = [
                unit.exchange::<8>(a, b),
                unit.exchange::<4>(a, b),
                unit.exchange::<2>(a, b),
                unit.exchange::<1>(a, b),
            ];
            both.map(|(first, second)| [unit.store(first), unit.store(second)])
        }
        let portable = all(Portable);
        let of_two = [[0, 1, 16, 17, 4, 5, 20, 21], [2, 3, 18, 19, 6, 7, 22, 23]];
        assert_eq!(portable[2].map(|lanes| std::array::from_fn(|i| lanes[i] as usize)), of_two);
        #[cfg(target_arch = "x86_64")]
        {
            assert!(Avx2::detect().is_none_or(|unit| all(unit) == portable));
            assert!(Avx512::detect().is_none_or(|unit| all(unit) == portable));
        }
        #[cfg(target_arch = "aarch64")]
        assert_eq!(all(Neon), portable);
    }

    #[test]
    fn every_unit_gives_the_same_bits() {
        let a: Vec<f32> = (0..77).map(|i| (i as f32 * 0.37).sin()).collect();
        let b: Vec<f32> = (0..77).map(|i| (i as f32 * 1.13).cos()).collect();
        for n in 0..77 {
            let portable = Portable.dot(&a[..n], &b[..n]);
            let exact: f64 = a[..n].iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(portable) - exact).abs() < 1e-5);
            #[cfg(target_arch = "x86_64")]
            {
                assert!(Avx2::detect().is_none_or(|unit| unit.dot(&a[..n], &b[..n]) == portable));
                assert!(Avx512::detect().is_none_or(|unit| unit.dot(&a[..n], &b[..n]) == portable));
            }
            #[cfg(target_arch = "aarch64")]
            assert_eq!(Neon.dot(&a[..n], &b[..n]), portable);
        }
    }
}
