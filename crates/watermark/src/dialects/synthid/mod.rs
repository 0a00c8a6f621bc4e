//! The dialects of SynthID-Text: tournament sampling over the bits that keys assign to each n-gram.
//!
//! Dathathri et al., *Scalable watermarking for identifying large language model outputs*, Nature 634, 2024. There are
//! two dialects, which cannot read each other: with a *table* of 65,536 bits (transformers, the package
//! `synthid-text`), and with a *hash* (the repository since June 2025). Tokens are absorbed by
//! `acc(h, d) = (h + d) * 6364136223846793005 + 1`.
//!
//! In the table dialect all bits of an n-gram follow from the low 16 bits of its hash. There are thus at most 65,536
//! different observations: each is counted once, and the distribution of its score is computed from all of them. With
//! the hash, the bits of different keys are independent and those of equal keys are equal, so all keys must be
//! different.

pub mod training;

use super::error::BadDialect;
pub use super::error::{BadSynthId, MAX_DEPTH};
use super::spec::{Secret, Spec};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use verdigris_logits::{Row, TokenId};
use zeroize::Zeroizing;

use crate::random::mt19937::Mt19937;
use crate::real::{exp, ln};
use crate::scheme::{EmbedRules, MAX_CONTEXT, Observation, Scheme, Stage, mix, name};
use crate::score_distribution::{Integer, ScoreDistribution};
use crate::strength::Strength;

/// The example keys of transformers, DeepMind and MarkLLM, which use all of them or the first few. Public.
pub const EXAMPLE_KEYS: [u64; 30] = [
    654, 400, 836, 123, 340, 443, 597, 160, 57, 29, 590, 639, 13, 715, 468, 990, 966, 226, 324, 585, 118, 504, 421,
    521, 129, 669, 732, 225, 90, 960,
];

const TABLE: usize = 1 << 16;

/// The source of the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bits {
    /// A table that torch's CPU generator makes under seed 0.
    Table,
    /// A hash of twelve rounds.
    Hash,
}

/// The function that turns the bits of a token into its score.
#[doc(alias = "SynthIDTextWatermarkDetector")]
#[doc(alias = "BayesianDetectorModel")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// The mean of the bits.
    Mean,
    /// The mean of the bits with weights that fall linearly from 10 to 1, since the first layers carry most evidence.
    WeightedMean,
    /// The log-likelihood ratio of a trained model of the tournament.
    Bayesian(Bayesian),
}

/// Parameters of the Bayesian score, trained for a set of keys: layer `l` had two tokens to choose from with
/// probability `sigmoid(beta_l + sum over j < l of delta_lj g_j)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bayesian {
    /// The prior share of marked texts.
    pub prior: f64,
    /// One number per layer.
    pub beta: Vec<f64>,
    /// One row per layer, of which the entries before the diagonal count.
    pub delta: Vec<Vec<f64>>,
}

/// SynthID-Text as represented in key files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The source of the bits, which selects one of the two dialects.
    pub bits: Bits,
    /// The number of tokens in an n-gram.
    pub ngram_len: usize,
    /// The function that turns bits into a score.
    pub score: Score,
}

impl Spec for Parameters {
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        Ok(Arc::new(self.synthid(secret, vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.bits == Bits::Table { "table" } else { "hash" };
        let score = match self.score {
            Score::Mean => "mean",
            Score::WeightedMean => "weighted mean",
            Score::Bayesian(_) => "Bayesian score",
        };
        write!(f, ", {bits}, n-grams of {}, {score}", self.ngram_len)
    }

    fn is_public(&self, numbers: &[u64]) -> bool {
        // Examples take the first of them, one for each layer.
        EXAMPLE_KEYS.starts_with(numbers)
    }
}

impl Parameters {
    pub(crate) fn synthid(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<SynthId, BadDialect> {
        let numbers = secret.numbers()?;
        let keys: Zeroizing<Vec<i64>> = Zeroizing::new(numbers.iter().map(|&key| key as i64).collect());
        Ok(SynthId::new(&keys, self.bits, self.ngram_len, self.score.clone(), vocabulary)?)
    }
}

/// SynthID-Text under a set of keys.
#[doc(alias = "SynthIDTextWatermarkLogitsProcessor")]
#[doc(alias = "SynthIDTextWatermarkingConfig")]
#[derive(Clone)]
pub struct SynthId {
    keys: Zeroizing<Vec<u64>>,
    bits: Bits,
    /// One bit per entry of the table; empty for the hash.
    table: Arc<[u64]>,
    start: u64,
    width: usize,
    score: Score,
    /// The logarithm of the mean of the Bayesian score's ratios, which is subtracted from scores; 0 for other scores.
    ln_mean: f64,
    distribution: ScoreDistribution,
    vocabulary: usize,
}

impl fmt::Debug for SynthId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bits, keys, width, .. } = self;
        write!(f, "SynthId {{ bits: {bits:?}, depth: {}, width: {width}, keys: redacted }}", keys.len())
    }
}

