//! Passes that are compiled for several kinds of processors, of which the best is chosen at run time.

use pulp::Arch;
pub(crate) use pulp::NullaryFnOnce as Pass;

/// Runs a pass with the widest registers that the processor has (AVX-512, AVX2, NEON, or the baseline of its
/// architecture). Its `call`, and everything that it calls, must be `#[inline(always)]`: a separate function is
/// compiled only once, for every processor, and so is a closure that is not small. Results have the same bits with all
/// of them: compilers neither reorder sums nor fuse products into them. The processor is looked up each time, so a pass
/// should be over a row, not over a block.
#[doc(alias = "multiversioning")]
pub(crate) fn dispatch<P: Pass>(pass: P) -> P::Output {
    Arch::new().dispatch(pass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TokenId;
    use crate::blocks::{Bias, Collect, Divide, ForbidBelow, Largest, Maxima, SumOfWeights};

    /// All passes over a row, one after the other.
    struct All<'a>(&'a [f32], &'a [u64]);

    impl Pass for All<'_> {
        type Output = (Vec<f32>, Vec<TokenId>, Vec<u32>);

        #[inline(always)]
        fn call(self) -> Self::Output {
            let (mut row, mut numbers, mut ids) = (self.0.to_vec(), Vec::new(), Vec::new());
            Divide(&mut row, 0.7).call();
            Bias(&mut row, self.1, 0.3).call();
            Maxima(&row, &mut numbers).call();
            let max = Largest(&row).call();
            numbers.extend([max, SumOfWeights(&row, max).call() as f32]);
            Collect(&row, -4.0, &mut ids).call();
            ForbidBelow(&mut row, -5.0).call();
            (numbers, ids, row.iter().map(|z| z.to_bits()).collect())
        }
    }

    /// Each compilation of a pass has the same bits as the one without wide registers.
    #[test]
    fn all_compilations_have_the_same_bits() {
        let random = |i: u32| i.wrapping_mul(2_654_435_761);
        let logits: Vec<f32> = (0..10_007).map(|i| (random(i) >> 9) as f32 * -1e-6).collect();
        let words: Vec<u64> = (0..157).map(|i| u64::from(random(2 * i)) << 32 | u64::from(random(2 * i + 1))).collect();
        let plain = All(&logits, &words).call();
        assert_eq!(dispatch(All(&logits, &words)), plain);
        #[cfg(target_arch = "x86_64")]
        {
            let compiled = [
                pulp::x86::V3::try_new().map(|simd| simd.vectorize(All(&logits, &words))),
                pulp::x86::V4::try_new().map(|simd| simd.vectorize(All(&logits, &words))),
            ];
            assert!(compiled.into_iter().flatten().all(|bits| bits == plain));
        }
    }
}
