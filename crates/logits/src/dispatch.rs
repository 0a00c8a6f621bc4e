//! Passes compiled several times, of which the one for the processor at hand runs.

use pulp::Arch;

/// Runs a pass with the widest registers that the processor has (AVX-512, AVX2, NEON, or what every processor of its
/// kind has). What is to be compiled for them must be inlined into the pass. Its results have the same bits with all of
/// them: compilers neither reorder sums nor fuse products into them. Which registers there are is looked up each time,
/// so a pass should be over a row, not over a block.
#[doc(alias = "multiversioning")]
pub(crate) fn dispatch<R>(pass: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(pass)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each compilation of a pass has the results of the one without wide registers, to the bit.
    #[test]
    fn all_compilations_have_the_same_bits() {
        let logits: Vec<f32> = (0..10_007u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as f32 * -1e-6).collect();
        let pass = || crate::blocks::bits_of_passes(&logits);
        let plain = pass();
        assert_eq!(dispatch(pass), plain);
        #[cfg(target_arch = "x86_64")]
        {
            let compiled = [
                pulp::x86::V3::try_new().map(|simd| simd.vectorize(pass)),
                pulp::x86::V4::try_new().map(|simd| simd.vectorize(pass)),
            ];
            assert!(compiled.into_iter().flatten().all(|bits| bits == plain));
        }
    }
}