impl SynthId {
    /// The scheme of a set of keys over n-grams of `ngram_len` tokens, the last of which is the judged one.
    ///
    /// # Errors
    /// [`BadSynthId`] if a parameter is out of range or does not fit the keys, or if keys of the hash are equal.
    pub fn new(
        keys: &[i64],
        bits: Bits,
        ngram_len: usize,
        score: Score,
        vocabulary: usize,
    ) -> Result<Self, BadSynthId> {
        let depth = keys.len();
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(BadSynthId::Depth(depth));
        }
        if !(2..=MAX_CONTEXT + 1).contains(&ngram_len) {
            return Err(BadSynthId::Ngram(ngram_len));
        }
        let before = |i: usize| keys[..i].iter().position(|key| *key == keys[i]);
        if bits == Bits::Hash
            && let Some((first, second)) = (1..depth).find_map(|i| before(i).map(|first| (first, i)))
        {
            return Err(BadSynthId::Repeated { first: first + 1, second: second + 1 });
        }
        if let Score::Bayesian(Bayesian { prior, beta, delta }) = &score {
            let finite = |row: &Vec<f64>| row.len() == depth && row.iter().all(|x| x.is_finite());
            let fits = finite(beta) && delta.len() == depth && delta.iter().all(finite);
            if !(fits && *prior > 0.0 && *prior < 1.0) {
                return Err(BadSynthId::Bayesian(depth));
            }
        }
        let (table, start): (Arc<[u64]>, u64) = match bits {
            Bits::Table => (sampling_table(), 1),
            Bits::Hash => (Arc::new([]), initial_value(keys)),
        };
        let keys = Zeroizing::new(keys.iter().map(|&key| key as u64).collect());
        let (width, ln_mean, distribution) = (ngram_len - 1, 0.0, ScoreDistribution::Exponential);
        let mut scheme = Self { keys, bits, table, start, width, score, ln_mean, distribution, vocabulary };
        (scheme.ln_mean, scheme.distribution) = match &scheme.score {
            Score::Bayesian(model) => scheme.distribution_of_a_ratio(model),
            Score::Mean | Score::WeightedMean => (0.0, scheme.distribution_of_a_sum()),
        };
        Ok(scheme)
    }

    /// The g-values of a token whose n-gram has the hash `h`: bit `l` belongs to key `l`.
    pub(super) fn g_values(&self, h: u64) -> u64 {
        let mut states = [0u64; MAX_DEPTH];
        let states = &mut states[..self.keys.len()];
        states.iter_mut().zip(&*self.keys).for_each(|(state, &key)| *state = absorb(h, key));
        match self.bits {
            Bits::Table => pack(states, |state| {
                let at = state as usize % TABLE;
                self.table[at / 64] >> (at % 64) & 1
            }),
            Bits::Hash => {
                for _ in 0..12 {
                    states.iter_mut().for_each(|state| *state = (absorb(*state, 1) as i64 >> 5) as u64);
                }
                pack(states, |state| state >> 30 & 1)
            }
        }
    }

    pub(super) fn hash(&self, context: &[TokenId]) -> u64 {
        context.iter().fold(self.start, |h, &token| absorb(h, u64::from(token)))
    }

    fn weight(&self, layer: usize) -> u32 {
        let depth = self.keys.len() as u32;
        match self.score {
            Score::WeightedMean if depth > 1 => 10 * (depth - 1) - 9 * layer as u32,
            _ => 1,
        }
    }

    fn score(&self, g: u64) -> f32 {
        match &self.score {
            Score::Mean => g.count_ones() as f32,
            Score::WeightedMean => {
                (0..self.keys.len()).filter(|l| g >> l & 1 == 1).map(|l| self.weight(l)).sum::<u32>() as f32
            }
            Score::Bayesian(model) => (ln(model.likelihood_ratio(g)) - self.ln_mean) as f32,
        }
    }

    /// The logarithm of the mean ratio in unmarked text, and the distribution of a score from which it is subtracted:
    /// the exponential of that score has mean one, on which p-values depend. The bits of the table are not fair coins,
    /// so there the mean ratio differs from one.
    fn distribution_of_a_ratio(&self, model: &Bayesian) -> (f64, ScoreDistribution) {
        let (mean, largest) = match self.bits {
            Bits::Table => {
                let ratios = (0..TABLE as u64).map(|h| model.likelihood_ratio(self.g_values(h)));
                let (sum, largest) = ratios.fold((0.0, 0.0), |(sum, most), ratio: f64| (sum + ratio, ratio.max(most)));
                (sum / TABLE as f64, largest)
            }
            Bits::Hash => (1.0, model.bound()),
        };
        // Rounded like scores.
        (ln(mean), ScoreDistribution::LikelihoodRatio { largest: f64::from((ln(largest) - ln(mean)) as f32) })
    }

    fn distribution_of_a_sum(&self) -> ScoreDistribution {
        let depth = self.keys.len();
        let total: u32 = (0..depth).map(|layer| self.weight(layer)).sum();
        let mut distribution = vec![0.0; total as usize + 1];
        match self.bits {
            Bits::Table => {
                (0..TABLE as u64)
                    .for_each(|h| distribution[self.score(self.g_values(h)) as usize] += 1.0 / TABLE as f64);
            }
            Bits::Hash => {
                distribution[0] = 1.0;
                for layer in 0..depth {
                    let weight = self.weight(layer) as usize;
                    for x in (0..distribution.len()).rev() {
                        distribution[x] =
                            0.5 * distribution[x] + if x >= weight { 0.5 * distribution[x - weight] } else { 0.0 };
                    }
                }
            }
        }
        // The score is displayed as a mean of g-values, whatever their weights.
        ScoreDistribution::Integer(Arc::new(Integer::new(distribution, 1.0 / f64::from(total))))
    }
}

