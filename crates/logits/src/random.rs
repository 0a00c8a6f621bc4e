//! Counter-based randomness: a random number is a function of (seed, position, purpose), not of how many came before.
//!
//! So a speculative run uses, at each position, the same numbers as a run without speculation, and every result can be
//! reproduced from its seed.
//!
//! The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*, SC
//! 2011, section 3.3 and table 2).

/// The purpose of a random number. Numbers for different purposes at one position are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The token itself, sampled from the target distribution.
    Token = 0,
    /// A token proposed by a draft.
    Draft = 1,
    /// The number that decides whether a draft is accepted.
    Accept = 2,
    /// The token that replaces a rejected draft.
    Residual = 3,
    /// The part of a corpus to train on.
    Data = 4,
    /// The initial value of a weight before training.
    Weight = 5,
    /// The choice between several texts.
    Choice = 6,
    /// Whether the top choices are excluded.
    Exclude = 7,
    /// The noise on a candidate token of a search.
    Candidate = 8,
    /// The variant of a key that a text is marked with.
    Variant = 9,
}

/// A stream of reproducible random numbers for one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    seed: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A number in `[0, 1)`, a multiple of 2^-53, for the token at `position` of the text.
    pub fn uniform(&self, position: u64, purpose: Purpose) -> f64 {
        self.uniform_of(position, purpose, 0)
    }

    /// As [`Random::uniform`], if there may be several numbers for a purpose at one position: number `which` of them.
    pub fn uniform_of(&self, position: u64, purpose: Purpose, which: u32) -> f64 {
        let counter = [position as u32, (position >> 32) as u32, purpose as u32, which];
        let [a, b, ..] = philox4x32(counter, [self.seed as u32, (self.seed >> 32) as u32]);
        let bits = (u64::from(a) << 32 | u64::from(b)) >> 11;
        bits as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// Philox4x32 with ten rounds: four pseudo-random words from a counter and a key.
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
        }
        let a = u64::from(counter[0]) * 0xD251_1F53;
        let b = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [(b >> 32) as u32 ^ counter[1] ^ key[0], b as u32, (a >> 32) as u32 ^ counter[3] ^ key[1], a as u32];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer tests that the authors ship with Random123 (file `kat_vectors`).
    #[test]
    fn philox_known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32([u32::MAX; 4], [u32::MAX; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(
            philox4x32([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]),
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
        );
    }

    #[test]
    fn draws_are_uniform_and_independent_across_positions_and_purposes() {
        let random = Random::new(7);
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|i| random.uniform(i, Purpose::Token)).collect();
        let coins: Vec<f64> = (0..n).map(|i| random.uniform(i, Purpose::Accept)).collect();
        assert!(draws.iter().all(|u| (0.0..1.0).contains(u)));
        // Chi-square over 100 cells: mean 99, standard deviation 14; 200 is seven deviations away.
        let mut cells = [0f64; 100];
        draws.iter().for_each(|u| cells[(u * 100.0) as usize] += 1.0);
        let expected = n as f64 / 100.0;
        let chi2: f64 = cells.iter().map(|c| (c - expected).powi(2) / expected).sum();
        assert!(chi2 < 200.0, "{chi2}");
        let covariance: f64 = draws.iter().zip(&coins).map(|(a, b)| (a - 0.5) * (b - 0.5)).sum::<f64>() / n as f64;
        assert!(covariance.abs() < 6.0 / 12.0 / (n as f64).sqrt(), "{covariance}");
        assert_ne!(Random::new(8).uniform(0, Purpose::Token), draws[0]);
    }
}
