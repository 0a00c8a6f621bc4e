//! Tests whether tokens are among the first of torch's random permutations, sixteen seeds at a time.
//!
//! torch's CPU `randperm(n)` generates a number for each entry with a Mersenne Twister and swaps (Matsumoto and
//! Nishimura 1998; Fisher and Yates 1938). The position of one entry can be followed through the swaps without
//! computing the permutation. Every seed takes the same steps, so sixteen of them share each one; the divisor of a step
//! is the same for all too, and its reciprocal is computed once.

use std::cell::RefCell;

use crate::dispatch::dispatch;
use crate::simd::{LANES, Simd, U32Lanes, lanes};

/// The number of words in a Mersenne Twister's state, and the offset of the middle word that a word is mixed with.
const N: usize = 624;
const M: usize = 397;

/// Sets `green` for each question `(seed, token)` to whether the token is among the first `count` of `randperm(n)`.
///
/// # Panics
/// If `count >= n`, or `n` is above 2^28 (where torch uses another method), or `green` has another length.
pub fn among_first(n: u32, count: u32, questions: &[(u32, u32)], green: &mut [bool]) {
    assert!(count < n && n <= 1 << 28 && questions.len() == green.len());
    thread_local!(static SCRATCH: RefCell<PermutationScratch> = RefCell::default());
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.prepare(n, count);
        for (questions, green) in questions.chunks(LANES).zip(green.chunks_mut(LANES)) {
            let lane = |i: usize| questions[i.min(questions.len() - 1)];
            let (seeds, tokens) = (std::array::from_fn(|i| lane(i).0), std::array::from_fn(|i| lane(i).1));
            let mut found = [0; LANES];
            follow(n, &scratch.reciprocals[..count as usize], &mut scratch.state, &seeds, &tokens, &mut found);
            green.iter_mut().zip(found).for_each(|(green, found)| *green = found != 0);
        }
    });
}

/// Memory that a thread reuses.
#[derive(Default)]
struct PermutationScratch {
    n: u32,
    /// `floor(2^32 / (n - i))` for each step `i`.
    reciprocals: Vec<u32>,
    state: Vec<U32Lanes>,
}

impl PermutationScratch {
    fn prepare(&mut self, n: u32, count: u32) {
        if self.n != n {
            self.n = n;
            self.reciprocals.clear();
        }
        let made = self.reciprocals.len() as u32;
        self.reciprocals.extend((made..count).map(|i| ((1u64 << 32) / u64::from(n - i)) as u32));
        self.state.resize(N, [0; LANES]);
    }
}

dispatch! {
    fn follow(
        n: u32,
        reciprocals: &[u32],
        state: &mut [U32Lanes],
        seeds: &U32Lanes,
        tokens: &U32Lanes,
        found: &mut U32Lanes,
    ) = follow_lanes
}

#[inline(always)]
fn follow_lanes(
    _: impl Simd,
    n: u32,
    reciprocals: &[u32],
    state: &mut [U32Lanes],
    seeds: &U32Lanes,
    tokens: &U32Lanes,
    found: &mut U32Lanes,
) {
    let state: &mut [U32Lanes; N] = state.try_into().expect("a state of that many words");
    state[0] = *seeds;
    for j in 1..N {
        let before = state[j - 1];
        state[j] = lanes(|l| 1_812_433_253u32.wrapping_mul(before[l] ^ before[l] >> 30).wrapping_add(j as u32));
    }
    let (mut positions, mut hits) = (*tokens, [0u32; LANES]);
    for (block, reciprocals) in reciprocals.chunks(N).enumerate() {
        for (k, &reciprocal) in reciprocals.iter().enumerate() {
            // The next word of the state replaces the current one; the output is computed from it.
            let (this, next, far) = (state[k], state[(k + 1) % N], state[(k + M) % N]);
            let word = lanes(|l| {
                let mixed = (this[l] & 0x8000_0000) | (next[l] & 0x7fff_ffff);
                far[l] ^ mixed >> 1 ^ (mixed & 1).wrapping_neg() & 0x9908_b0df
            });
            state[k] = word;
            let i = (block * N + k) as u32;
            let left = n - i;
            let to = lanes(|l| {
                let mut x = word[l];
                x ^= x >> 11;
                x ^= x << 7 & 0x9d2c_5680;
                x ^= x << 15 & 0xefc6_0000;
                x ^= x >> 18;
                // The quotient by the reciprocal is at most one too small (Barrett 1986).
                let quotient = ((u64::from(x) * u64::from(reciprocal)) >> 32) as u32;
                let rest = x.wrapping_sub(quotient.wrapping_mul(left));
                i + rest.min(rest.wrapping_sub(left))
            });
            hits = lanes(|l| hits[l] | u32::from(to[l] == positions[l]));
            positions = lanes(|l| if positions[l] == i { to[l] } else { positions[l] });
        }
    }
    *found = hits;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// torch 2.15: the first entries of `randperm(1000)` under seed 42.
    const FIRST: [u32; 12] = [542, 618, 816, 68, 94, 215, 60, 585, 942, 165, 968, 829];

    fn among(n: u32, count: u32, seed: u32) -> Vec<u32> {
        let questions: Vec<(u32, u32)> = (0..n).map(|token| (seed, token)).collect();
        let mut green = vec![false; n as usize];
        among_first(n, count, &questions, &mut green);
        (0..n).filter(|&token| green[token as usize]).collect()
    }

    #[test]
    fn the_first_entries_are_torchs() {
        for count in 1..=FIRST.len() {
            let mut first = FIRST[..count].to_vec();
            first.sort_unstable();
            assert_eq!(among(1000, count as u32, 42), first);
        }
    }

    #[test]
    fn as_many_as_asked_for_whatever_the_sizes() {
        for (n, count) in [(2, 1), (3, 2), (17, 5), (700, 650), (1500, 1499), (5000, 1250)] {
            for seed in [0, 1, u32::MAX] {
                assert_eq!(among(n, count, seed).len(), count as usize, "{n} {count} {seed}");
            }
        }
    }

    #[test]
    fn seeds_beside_each_other_do_not_mix() {
        let questions: Vec<(u32, u32)> = (0..40).map(|i| (i * 77, i * 3)).collect();
        let mut together = vec![false; 40];
        among_first(120, 60, &questions, &mut together);
        for (question, together) in questions.iter().zip(together) {
            let mut alone = [false];
            among_first(120, 60, &[*question], &mut alone);
            assert_eq!(alone[0], together);
        }
    }
}