impl Scheme for SynthId {
    fn distribution(&self) -> ScoreDistribution {
        self.distribution.clone()
    }

    fn context_width(&self) -> usize {
        self.width
    }

    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        out.extend(tokens.windows(self.width + 1).map(|window| {
            let h = self.hash(window);
            let identity = match self.bits {
                Bits::Table => mix(h % TABLE as u64 + 1),
                Bits::Hash => mix(h),
            };
            Observation { context: name(&window[..self.width]), identity, score: self.score(self.g_values(h)) }
        }));
    }

    fn context_decides(&self) -> bool {
        self.bits == Bits::Hash
    }

    /// The tournament of two leaves in closed form: layer by layer `p *= 1 + g - sum(p g)`.
    #[expect(clippy::disallowed_methods, reason = "it writes, and is on the way to no p-value")]
    fn mark(&self, context: &[TokenId], _: Strength, row: &mut Row) {
        thread_local!(static LAW: RefCell<Vec<(f64, u64)>> = const { RefCell::new(Vec::new()) });
        let h = self.hash(context);
        let Some(max) = row.max() else { return };
        row.with_allowed(|allowed, logits| {
            LAW.with_borrow_mut(|distribution| {
                distribution.clear();
                distribution.extend(allowed.iter().map(|&token| {
                    let p = f64::from(logits[token as usize] - max).exp();
                    (p, self.g_values(absorb(h, u64::from(token))))
                }));
                let total: f64 = distribution.iter().map(|(p, _)| p).sum();
                distribution.iter_mut().for_each(|(p, _)| *p /= total);
                for layer in 0..self.keys.len() {
                    let bit = |g: u64| (g >> layer & 1) as f64;
                    let mass: f64 = distribution.iter().map(|&(p, g)| p * bit(g)).sum();
                    distribution.iter_mut().for_each(|(p, g)| *p *= 1.0 + bit(*g) - mass);
                }
                for (&token, &(p, _)) in allowed.iter().zip(&*distribution) {
                    // A token of probability zero is never sampled, but the last token must stay possible.
                    logits[token as usize] = p.max(1e-300).ln() as f32;
                }
            });
        });
    }

    fn embed_rules(&self) -> EmbedRules {
        let stage = Stage::Warped;
        EmbedRules { stage, padding: Some(0), sees_prompt: false, memory: 1024, ..EmbedRules::default() }
    }
}

impl Bayesian {
    /// `P(g | marked) / P(g | not marked)` of one token. In each layer the two probabilities of a bit sum to one, so
    /// the ratio has mean one over independent bits, and its product over a text is rarely large.
    fn likelihood_ratio(&self, g: u64) -> f64 {
        let bit = |l: usize| (g >> l & 1) as f64;
        (0..self.beta.len())
            .map(|layer| {
                let latent = self.beta[layer] + (0..layer).map(|j| self.delta[layer][j] * bit(j)).sum::<f64>();
                let two = sigmoid(latent);
                // P(g | marked) = ((g + 1/2) two + 1 - two) / 2, against 1/2.
                (bit(layer) + 0.5) * two + 1.0 - two
            })
            .product()
    }

