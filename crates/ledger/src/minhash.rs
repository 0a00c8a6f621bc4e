//! MinHash signatures (Broder, *On the resemblance and containment of documents*, 1997): of each of 128 permutations of
//! all hashes, the first hash that a text has. Two texts agree at each position with a probability equal to the Jaccard
//! similarity of their hashes.

use std::sync::LazyLock;

/// The number of permutations. The standard error of an estimate is at most `1 / (2 sqrt(128))`, which is .044.
pub(crate) const PERMUTATIONS: usize = 128;

/// The Mersenne prime `2^61 - 1`. Permutations are affine functions modulo this number.
const PRIME: u64 = (1 << 61) - 1;

/// The seed of the permutations' factors and summands.
const SEED: u64 = 0x0123_4567_89AB_CDEF;

/// The permutations: `x -> (a x + b) mod PRIME`, as pairs of `a` and `b`.
static FUNCTIONS: LazyLock<[(u64, u64); PERMUTATIONS]> = LazyLock::new(|| {
    let mut state = SEED;
    std::array::from_fn(|_| (1 + split_mix(&mut state) % (PRIME - 1), split_mix(&mut state) % PRIME))
});

/// SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The signature of a set of hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature([u32; PERMUTATIONS]);

impl Signature {
    /// The signature of hashes; without any, all positions have the greatest number.
    pub(crate) fn of(hashes: &[u64]) -> Self {
        Self(std::array::from_fn(|i| {
            let (a, b) = FUNCTIONS[i];
            let permuted = hashes.iter().map(|&hash| affine(a, hash % PRIME, b));
            // The lower half of a number distinguishes it as well, up to a chance of 2^-32.
            permuted.min().map_or(u32::MAX, |first| first as u32)
        }))
    }

    /// The estimated Jaccard similarity of two sets, neither of which is empty.
    pub(crate) fn similarity(&self, other: &Self) -> f64 {
        let equal = self.0.iter().zip(&other.0).filter(|(a, b)| a == b).count();
        equal as f64 / PERMUTATIONS as f64
    }

    /// The numbers in little-endian order.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// The signature with these bytes; `None` if there are too few or too many.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let numbers: Vec<u32> = numbers.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        rest.is_empty().then(|| numbers.try_into().ok().map(Self)).flatten()
    }
}

/// `(a x + b) mod PRIME`, for numbers below it.
fn affine(a: u64, x: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(x) + u128::from(b);
    // 2^61 is 1 modulo the prime, so the upper bits are added to the lower ones.
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    let folded = (folded & PRIME) + (folded >> 61);
    if folded >= PRIME { folded - PRIME } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affine_functions_are_those_of_the_definition() {
        let mut state = 7;
        for _ in 0..10_000 {
            let [a, x, b] = std::array::from_fn(|_| split_mix(&mut state) % PRIME);
            let expected = (u128::from(a) * u128::from(x) + u128::from(b)) % u128::from(PRIME);
            assert_eq!(u128::from(affine(a, x, b)), expected);
        }
        let last = PRIME - 1;
        assert_eq!(
            u128::from(affine(last, last, last)),
            (u128::from(last) * u128::from(last) + u128::from(last)) % u128::from(PRIME)
        );
        assert_eq!(affine(0, 0, 0), 0);
    }

    /// The mean error of estimates is that of 128 independent trials.
    #[test]
    fn estimates_are_near_the_similarity() {
        let mut state = 1;
        for share in [0.0, 0.1, 0.5, 0.9, 1.0] {
            let mut squares = 0.0;
            for _ in 0..200 {
                let both: Vec<u64> = (0..(share * 300.0) as usize).map(|_| split_mix(&mut state)).collect();
                let [a, b]: [Vec<u64>; 2] = std::array::from_fn(|_| {
                    let own = (0..((1.0 - share) * 150.0) as usize).map(|_| split_mix(&mut state));
                    both.iter().copied().chain(own).collect()
                });
                let exact = both.len() as f64 / (a.len() + b.len() - both.len()) as f64;
                squares += (Signature::of(&a).similarity(&Signature::of(&b)) - exact).powi(2);
            }
            let expected = (share * (1.0 - share) / PERMUTATIONS as f64).sqrt();
            let error = (squares / 200.0f64).sqrt();
            assert!((error - expected).abs() <= 0.2 * expected + 0.001, "{share}: {error}, expected {expected}");
        }
    }

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let signature = Signature::of(&[1, 2, u64::MAX]);
        assert_eq!(Signature::from_bytes(&signature.bytes()), Some(signature.clone()));
        assert_eq!(signature.bytes().len(), 512);
        for bad in [&signature.bytes()[1..], &[0; 516], &[]] {
            assert_eq!(Signature::from_bytes(bad), None);
        }
    }
}
