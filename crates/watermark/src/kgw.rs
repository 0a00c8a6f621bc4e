//! The dialect of the KGW reference implementation: `simple_1`, bit for bit.
//!
//! Kirchenbauer, Geiping, Wen, Katz, Miers and Goldstein, *A Watermark for Large Language Models*, ICML 2023,
//! algorithm 2, in the form of the authors' code (`lm-watermarking`, seeding scheme `simple_1`): the seed is
//! `hash_key * previous token`, and the green list is the first `int(V * gamma)` entries of torch's CPU
//! `randperm(V)` under that seed. On a CUDA device the same code makes unrelated lists.
//!
//! It reads and writes what that code writes. As a secret it is weak: only 32 bits of the key take part, and
//! the default key is public.

use std::cell::RefCell;
use std::collections::HashMap;

use verdigris_logits::{TokenId, TokenSet};

use crate::mt19937::{in_randperm, randperm};
use crate::scheme::{Draw, Scheme};

/// The key that the reference implementation and Hugging Face use unless told otherwise. Public.
pub const DEFAULT_HASH_KEY: u64 = 15_485_863;

/// The largest vocabulary for which torch draws 32-bit numbers.
const MAX_VOCABULARY: usize = 214_748_363;

/// The `simple_1` scheme under one hash key.
pub struct KgwSimple1 {
    hash_key: u64,
    gamma: f64,
    vocabulary: usize,
}

/// A share or a vocabulary that the dialect cannot split.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BadSplit {
    /// The share is not strictly between 0 and 1.
    #[error("gamma is {0}, but must be above 0 and below 1")]
    Gamma(f64),
    /// The vocabulary is empty or too large.
    #[error("a vocabulary of {0} tokens cannot be split: 1 to {MAX_VOCABULARY} can")]
    Vocabulary(usize),
}

impl std::fmt::Debug for KgwSimple1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KgwSimple1 {{ gamma: {}, vocabulary: {}, key: redacted }}", self.gamma, self.vocabulary)
    }
}

impl Drop for KgwSimple1 {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.hash_key);
    }
}

impl KgwSimple1 {
    /// The scheme of a hash key over a vocabulary. `vocabulary` must be what the writer used: the reference
    /// takes `len(tokenizer.get_vocab())`, others the width of the logits.
    pub fn new(hash_key: u64, gamma: f64, vocabulary: usize) -> Result<Self, BadSplit> {
        if !(gamma > 0.0 && gamma < 1.0) {
            return Err(BadSplit::Gamma(gamma));
        }
        if !(1..=MAX_VOCABULARY).contains(&vocabulary) {
            return Err(BadSplit::Vocabulary(vocabulary));
        }
        Ok(Self { hash_key, gamma, vocabulary })
    }

    /// `int(V * gamma)`, rounded down as Python does.
    fn green_size(&self) -> usize {
        (self.vocabulary as f64 * self.gamma) as usize
    }

    fn seed(&self, previous: TokenId) -> u32 {
        (u128::from(self.hash_key) * u128::from(previous) % u128::from(u64::MAX)) as u32
    }

    /// Whether `token` is green after `previous`. Costs `V * gamma` steps.
    pub fn is_green(&self, previous: TokenId, token: TokenId) -> bool {
        (token as usize) < self.vocabulary
            && in_randperm(self.vocabulary, self.green_size(), self.seed(previous), token)
    }
}

impl Scheme for KgwSimple1 {
    /// The exact share of the list, which `int(V * gamma)` makes slightly smaller than asked.
    fn gamma(&self) -> f64 {
        self.green_size() as f64 / self.vocabulary as f64
    }

    fn context_width(&self) -> usize {
        1
    }

    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn green_list(&self, context: &[TokenId], green: &mut TokenSet) {
        thread_local!(static ARRAY: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
        let seed = self.seed(context[context.len() - 1]);
        green.fill_words(|words| {
            words.fill(0);
            ARRAY.with_borrow_mut(|array| {
                randperm(self.vocabulary, self.green_size(), seed, array, |token| {
                    words[token as usize / 64] |= 1 << (token % 64);
                });
            });
        });
    }

    /// Repeated pairs cost one look-up: a membership is computed once for each pair in `tokens`.
    fn draws(&self, tokens: &[TokenId], out: &mut Vec<Draw>) {
        let mut known = HashMap::new();
        out.extend(tokens.windows(2).map(|pair| {
            let packed = u64::from(pair[0]) << 32 | u64::from(pair[1]);
            let green = *known.entry(packed).or_insert_with(|| self.is_green(pair[0], pair[1]));
            Draw { identity: mix(packed), green }
        }));
    }
}

/// A bijection that spreads pairs over all 64 bits (the finalizer of Vigna's SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;
    use sha3::{Digest, Sha3_256};

    /// A line of the golden file: the parameters and the digest of all lists.
    #[derive(serde::Deserialize)]
    struct Case {
        hash_key: u64,
        gamma: f64,
        vocabulary: usize,
        previous: Vec<u32>,
        sha3_256: String,
    }

    /// `fixtures/golden/kgw_simple_1.json`, made with torch by the script beside it.
    #[test]
    fn lists_equal_torch_in_a_million_memberships() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../../fixtures/golden/kgw_simple_1.json")).unwrap();
        let mut memberships = 0;
        for case in cases {
            let scheme = KgwSimple1::new(case.hash_key, case.gamma, case.vocabulary).unwrap();
            let mut digest = Sha3_256::new();
            let mut green = TokenSet::new(case.vocabulary);
            for &previous in &case.previous {
                scheme.green_list(&[previous], &mut green);
                assert_eq!(green.len(), scheme.green_size());
                memberships += case.vocabulary;
                let bytes = green.words().iter().flat_map(|word| word.to_le_bytes());
                digest.update(bytes.take(case.vocabulary.div_ceil(8)).collect::<Vec<_>>());
                for token in (0..case.vocabulary as u32).step_by(case.vocabulary / 40 + 1) {
                    assert_eq!(scheme.is_green(previous, token), green.contains(token));
                }
            }
            assert_eq!(HEXLOWER.encode(&digest.finalize()), case.sha3_256, "V = {}", case.vocabulary);
        }
        assert!(memberships >= 1_000_000, "{memberships}");
    }

    #[test]
    fn draws_agree_with_memberships() {
        let scheme = KgwSimple1::new(DEFAULT_HASH_KEY, 0.25, 500).unwrap();
        let tokens: Vec<u32> = (0..300u32).map(|i| i * i % 37).collect();
        let mut draws = Vec::new();
        scheme.draws(&tokens, &mut draws);
        for (pair, draw) in tokens.windows(2).zip(&draws) {
            assert_eq!(draw.green, scheme.is_green(pair[0], pair[1]));
        }
        assert!(!scheme.is_green(1, 500), "a token past the vocabulary is never green");
    }

    #[test]
    fn bad_splits_are_refused() {
        assert!(KgwSimple1::new(1, 1.0, 10).is_err() && KgwSimple1::new(1, f64::NAN, 10).is_err());
        assert!(KgwSimple1::new(1, 0.5, 0).is_err() && KgwSimple1::new(1, 0.5, usize::MAX).is_err());
    }
}
