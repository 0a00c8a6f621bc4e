//! Training of the Bayesian score.
//!
//! The parameters are those under which the bits of marked texts are most probable. Unmarked texts are not needed:
//! their bits are fair coins, whatever the text. (DeepMind's trainer separates marked from unmarked texts by their
//! posterior instead: Dathathri et al., *Scalable watermarking for identifying large language model outputs*, Nature
//! 634, 2024.) The mean of `ln P(bits | marked) / P(bits)` over marked tokens is what a token adds to the evidence.

use std::collections::HashSet;

use verdigris_logits::random::philox4x32;
use verdigris_logits::{Purpose, Random, TokenId};

use super::{Bayesian, SynthId, sigmoid};
use crate::key::{Key, KeyError};
use crate::real::{exp2, ln};
use crate::scheme::name;

/// The fewest texts and tokens to train on.
const LEAST: [usize; 2] = [20, 2000];
/// Tokens between two steps.
const BATCH: usize = 256;
const RATE: f64 = 0.02;
const EPOCHS: usize = 60;
/// Epochs without an improvement after which training ends.
const PATIENCE: usize = 5;
/// The share of the texts that is held out.
const HELD_OUT: f64 = 0.3;

/// A trained score.
#[derive(Debug)]
pub struct Trained {
    /// The key with the score.
    pub key: Key,
    /// The numbers of texts that it was trained on, and that were held out.
    pub texts: [usize; 2],
    /// The number of scored tokens in them.
    pub tokens: [usize; 2],
    /// The mean score of a held-out token, in nats: a text of `n` tokens reaches about `exp(-gain * n)`.
    pub gain: f64,
    /// The number of passes over the texts.
    pub epochs: usize,
}

/// Why a score cannot be trained.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The key is of another dialect.
    #[error("the key {id} is not one of SynthID: a score is trained for a key of the dialect synthid")]
    Dialect {
        /// The id of the key.
        id: String,
    },
    /// There are too few texts.
    #[error(
        "{texts} texts with {tokens} scored tokens are too few to train on: give at least {} with {}", LEAST[0], LEAST[1]
    )]
    Few {
        /// The number of texts.
        texts: usize,
        /// The number of tokens.
        tokens: usize,
    },
    /// The bits of the texts are as likely without a mark.
    #[error("the texts do not show the mark of this key: give texts that were written with it")]
    Unmarked,
    /// The key with the score is not one.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Trains the Bayesian score of a SynthID key on texts that are marked with it. Calls `progress` after each pass over
/// the texts with its number and the gain. The result depends on the texts, their order and the seed alone.
///
/// # Errors
/// [`TrainingError`].
pub fn train(
    key: &Key,
    texts: &[Vec<TokenId>],
    seed: u64,
    mut progress: impl FnMut(usize, f64),
) -> Result<Trained, TrainingError> {
    let scheme = key.synthid().ok_or_else(|| TrainingError::Dialect { id: key.id().into() })?;
    let (mut sets, mut counts) = ([Vec::new(), Vec::new()], [0, 0]);
    let (random, mut seen) = (Random::new(seed), Seen::default());
    for (at, text) in texts.iter().enumerate() {
        let held_out = usize::from(random.uniform(at as u64, Purpose::Data) < HELD_OUT);
        sets[held_out].extend(scheme.bits_of(text, &mut seen));
        counts[held_out] += 1;
    }
    let tokens = sets.each_ref().map(Vec::len);
    if texts.len() < LEAST[0] || tokens.iter().sum::<usize>() < LEAST[1] || counts.contains(&0) {
        return Err(TrainingError::Few { texts: texts.len(), tokens: tokens.iter().sum() });
    }
    let [mut training, held_out] = sets;
    let mut fit = Fit::new(scheme.keys.len());
    let (mut best, mut epochs) = ((f64::NEG_INFINITY, fit.score()), 0);
    let mut since = 0;
    while epochs < EPOCHS && since < PATIENCE {
        shuffle(&mut training, seed, epochs as u32);
        training.chunks(BATCH).for_each(|batch| fit.step(batch));
        epochs += 1;
        let score = fit.score();
        let gain = score.gain(&held_out);
        progress(epochs, gain);
        since += 1;
        if gain > best.0 {
            (best, since) = ((gain, score), 0);
        }
    }
    let (key, scheme) = {
        let key = key.with_bayesian_score(best.1)?;
        let scheme = key.synthid().expect("the same dialect");
        (key, scheme)
    };
    // What the table's unfair coins take away is subtracted from scores.
    let gain = best.0 - scheme.ln_mean;
    if gain <= 0.0 {
        return Err(TrainingError::Unmarked);
    }
    Ok(Trained { key, texts: counts, tokens, gain, epochs })
}

