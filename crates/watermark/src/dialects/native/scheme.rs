//! Green lists for writing, and observations of tokens for reading.

use std::fmt;

use aes::cipher::BlockCipherEncrypt;
use verdigris_logits::{Row, TokenId, TokenSet};

use super::keystream::{Expand, counter};
use super::prf::{BATCH, Block, FEW, Prf, pack, to_block, value};
use crate::context::{Context, ContextFunction, MAX_WIDTH};
use crate::gamma::Gamma;
use crate::kdf::Purpose;
use crate::scheme::{Observation, Scheme, mark_list, name};
use crate::score_distribution::ScoreDistribution;
use crate::strength::Strength;

/// The most bits that decide one membership.
const MAX_PLANES: usize = 8;

/// The native scheme under one key.
pub struct Native {
    prf: Prf,
    gamma: Gamma,
    context: Context,
    vocabulary: usize,
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gamma, context, vocabulary, .. } = self;
        write!(f, "Native {{ gamma: {gamma}, context: {context:?}, vocabulary: {vocabulary}, key: redacted }}")
    }
}

impl Native {
    /// The scheme of a secret, a key id and a tenant, over a vocabulary of `vocabulary` tokens.
    pub fn new(secret: &[u8; 32], id: &str, tenant: &str, gamma: Gamma, context: Context, vocabulary: usize) -> Self {
        let prf = Prf::new(secret, id, tenant, Purpose::Context, Purpose::List);
        Self { prf, gamma, context, vocabulary }
    }

    /// The green share.
    pub(crate) fn gamma(&self) -> f64 {
        self.gamma.value()
    }

    fn seed(&self, context: &[TokenId]) -> u128 {
        self.prf.seed(self.context.function(), context)
    }

    /// Expands a seed into the words of a green list.
    fn expand(&self, seed: u128, flip: u16, words: &mut [u64]) {
        self.prf.list_key.encrypt_with_backend(Expand { seed, flip, gamma: self.gamma, words });
    }

    /// The 32 bits of a context that [`Native::coloured`] passes on.
    pub(crate) fn position(&self, context: &[TokenId]) -> u32 {
        self.seed(context) as u32
    }

    /// The tokens that are green by their number with the bits `flip` flipped.
    pub(crate) fn colour_list(&self, context: &[TokenId], flip: u16, green: &mut TokenSet) {
        let seed = self.seed(context);
        green.fill_words(|words| self.expand(seed, flip, words));
    }

    /// The observation of one token in its context. This is the definition that the batched paths agree with.
    fn observation(&self, context: &[TokenId], token: TokenId) -> Observation {
        let seed = self.seed(context);
        let mut planes = [Block::default(); MAX_PLANES];
        let planes = &mut planes[..self.gamma.bits()];
        for (plane, block) in planes.iter_mut().enumerate() {
            *block = to_block(seed ^ counter(plane, token as usize / 128));
        }
        self.prf.list_key.encrypt_blocks(planes);
        let (observation, _, number) = self.judge(seed, context, token, planes.iter());
        self.scored(observation, number)
    }

