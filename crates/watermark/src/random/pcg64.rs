//! numpy's `default_rng(seed).shuffle`: PCG64 seeded through `SeedSequence`.
//!
//! O'Neill, *PCG: a family of simple fast space-efficient statistically good algorithms for random number generation*,
//! 2014 (PCG XSL RR 128/64); seeding as in numpy's `bit_generator.pyx`, bounded numbers as in `distributions.c`.

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The generator behind `numpy.random.default_rng`.
pub(crate) struct Pcg64 {
    state: u128,
    increment: u128,
    /// The upper half of an output whose lower half was used.
    half: Option<u32>,
}

impl Pcg64 {
    /// `default_rng(seed)` for a 32-bit seed.
    pub(crate) fn new(seed: u32) -> Self {
        let words = seed_sequence(seed);
        let wide = |i: usize| u128::from(words[i]) << 64 | u128::from(words[i + 1]);
        let increment = wide(2) << 1 | 1;
        let mut random = Self { state: 0, increment, half: None };
        random.step();
        random.state = random.state.wrapping_add(wide(0));
        random.step();
        random
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let next = self.next_u64();
        self.half = Some((next >> 32) as u32);
        next as u32
    }

    /// A number from 0 to `largest`: masked, and rejected while it is too large.
    fn up_to(&mut self, largest: u32) -> u32 {
        if largest == 0 {
            return 0;
        }
        let mask = u32::MAX >> largest.leading_zeros();
        loop {
            let value = self.next_u32() & mask;
            if value <= largest {
                return value;
            }
        }
    }

    /// `Generator.shuffle` of an array of fewer than 2^32 entries.
    pub(crate) fn shuffle<T>(&mut self, entries: &mut [T]) {
        for i in (1..entries.len()).rev() {
            let j = self.up_to(i as u32) as usize;
            entries.swap(i, j);
        }
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`.
fn seed_sequence(seed: u32) -> [u64; 4] {
    const POOL: usize = 4;
    let mut constant = 0x43b0_d7e5u32;
    let mut hash = |mut value: u32| {
        value ^= constant;
        constant = constant.wrapping_mul(0x931e_8875);
        value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mix = |x: u32, y: u32| {
        let mixed = x.wrapping_mul(0xca01_f9dd).wrapping_sub(y.wrapping_mul(0x4973_f715));
        mixed ^ mixed >> 16
    };
    let mut pool = [seed, 0, 0, 0].map(&mut hash);
    for from in 0..POOL {
        for to in 0..POOL {
            if from != to {
                pool[to] = mix(pool[to], hash(pool[from]));
            }
        }
    }
    let mut constant = 0x8b51_f9ddu32;
    let mut words = [0u32; 2 * POOL];
    for (i, word) in words.iter_mut().enumerate() {
        let mut value = pool[i % POOL] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        value = value.wrapping_mul(constant);
        *word = value ^ value >> 16;
    }
    std::array::from_fn(|i| u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// numpy 2.4: `default_rng(12345)`.
    #[test]
    fn numpys_outputs_and_shuffles() {
        let mut random = Pcg64::new(12345);
        let outputs = [4_193_609_425_186_963_869, 5_843_160_025_838_961_886, 14_708_796_524_633_321_433];
        assert_eq!(outputs.map(|_| random.next_u64()), outputs);
        let mut numbers: Vec<u32> = (0..20).collect();
        Pcg64::new(12345).shuffle(&mut numbers);
        assert_eq!(numbers, [17, 0, 6, 18, 10, 11, 15, 9, 5, 12, 4, 1, 7, 3, 8, 19, 14, 16, 2, 13]);
    }
}