fn shuffle(bits: &mut [u64], seed: u64, epoch: u32) {
    for i in (1..bits.len()).rev() {
        let [a, b, ..] = philox4x32([i as u32, epoch, 0, 0], [seed as u32, (seed >> 32) as u32]);
        let random = u128::from(u64::from(a) << 32 | u64::from(b));
        let at = ((random * (i as u128 + 1)) >> 64) as usize;
        bits.swap(i, at);
    }
}

/// The contexts and n-grams of all texts. Each counts once, so that texts with the same beginning do not repeat it, and
/// none that was trained on is held out as well.
#[derive(Default)]
struct Seen {
    contexts: HashSet<u64>,
    hashes: HashSet<u64>,
}

impl SynthId {
    /// The bits of the tokens of a text that a detector counts, and no other text had.
    fn bits_of(&self, tokens: &[TokenId], seen: &mut Seen) -> Vec<u64> {
        let counted = tokens.windows(self.width + 1).filter_map(|window| {
            let h = self.hash(window);
            let is_new = seen.contexts.insert(name(&window[..self.width])) && seen.hashes.insert(h);
            is_new.then(|| self.g_values(h))
        });
        counted.collect()
    }
}

impl Bayesian {
    /// The mean of `ln P(bits | marked) / P(bits)`.
    fn gain(&self, bits: &[u64]) -> f64 {
        bits.iter().map(|&g| ln(self.likelihood_ratio(g))).sum::<f64>() / bits.len() as f64
    }
}

/// Parameters, and the moments of Adam for each: first `beta`, then the rows of `delta` up to the diagonal.
struct Fit {
    depth: usize,
    parameters: Vec<f64>,
    moments: [Vec<f64>; 2],
    gradient: Vec<f64>,
    steps: i32,
}

impl Fit {
    fn new(depth: usize) -> Self {
        let count = depth + depth * (depth - 1) / 2;
        let mut parameters = vec![0.0; count];
        // Few tokens have two candidates that differ.
        parameters[..depth].fill(-2.5);
        let zeros = || vec![0.0; count];
        Self { depth, parameters, moments: [zeros(), zeros()], gradient: zeros(), steps: 0 }
    }

    fn score(&self) -> Bayesian {
        let row = |layer: usize| {
            let start = self.depth + layer * layer.saturating_sub(1) / 2;
            let mut row = self.parameters[start..start + layer].to_vec();
            row.resize(self.depth, 0.0);
            row
        };
        Bayesian { prior: 0.5, beta: self.parameters[..self.depth].to_vec(), delta: (0..self.depth).map(row).collect() }
    }

    /// Adds the gradient of `ln P(bits | marked)` of one token.
    fn add_gradient(&mut self, g: u64) {
        for layer in 0..self.depth {
            let start = self.depth + layer * layer.saturating_sub(1) / 2;
            let ones = |mut rest: u64| {
                std::iter::from_fn(move || {
                    let at = rest.trailing_zeros() as usize;
                    rest &= rest.wrapping_sub(1);
                    (at < 64).then_some(at)
                })
            };
            let before = g & ((1 << layer) - 1);
            let latent = self.parameters[layer] + ones(before).map(|j| self.parameters[start + j]).sum::<f64>();
            let (two, above) = (sigmoid(latent), (g >> layer & 1) as f64 - 0.5);
            let slope = above * two * (1.0 - two) / (1.0 + above * two);
            self.gradient[layer] += slope;
            ones(before).for_each(|j| self.gradient[start + j] += slope);
        }
    }