    /// Reads a token's bit from the keystream block of each plane.
    #[inline(always)]
    fn judge<'a>(
        &self,
        seed: u128,
        context: &[TokenId],
        token: TokenId,
        planes: impl Iterator<Item = &'a Block>,
    ) -> (Observation, u32, u16) {
        let bit = |block: &Block| u16::from(block[token as usize % 128 / 8] >> (token % 8) & 1);
        let number = planes.enumerate().fold(0, |sum, (plane, block)| sum | bit(block) << plane);
        let identity = seed as u64 ^ u64::from(token).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let context = if self.context.function() == ContextFunction::All { seed as u64 } else { name(context) };
        (Observation { context, identity, score: 0.0 }, seed as u32, number)
    }

    fn scored(&self, observation: Observation, number: u16) -> Observation {
        Observation { score: score(number < self.gamma.numerator()), ..observation }
    }

    /// The values that decide a batch of self-salted candidates: the caller takes the smallest of `AES(c_i, v)`.
    fn salted(&self, pairs: impl Iterator<Item = (TokenId, TokenId)>, blocks: &mut [Block]) {
        for (block, (c, v)) in blocks.iter_mut().zip(pairs) {
            *block = to_block(pack(&[c, v, u32::MAX]));
        }
        self.prf.context_key.encrypt_blocks(blocks);
    }

    fn salted_green(&self, smallest: u128) -> bool {
        // The low bits, which are independent of being the smallest.
        ((smallest as u16) & ((1 << self.gamma.bits()) - 1)) < self.gamma.numerator()
    }

    /// Calls `each` for each judged token with its observation without a score, 32 uniform bits of its context, and the
    /// number of the token there. For contexts that have a seed.
    #[inline]
    pub(crate) fn coloured(&self, tokens: &[TokenId], mut each: impl FnMut(Observation, u32, u16)) {
        let (width, k) = (self.context.width(), self.gamma.bits());
        let mut planes = [Block::default(); BATCH * MAX_PLANES];
        let judged = tokens.len().saturating_sub(width);
        for start in (0..judged).step_by(BATCH) {
            let count = BATCH.min(judged - start);
            let seeds = self.prf.seeds(self.context, &tokens[start..start + count + width - 1]);
            let candidates = &tokens[start + width..start + width + count];
            for (i, (&seed, &token)) in seeds.iter().zip(candidates).enumerate() {
                for plane in 0..k {
                    planes[plane * BATCH + i] = to_block(seed ^ counter(plane, token as usize / 128));
                }
            }
            self.prf.list_key.encrypt_blocks(&mut planes[..BATCH * k]);
            for (i, (&seed, &token)) in seeds.iter().zip(candidates).enumerate() {
                let planes = (0..k).map(|plane| &planes[plane * BATCH + i]);
                let (observation, bits, number) =
                    self.judge(seed, &tokens[start + i..start + i + width], token, planes);
                each(observation, bits, number);
            }
        }
    }

    fn observe_salted(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        let mut blocks = [Block::default(); MAX_WIDTH + 1];
        for window in tokens.windows(self.context.width() + 1) {
            let candidate = window[window.len() - 1];
            let blocks = &mut blocks[..window.len()];
            self.salted(window.iter().map(|&c| (c, candidate)), blocks);
            let smallest = blocks.iter().map(value).min().expect("the candidate is always there");
            let identity = (smallest >> 16) as u64;
            out.push(Observation { context: name(window), identity, score: score(self.salted_green(smallest)) });
        }
    }
}

impl Native {
    /// Writes the green tokens after `context` (of `context_width` tokens) into `green`, which has the capacity of
    /// the vocabulary.
    #[doc(alias = "greenlist")]
    pub fn green_list(&self, context: &[TokenId], green: &mut TokenSet) {
        if self.context.function() != ContextFunction::SelfSalted {
            let seed = self.seed(context);
            return green.fill_words(|words| self.expand(seed, 0, words));
        }
        let mut smallest = [u128::MAX; BATCH];
        let mut blocks = [Block::default(); BATCH];
        green.fill_words(|words| {
            for (word, at) in words.iter_mut().zip((0..).step_by(BATCH)) {
                smallest.fill(u128::MAX);
                for source in context.iter().map(Some).chain([None]) {
                    let candidates = at..at + BATCH as TokenId;
                    self.salted(candidates.map(|v| (source.copied().unwrap_or(v), v)), &mut blocks);
                    for (least, block) in smallest.iter_mut().zip(&blocks) {
                        *least = value(block).min(*least);
                    }
                }
                *word = smallest.iter().rev().fold(0, |word, &v| word << 1 | u64::from(self.salted_green(v)));
            }
        });
    }
}

impl Scheme for Native {
    fn distribution(&self) -> ScoreDistribution {
        ScoreDistribution::Green { gamma: self.gamma.value() }
    }

    fn context_width(&self) -> usize {
        self.context.width()
    }

    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        let width = self.context.width();
        match self.context.function() {
            _ if tokens.len() <= width => {}
            ContextFunction::SelfSalted => self.observe_salted(tokens, out),
            _ if tokens.len() - width < FEW => {
                out.extend(tokens.windows(width + 1).map(|window| self.observation(&window[..width], window[width])));
            }
            ContextFunction::All | ContextFunction::Min => {
                self.coloured(tokens, |observation, _, number| out.push(self.scored(observation, number)));
            }
        }
    }

    fn context_decides(&self) -> bool {
        self.context.function() == ContextFunction::All
    }

    fn mark(&self, context: &[TokenId], strength: Strength, row: &mut Row) {
        mark_list(row, self.vocabulary, strength, |green| self.green_list(context, green));
    }

    fn context_name(&self, context: &[TokenId]) -> u64 {
        if self.context.function() == ContextFunction::All { self.seed(context) as u64 } else { name(context) }
    }
}

