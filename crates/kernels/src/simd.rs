//! Sixteen lanes of f32 on every kind of CPU, with the same bits on each.
//!
//! A [`Simd`] value is a proof that the CPU has what the implementation needs: it can only be made by
//! [`dispatch`](crate::dispatch), after asking the CPU. So the kernels are safe code over this trait.

use std::fmt::Debug;

/// The width of every sum.
pub(crate) const LANES: usize = 16;

/// A word for each lane.
pub(crate) type Words = [u32; LANES];

/// Computes each lane alike: simple loops, which the compiler makes vectors of wherever the unit has them.
#[inline(always)]
pub(crate) fn lanes(f: impl Fn(usize) -> u32) -> Words {
    let mut out = [0; LANES];
    for (l, out) in out.iter_mut().enumerate() {
        *out = f(l);
    }
    out
}

/// A kind of SIMD unit.
///
/// # Contract
/// `fma` rounds once, lane by lane, so every implementation gives the same bits.
pub(crate) trait Simd: Copy + Debug {
    /// Sixteen lanes.
    type Lanes: Copy;

    fn zero(self) -> Self::Lanes;

    fn load(self, from: &[f32; LANES]) -> Self::Lanes;

    /// `a * b + sum`, rounded once.
    fn fma(self, a: Self::Lanes, b: Self::Lanes, sum: Self::Lanes) -> Self::Lanes;

    fn store(self, lanes: Self::Lanes) -> [f32; LANES];

    /// The dot product of two slices of equal length: lane by lane, the rest past a multiple of [`LANES`] in
    /// the first lanes, and then the lanes together.
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

    /// Ends a dot product: adds the rest, then halves the number of lanes four times.
    #[inline(always)]
    fn finish(self, sum: Self::Lanes, a_rest: &[f32], b_rest: &[f32]) -> f32 {
        let mut lanes = self.store(sum);
        for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
            *lane = a.mul_add(*b, *lane);
        }
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] += lanes[i + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// For CPUs that are not known here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Simd for Portable {
    type Lanes = [f32; LANES];

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
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
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
            (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma")).then_some(Self(()))
        }
    }

    impl Avx2 {
        pub(crate) fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
        }
    }

    impl Simd for Avx512 {
        type Lanes = __m512;

        #[inline(always)]
        fn zero(self) -> __m512 {
            // SAFETY: `self` exists only where the CPU has avx512f.
            unsafe { _mm512_setzero_ps() }
        }

        #[inline(always)]
        fn load(self, from: &[f32; LANES]) -> __m512 {
            // SAFETY: `self` exists only where the CPU has avx512f; the array is sixteen floats, and an
            // unaligned load asks for no more.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }

        #[inline(always)]
        fn fma(self, a: __m512, b: __m512, sum: __m512) -> __m512 {
            // SAFETY: `self` exists only where the CPU has avx512f.
            unsafe { _mm512_fmadd_ps(a, b, sum) }
        }

        #[inline(always)]
        fn store(self, lanes: __m512) -> [f32; LANES] {
            let mut to = [0.0; LANES];
            // SAFETY: `self` exists only where the CPU has avx512f; the array is sixteen floats, and an
            // unaligned store asks for no more.
            unsafe { _mm512_storeu_ps(to.as_mut_ptr(), lanes) };
            to
        }
    }

    impl Simd for Avx2 {
        type Lanes = [__m256; 2];

        #[inline(always)]
        fn zero(self) -> [__m256; 2] {
            // SAFETY: `self` exists only where the CPU has avx2.
            unsafe { [_mm256_setzero_ps(); 2] }
        }

        #[inline(always)]
        fn load(self, from: &[f32; LANES]) -> [__m256; 2] {
            let (low, high) = from.split_at(LANES / 2);
            // SAFETY: `self` exists only where the CPU has avx2; both halves are eight floats, and an unaligned
            // load asks for no more.
            unsafe { [_mm256_loadu_ps(low.as_ptr()), _mm256_loadu_ps(high.as_ptr())] }
        }

        #[inline(always)]
        fn fma(self, a: [__m256; 2], b: [__m256; 2], sum: [__m256; 2]) -> [__m256; 2] {
            // SAFETY: `self` exists only where the CPU has fma.
            unsafe { [_mm256_fmadd_ps(a[0], b[0], sum[0]), _mm256_fmadd_ps(a[1], b[1], sum[1])] }
        }

        #[inline(always)]
        fn store(self, lanes: [__m256; 2]) -> [f32; LANES] {
            let mut to = [0.0; LANES];
            let (low, high) = to.split_at_mut(LANES / 2);
            // SAFETY: `self` exists only where the CPU has avx2; both halves are eight floats, and an unaligned
            // store asks for no more.
            unsafe {
                _mm256_storeu_ps(low.as_mut_ptr(), lanes[0]);
                _mm256_storeu_ps(high.as_mut_ptr(), lanes[1]);
            }
            to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }
}