    /// A step of Adam (Kingma and Ba, ICLR 2015) up the mean of a batch.
    fn step(&mut self, batch: &[u64]) {
        self.gradient.fill(0.0);
        batch.iter().for_each(|&g| self.add_gradient(g));
        self.steps += 1;
        let decay = |base: f64| 1.0 - exp2(f64::from(self.steps) * ln(base) / std::f64::consts::LN_2);
        let (first, second) = (decay(0.9), decay(0.999));
        let [mean, square] = &mut self.moments;
        for (((p, m), s), g) in self.parameters.iter_mut().zip(mean).zip(square).zip(&self.gradient) {
            let g = g / batch.len() as f64;
            *m = 0.9 * *m + 0.1 * g;
            *s = 0.999 * *s + 0.001 * g * g;
            *p += RATE * (*m / first) / ((*s / second).sqrt() + 1e-8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VocabularyId;
    use crate::dialect::Dialect;
    use crate::dialects::synthid::{Bits, Parameters, Score};

    const DEPTH: usize = 6;

    fn model() -> Bayesian {
        let delta = |l: usize, j: usize| if j < l { 0.9 - 0.4 * (l - j) as f64 } else { 0.0 };
        let delta = (0..DEPTH).map(|l| (0..DEPTH).map(|j| delta(l, j)).collect()).collect();
        Bayesian { prior: 0.5, beta: vec![1.5, 0.5, 0.0, -0.5, -1.0, -2.0], delta }
    }

    /// Bits of marked tokens.
    fn sampled(model: &Bayesian, count: u64) -> Vec<u64> {
        let random = Random::new(9);
        let token = |at: u64| {
            (0..DEPTH).fold(0u64, |g, layer| {
                let latent =
                    model.beta[layer] + (0..layer).map(|j| model.delta[layer][j] * (g >> j & 1) as f64).sum::<f64>();
                let one = random.uniform(at * DEPTH as u64 + layer as u64, Purpose::Data) < 0.5 + sigmoid(latent) / 4.0;
                g | u64::from(one) << layer
            })
        };
        (0..count).map(token).collect()
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let mut fit = Fit::new(DEPTH);
        for (i, parameter) in fit.parameters.iter_mut().enumerate() {
            *parameter = (i as f64 * 0.7).sin();
        }
        for g in [0, 0b101101, 0b111111, 0b010010] {
            fit.gradient.fill(0.0);
            fit.add_gradient(g);
            let gradient = fit.gradient.clone();
            for (i, expected) in gradient.into_iter().enumerate() {
                let mut at = |change: f64| {
                    let before = fit.parameters[i];
                    fit.parameters[i] += change;
                    let value = ln(fit.score().likelihood_ratio(g));
                    fit.parameters[i] = before;
                    value
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((difference - expected).abs() < 1e-8, "{i} of {g:b}: {difference} {expected}");
            }
        }
    }

    #[test]
    fn a_known_score_is_found_again() {
        let (model, mut fit) = (model(), Fit::new(DEPTH));
        let (mut training, held_out) = (sampled(&model, 60_000), sampled(&model, 80_000).split_off(60_000));
        for epoch in 0..10 {
            shuffle(&mut training, 1, epoch);
            training.chunks(BATCH).for_each(|batch| fit.step(batch));
        }
        let (best, found) = (model.gain(&held_out), fit.score().gain(&held_out));
        assert!(best > 0.05 && found > 0.97 * best && found < 1.01 * best, "{found} of {best}");
        // Over all bits, which are equally likely without a mark, the mean ratio is one: 1 / ratio bounds a p-value.
        let mean = (0..1 << DEPTH).map(|g| fit.score().likelihood_ratio(g)).sum::<f64>() / f64::from(1 << DEPTH);
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
    }

    fn key(bits: Bits) -> Key {
        let dialect = Dialect::Synthid(Parameters { bits, ngram_len: 3, score: Score::Mean });
        let secret: Vec<u8> = (1..=6u64).flat_map(|key| (key * 7919).to_be_bytes()).collect();
        Key::new(secret, "s", dialect, None, VocabularyId::new(500, "x").unwrap()).unwrap()
    }

    /// Texts whose tokens are the better ones of two, layer by layer.
    fn texts(key: &Key, count: u32, is_marked: bool) -> Vec<Vec<TokenId>> {
        let scheme = key.synthid().unwrap();
        let text = |number: u32| {
            let mut text: Vec<TokenId> = Vec::new();
            for at in 0..120u32 {
                let [a, b, ..] = philox4x32([at, number, 0, 0], [3, 0]).map(|x| x % 500);
                let context = [&[0; 2][..], &text].concat();
                let bits = |token| scheme.g_values(scheme.hash(&[&context[context.len() - 2..], &[token]].concat()));
                // The lowest bit in which they differ decides.
                let differ = bits(a) ^ bits(b);
                let first = bits(a) >> differ.trailing_zeros().min(63) & 1 == 1;
                text.push(if !is_marked || first { a } else { b });
            }
            text
        };
        (0..count).map(text).collect()
    }

    #[test]
    fn texts_of_a_key_train_its_score() {
        for bits in [Bits::Hash, Bits::Table] {
            let key = key(bits);
            let mut calls = Vec::new();
            let trained = train(&key, &texts(&key, 60, true), 1, |epoch, gain| calls.push((epoch, gain))).unwrap();
            assert_eq!((calls.len(), trained.epochs), (calls.last().unwrap().0, calls.len()));
            assert!(trained.gain > 0.05 && trained.texts.iter().sum::<usize>() == 60, "{trained:?}");
            assert!(trained.key.describe().ends_with("Bayesian score") && trained.key.id() == "s");
            // What it says of other texts is what it said of those that were held out.
            let score = |text: &Vec<TokenId>| {
                let evidence = crate::Evidence::of(trained.key.scheme().unwrap(), text);
                [evidence.score, evidence.scored as f64]
            };
            let other = texts(&key, 90, true).split_off(60);
            let [sum, scored] = other.iter().map(score).fold([0.0, 0.0], |a, b| [a[0] + b[0], a[1] + b[1]]);
            assert!((sum / scored / trained.gain - 1.0).abs() < 0.2, "{} {}", sum / scored, trained.gain);
            let again = train(&key, &texts(&key, 60, true), 1, |_, _| {}).unwrap();
            assert!(again.key.marks_as(&trained.key) && again.gain == trained.gain, "the seed decides");
        }
    }

    /// Texts that repeat each other are no more than one.
    #[test]
    fn repeated_texts_count_once() {
        let key = key(Bits::Hash);
        let texts = texts(&key, 60, true);
        let once = train(&key, &texts, 1, |_, _| {}).unwrap();
        let repeated = train(&key, &[&texts[..], &texts, &texts].concat(), 1, |_, _| {}).unwrap();
        assert_eq!(repeated.tokens.iter().sum::<usize>(), once.tokens.iter().sum::<usize>());
        let same = vec![texts[0].clone(); 60];
        assert!(matches!(train(&key, &same, 1, |_, _| {}), Err(TrainingError::Few { .. })));
    }

    #[test]
    fn what_cannot_be_trained_is_refused() {
        let key = key(Bits::Hash);
        assert!(matches!(train(&key, &texts(&key, 60, false), 1, |_, _| {}), Err(TrainingError::Unmarked)));
        assert!(matches!(train(&key, &texts(&key, 5, true), 1, |_, _| {}), Err(TrainingError::Few { texts: 5, .. })));
        let native = Key::generate(crate::Marking::default(), VocabularyId::new(500, "x").unwrap());
        assert!(matches!(train(&native, &[], 1, |_, _| {}), Err(TrainingError::Dialect { .. })));
    }
}