    /// An upper bound of the ratios: that of a token whose bits are all one, with the most favourable bits before each.
    fn bound(&self) -> f64 {
        (0..self.beta.len())
            .map(|layer| {
                let favourable = self.delta[layer][..layer].iter().map(|delta| delta.max(0.0));
                1.0 + 0.5 * sigmoid(self.beta[layer] + favourable.sum::<f64>())
            })
            .product()
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

fn pack(states: &[u64], bit: impl Fn(u64) -> u64) -> u64 {
    states.iter().rev().fold(0, |bits, &state| bits << 1 | bit(state))
}

fn absorb(h: u64, data: u64) -> u64 {
    h.wrapping_add(data).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)
}

/// `torch.randint(0, 2, (65536,))` under seed 0, packed.
fn sampling_table() -> Arc<[u64]> {
    let mut random = Mt19937::new(0);
    (0..TABLE / 64).map(|_| (0..64).fold(0, |word, bit| word | u64::from(random.next() % 2) << bit)).collect()
}

/// The SHA-256 of the keys, read as a large number, modulo `2^63 - 1`.
fn initial_value(keys: &[i64]) -> u64 {
    let mut digest = Sha256::new();
    keys.iter().for_each(|key| digest.update(key.to_le_bytes()));
    let modulus = (1u128 << 63) - 1;
    digest.finalize().iter().fold(0u128, |value, &byte| (value << 8 | u128::from(byte)) % modulus) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Level};

    fn examples() -> [i64; 30] {
        EXAMPLE_KEYS.map(|key| key as i64)
    }

    fn shown(bits: Bits) -> String {
        let scheme = SynthId::new(&examples(), bits, 5, Score::Mean, 1000).unwrap();
        let g = scheme.g_values(scheme.hash(&[10, 20, 30, 40, 50]));
        (0..30).map(|l| if g >> l & 1 == 1 { '1' } else { '0' }).collect()
    }

    /// The output of both upstream packages for `[10, 20, 30, 40, 50]`.
    #[test]
    fn g_values_equal_both_packages() {
        assert_eq!(shown(Bits::Table), "000101000010010000101000000110");
        assert_eq!(shown(Bits::Hash), "101111010101110101011111100100");
        assert_eq!(initial_value(&examples()), 1_614_033_703_599_872_695);
    }

    /// The tournament keeps the distribution: averaged over many keys, the marked distribution is the unmarked one.
    #[test]
    fn the_tournament_distorts_nothing_on_average() {
        let logits: Vec<f32> = (0..8).map(|t| (t * t % 7) as f32 / 2.0).collect();
        let plain = Row::from(logits.clone()).distribution();
        let (mut mean, keys) = ([0.0; 8], 20_000);
        for key in 0..keys {
            let scheme =
                SynthId::new(&[key * 7919 + 5, key * 104_729 + 3, key], Bits::Hash, 3, Score::Mean, 8).unwrap();
            let mut row = Row::from(logits.clone());
            scheme.mark(&[1, 2], Strength::Hard, &mut row);
            mean.iter_mut().zip(row.distribution()).for_each(|(mean, p)| *mean += p / keys as f64);
        }
        for (mean, plain) in mean.iter().zip(&plain) {
            assert!((mean - plain).abs() < 0.01, "{mean} {plain}");
        }
    }

    #[test]
    fn a_likelihood_ratio_has_mean_one_without_a_mark() {
        let delta = (0..6).map(|l| (0..6).map(|j| (l * j) as f64 / 9.0 - 0.4).collect()).collect();
        let model = Bayesian { prior: 0.5, beta: vec![0.3, -1.0, 2.0, 0.0, 0.7, -0.2], delta };
        let mean: f64 = (0..64).map(|g| model.likelihood_ratio(g) / 64.0).sum();
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
        let largest = (0..64).map(|g| model.likelihood_ratio(g)).fold(0.0, f64::max);
        assert!((largest..1.2 * largest).contains(&model.bound()), "{largest} {}", model.bound());
    }

    fn bayesian(beta: Vec<f64>) -> Score {
        let delta = vec![vec![0.0; beta.len()]; beta.len()];
        Score::Bayesian(Bayesian { prior: 0.5, beta, delta })
    }