/// The score of a colour.
fn score(green: bool) -> f32 {
    f32::from(u8::from(green))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXTS: [ContextFunction; 3] = [ContextFunction::All, ContextFunction::Min, ContextFunction::SelfSalted];

    fn scheme(gamma: f64, function: ContextFunction, width: usize, vocabulary: usize) -> Native {
        let context = Context::new(function, width).unwrap();
        Native::new(&[5; 32], "test", "", Gamma::new(gamma).unwrap(), context, vocabulary)
    }

    fn text(n: u32, vocabulary: u32) -> Vec<TokenId> {
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) % vocabulary).collect()
    }

    /// Two separate implementations: whole lists for writing, single tokens for reading.
    #[test]
    fn lists_and_draws_agree() {
        for function in CONTEXTS {
            for width in [1, 2, 4, 5, 8] {
                for gamma in [0.25, 0.5, 0.375, 255.0 / 256.0] {
                    let vocabulary = 200;
                    let scheme = scheme(gamma, function, width, vocabulary);
                    let tokens = text(150, vocabulary as u32);
                    let mut observations = Vec::new();
                    scheme.observe(&tokens, &mut observations);
                    assert_eq!(observations.len(), tokens.len() - width);
                    let mut green = TokenSet::new(vocabulary);
                    for (window, observation) in tokens.windows(width + 1).zip(&observations) {
                        scheme.green_list(&window[..width], &mut green);
                        assert_eq!(green.contains(window[width]), observation.score == 1.0, "{scheme:?}");
                    }
                }
            }
        }
    }

    /// Over many seeds the size of a list is binomial(V, gamma), in mean and variance.
    #[test]
    fn green_lists_have_the_binomial_size() {
        for function in CONTEXTS {
            for gamma in [0.25, 0.5, 0.625] {
                let (vocabulary, lists) = (1000, 2000u32);
                let scheme = scheme(gamma, function, 2, vocabulary);
                let mut green = TokenSet::new(vocabulary);
                let sizes: Vec<f64> = (0..lists)
                    .map(|i| {
                        scheme.green_list(&[i, i * 7 + 1], &mut green);
                        green.len() as f64
                    })
                    .collect();
                let n = f64::from(lists);
                let mean = sizes.iter().sum::<f64>() / n;
                let variance = sizes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n;
                let expected = vocabulary as f64 * gamma * (1.0 - gamma);
                // Self-salted lists share the observations of a candidate with itself, so their sizes are correlated:
                // many lists say no more about the mean than one does, and nothing about the variance.
                let independent = if function == ContextFunction::SelfSalted { 1.0 } else { n };
                let mean_error = (mean - vocabulary as f64 * gamma) / (expected / independent).sqrt();
                assert!(mean_error.abs() < 5.0, "{function:?} {gamma}: mean {mean}");
                if function != ContextFunction::SelfSalted {
                    assert!((variance / expected - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{gamma}: {variance}");
                }
            }
        }
    }

    #[test]
    fn a_context_decides_and_only_its_last_tokens_do() {
        let vocabulary = 4096;
        for function in CONTEXTS {
            let scheme = scheme(0.5, function, 4, vocabulary);
            let list = |context: &[TokenId]| {
                let mut green = TokenSet::new(vocabulary);
                scheme.green_list(context, &mut green);
                green
            };
            let base = list(&[1, 2, 3, 4]);
            assert_eq!(base, list(&[1, 2, 3, 4]));
            assert_ne!(base, list(&[5, 6, 7, 8]));
            if function != ContextFunction::All {
                assert_eq!(base, list(&[4, 3, 2, 1]), "the minimum does not see the order");
            } else {
                assert_ne!(base, list(&[4, 3, 2, 1]));
            }
        }
    }

    /// One edit disturbs `width` positions under `All`, and about one under `Min`.
    #[test]
    fn an_edit_hurts_the_minimum_least() {
        let changed = |function| {
            let scheme = scheme(0.5, function, 4, 50_000);
            let mut total = 0;
            for trial in 0..400u32 {
                let mut window: Vec<TokenId> = (0..9).map(|i| trial * 100 + i * 7).collect();
                let seeds = |w: &[TokenId]| (0..4).map(|i| scheme.seed(&w[i + 1..i + 5])).collect::<Vec<_>>();
                let before = seeds(&window);
                window[4] = trial * 100 + 77;
                total += seeds(&window).iter().zip(&before).filter(|(a, b)| a != b).count();
            }
            f64::from(total as u32) / 400.0
        };
        assert_eq!(changed(ContextFunction::All), 4.0);
        // The old or the new token is the minimum of 5 tokens with probability 2/5, at each of 4 positions.
        let min = changed(ContextFunction::Min);
        assert!((min - 1.6).abs() < 0.2, "{min}");
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let shown = format!("{:?}", scheme(0.5, ContextFunction::All, 1, 10));
        assert!(shown.contains("redacted") && !shown.contains("[5, 5"), "{shown}");
    }
}
