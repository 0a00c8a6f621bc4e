//! Philox4x32-10, sixteen counters at a time (Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1,
//! 2, 3*, SC 2011, section 3.3).

use crate::dispatch::dispatch;
use crate::simd::{LANES, Simd, U32Lanes, lanes};

dispatch! {
    /// Replaces sixteen counters, word by word, with the four random words of each under its own key.
    pub fn philox4x32(counters: &mut [[u32; 16]; 4], keys: &[[u32; 16]; 2]) = philox4x32_lanes
}

dispatch! {
    /// Sets bit `v` of `bits`, counted from the lowest of the first word, if the low 31 bits of word `v mod 4` for the
    /// counter `(v / 4, 0, 0, 0)` are below `threshold`, and clears it otherwise.
    pub fn below(key: [u32; 2], threshold: u32, bits: &mut [u64]) = below_lanes
}

#[inline(always)]
fn philox4x32_lanes(_: impl Simd, counters: &mut [U32Lanes; 4], keys: &[U32Lanes; 2]) {
    *counters = rounds(*counters, *keys);
}

#[inline(always)]
fn below_lanes(_: impl Simd, key: [u32; 2], threshold: u32, bits: &mut [u64]) {
    let keys = key.map(|word| [word; LANES]);
    for (word, first) in bits.iter_mut().zip((0..).step_by(LANES)) {
        let counters = [lanes(|l| first + l as u32), [0; LANES], [0; LANES], [0; LANES]];
        let random = rounds(counters, keys);
        let nibbles = lanes(|l| {
            let bit = |j: usize| u32::from(random[j][l] & 0x7fff_ffff < threshold) << j;
            bit(0) | bit(1) | bit(2) | bit(3)
        });
        *word = (0..LANES).fold(0, |word, l| word | u64::from(nibbles[l]) << (4 * l));
    }
}

#[inline(always)]
fn rounds([mut a, mut b, mut c, mut d]: [U32Lanes; 4], [mut k, mut m]: [U32Lanes; 2]) -> [U32Lanes; 4] {
    for round in 0..10 {
        if round > 0 {
            k = lanes(|l| k[l].wrapping_add(0x9E37_79B9));
            m = lanes(|l| m[l].wrapping_add(0xBB67_AE85));
        }
        let high = |x: &U32Lanes, by: u32| lanes(|l| ((u64::from(x[l]) * u64::from(by)) >> 32) as u32);
        let low = |x: &U32Lanes, by: u32| lanes(|l| x[l].wrapping_mul(by));
        let (a_high, a_low) = (high(&a, 0xD251_1F53), low(&a, 0xD251_1F53));
        let (c_high, c_low) = (high(&c, 0xCD9E_8D57), low(&c, 0xCD9E_8D57));
        (a, b, c, d) = (lanes(|l| c_high[l] ^ b[l] ^ k[l]), c_low, lanes(|l| a_high[l] ^ d[l] ^ m[l]), a_low);
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer tests that the authors ship with Random123 (file `kat_vectors`), which are tested in every lane
    /// next to other ones.
    const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
        ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
        (
            [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xa4093822, 0x299f31d0],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ),
    ];

    #[test]
    fn every_lane_gives_the_known_answers() {
        for shift in 0..LANES {
            let known = |l: usize| KNOWN[(l + shift) % KNOWN.len()];
            let mut words = std::array::from_fn(|j| lanes(|l| known(l).0[j]));
            philox4x32(&mut words, &std::array::from_fn(|j| lanes(|l| known(l).1[j])));
            assert_eq!(words, std::array::from_fn(|j| lanes(|l| known(l).2[j])));
        }
    }

    #[test]
    fn bits_are_the_words_below_the_threshold() {
        let (key, threshold) = ([0xa4093822, 0x299f31d0], 0x2000_0000);
        let mut bits = vec![0; 5];
        below(key, threshold, &mut bits);
        for v in 0..320 {
            let mut words = [[0; LANES]; 4];
            words[0][3] = v / 4;
            philox4x32(&mut words, &key.map(|word| [word; LANES]));
            let expected = words[v as usize % 4][3] & 0x7fff_ffff < threshold;
            assert_eq!(bits[v as usize / 64] >> (v % 64) & 1 == 1, expected, "{v}");
        }
        below(key, 1 << 31, &mut bits);
        assert_eq!(bits, [u64::MAX; 5]);
    }
}