    /// Over all entries of the table, equal keys included. E-values and Markov's inequality depend on it.
    #[test]
    fn scores_over_the_table_have_mean_one_and_the_largest_that_is_said() {
        for keys in [&examples()[..], &examples()[..6], &[7, 7, 7], &[1, 2, 3, 4, 5]] {
            for beta in [-3.0, 1.0, 4.0] {
                let score = bayesian(vec![beta; keys.len()]);
                let scheme = SynthId::new(keys, Bits::Table, 5, score, 1000).unwrap();
                let scores = || (0..TABLE as u64).map(|h| f64::from(scheme.score(scheme.g_values(h))));
                let mean = scores().map(f64::exp).sum::<f64>() / TABLE as f64;
                assert!((mean - 1.0).abs() < 1e-6, "{} keys, {beta}: {mean}", keys.len());
                let largest = scores().fold(f64::NEG_INFINITY, f64::max);
                assert_eq!(scheme.distribution(), ScoreDistribution::LikelihoodRatio { largest });
            }
        }
    }

    /// Equal keys give equal layers, whose sum is distributed differently from that of independent ones.
    #[test]
    fn keys_of_the_hash_are_all_different() {
        let new = |keys: &[i64], bits, score| SynthId::new(keys, bits, 5, score, 1000).map(|_| ());
        for score in [Score::Mean, Score::WeightedMean, bayesian(vec![0.0; 4])] {
            let repeated = new(&[5, 8, 3, 8], Bits::Hash, score.clone());
            assert_eq!(repeated, Err(BadSynthId::Repeated { first: 2, second: 4 }));
            assert_eq!(new(&[5, 8, 3, 9], Bits::Hash, score.clone()), Ok(()));
            assert_eq!(
                new(&[5, 8, 3, 8], Bits::Table, score),
                Ok(()),
                "the table's distribution is taken from its bits"
            );
        }
        let said = new(&[5; 30], Bits::Hash, Score::Mean).unwrap_err().to_string();
        assert!(said.contains("keys 1 and 2 are the same") && said.contains("all different"), "{said}");
    }

    /// A text too short to reach the level even with the largest scores is undecided, not unmarked.
    #[test]
    fn short_texts_are_undecided() {
        let three = &examples()[..3];
        for (bits, score, n) in [
            (Bits::Table, Score::WeightedMean, 0),
            (Bits::Table, Score::Mean, 2),
            (Bits::Table, Score::WeightedMean, 2),
            (Bits::Hash, Score::WeightedMean, 2),
            (Bits::Table, bayesian(vec![-3.0; 3]), 2),
            (Bits::Hash, bayesian(vec![-3.0; 3]), 2),
            (Bits::Hash, bayesian(vec![-3.0; 3]), 0),
        ] {
            let scheme: Arc<dyn Scheme> = Arc::new(SynthId::new(three, bits, 5, score, 1000).unwrap());
            let tokens: Vec<TokenId> = (0..4 + n).collect();
            let short = Evidence::of(scheme.clone(), &tokens).is_marked(Level::DEFAULT).unwrap_err();
            assert_eq!(short.scored, u64::from(n), "{scheme:?}");
            // `needed` of the largest scores are enough, and one less is not.
            let (distribution, needed) = (scheme.distribution(), short.needed);
            assert!(
                distribution.ln_least(needed) <= 1e-5f64.ln() && distribution.ln_least(needed - 1) > 1e-5f64.ln(),
                "{needed}"
            );
            let long: Vec<TokenId> = (0..1000).collect();
            assert_eq!(Evidence::of(scheme, &long).is_marked(Level::DEFAULT), Ok(false));
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let new = |keys: &[i64], ngram, score| SynthId::new(keys, Bits::Hash, ngram, score, 10);
        assert!(new(&[], 5, Score::Mean).is_err() && new(&[1; 65], 5, Score::Mean).is_err());
        assert!(new(&[1], 1, Score::Mean).is_err() && new(&[1], 40, Score::Mean).is_err());
        let bayesian = |prior, beta: Vec<f64>| Score::Bayesian(Bayesian { prior, beta, delta: vec![vec![0.0]] });
        assert!(new(&[1], 5, bayesian(0.5, vec![0.0])).is_ok());
        assert!(new(&[1], 5, bayesian(1.0, vec![0.0])).is_err() && new(&[1], 5, bayesian(0.5, vec![])).is_err());
        assert!(new(&[1], 5, bayesian(0.5, vec![f64::NAN])).is_err());
    }
}
