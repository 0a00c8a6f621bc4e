//! The Mersenne Twister as in torch's CPU generator, and the beginning of its `randperm`.
//!
//! Matsumoto and Nishimura 1998; torch: `ATen/core/MT19937RNGEngine.h`, `randperm` in
//! `ATen/native/TensorFactories.cpp`. Only the low 32 bits of a seed matter there.

const N: usize = 624;
const M: usize = 397;

/// A stream of 32-bit words, generated in blocks of 624.
#[derive(Clone)]
pub(crate) struct Mt19937 {
    state: [u32; N],
    block: [u32; N],
    used: usize,
}

impl Mt19937 {
    pub(crate) fn new(seed: u32) -> Self {
        let mut state = [seed; N];
        for j in 1..N {
            let before = state[j - 1];
            state[j] = 1_812_433_253u32.wrapping_mul(before ^ before >> 30).wrapping_add(j as u32);
        }
        Self { state, block: [0; N], used: N }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u32 {
        if self.used == N {
            self.refill();
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// Computes the next state and its output, in three loops without overlap so that each can run in SIMD lanes.
    #[cold]
    fn refill(&mut self) {
        let old = &self.state;
        let mut new = [0; N];
        for i in 0..N - M {
            new[i] = twist(old[i], old[i + 1], old[i + M]);
        }
        let (first, rest) = new.split_at_mut(N - M);
        for i in 0..N - M {
            rest[i] = twist(old[i + N - M], old[i + N - M + 1], first[i]);
        }
        let (second, third) = rest.split_at_mut(N - M);
        let offset = 2 * (N - M);
        let last = third.len() - 1;
        for i in 0..last {
            third[i] = twist(old[i + offset], old[i + offset + 1], second[i]);
        }
        third[last] = twist(old[N - 1], first[0], second[last]);
        for (out, &x) in self.block.iter_mut().zip(&new) {
            *out = temper(x);
        }
        self.state = new;
        self.used = 0;
    }
}

#[inline(always)]
fn twist(upper: u32, lower: u32, far: u32) -> u32 {
    let mixed = (upper & 0x8000_0000) | (lower & 0x7fff_ffff);
    far ^ mixed >> 1 ^ (lower & 1).wrapping_neg() & 0x9908_b0df
}

#[inline(always)]
fn temper(mut x: u32) -> u32 {
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c_5680;
    x ^= x << 15 & 0xefc6_0000;
    x ^ x >> 18
}

/// Calls `first` with each of the first `count` entries of `torch.randperm(n)` under `seed`.
///
/// `array` is working space: its contents do not matter, and it never shrinks.
pub(crate) fn randperm(n: usize, count: usize, seed: u32, array: &mut Vec<u32>, mut first: impl FnMut(u32)) {
    array.clear();
    array.extend(0..n as u32);
    let mut random = Mt19937::new(seed);
    for i in 0..count {
        // The last entry of a whole permutation has one choice and takes no number.
        if i + 1 < n {
            let j = i + (random.next() % (n - i) as u32) as usize;
            array.swap(i, j);
        }
        first(array[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard (26.5.5) specifies the 10,000th output of `mt19937` under seed 5489.
    #[test]
    fn ten_thousandth_output() {
        let mut random = Mt19937::new(5489);
        assert_eq!((0..10_000).map(|_| random.next()).last(), Some(4_123_659_995));
    }

    /// Expected values: `torch.randperm(1_000_003, generator=torch.Generator().manual_seed(2971215073))`.
    #[test]
    fn randperm_starts_as_torch_does() {
        let mut start = Vec::new();
        randperm(1_000_003, 4, 2_971_215_073, &mut Vec::new(), |token| start.push(token));
        assert_eq!(start, [250_534, 296_009, 268_311, 356_494]);
    }

    #[test]
    fn a_whole_permutation_is_one() {
        for n in [1usize, 2, 3, 100] {
            let mut all = Vec::new();
            randperm(n, n, 1, &mut Vec::new(), |token| all.push(token));
            all.sort_unstable();
            assert_eq!(all, (0..n as u32).collect::<Vec<_>>());
        }
    }
}
