//! Lists permuted as by torch's CPU generator: the first `int(V * gamma)` entries of `randperm(V)`.

use std::cell::RefCell;
use std::collections::HashMap;

use verdigris_kernels::permutation::among_first;
use verdigris_logits::{TokenId, TokenSet};

use super::seeded::List;
use crate::random::mt19937::randperm;
use crate::score_distribution::ScoreDistribution;

/// The largest vocabulary for which torch generates 32-bit numbers.
const MAX_VOCABULARY: usize = 214_748_363;

/// A share or a vocabulary that cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSplit {
    /// The share is not strictly between 0 and 1.
    #[error("gamma is {0}, but must be above 0 and below 1")]
    Gamma(f64),
    /// The vocabulary is empty or too large.
    #[error("a vocabulary of {0} tokens cannot be split: 1 to {MAX_VOCABULARY} can")]
    Vocabulary(usize),
    /// A share so small that no token is green, or so large that all are.
    #[error("gamma {gamma} leaves one colour without tokens in a vocabulary of {vocabulary}")]
    OneColour {
        /// The share.
        gamma: f64,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
}

/// Working space of one thread.
#[derive(Default)]
struct PermutationScratch {
    indices: HashMap<(u32, TokenId), usize>,
    different: Vec<(u32, TokenId)>,
    answers: Vec<bool>,
}

thread_local!(static SCRATCH: RefCell<PermutationScratch> = RefCell::default());

/// The green entries at the start of a permutation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    vocabulary: usize,
    green: usize,
}

impl Permutation {
    /// A permutation with `int(vocabulary * gamma)` green tokens, rounded down as in Python.
    pub(crate) fn new(gamma: f64, vocabulary: usize) -> Result<Self, BadSplit> {
        if !(gamma > 0.0 && gamma < 1.0) {
            return Err(BadSplit::Gamma(gamma));
        }
        if !(1..=MAX_VOCABULARY).contains(&vocabulary) {
            return Err(BadSplit::Vocabulary(vocabulary));
        }
        let green = (vocabulary as f64 * gamma) as usize;
        if green == 0 || green == vocabulary {
            return Err(BadSplit::OneColour { gamma, vocabulary });
        }
        Ok(Self { vocabulary, green })
    }
}

impl List for Permutation {
    fn distribution(&self) -> ScoreDistribution {
        // The exact share, which rounding makes slightly smaller than `gamma`.
        ScoreDistribution::Green { gamma: self.green as f64 / self.vocabulary as f64 }
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    fn fill(&self, seed: u64, green: &mut TokenSet) {
        thread_local!(static ARRAY: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
        green.fill_words(|words| {
            words.fill(0);
            ARRAY.with_borrow_mut(|array| {
                randperm(self.vocabulary, self.green, seed as u32, array, |token| {
                    words[token as usize / 64] |= 1 << (token % 64);
                });
            });
        });
    }

    /// Answers equal questions once, and the others sixteen at a time.
    fn judge(&self, questions: &[(u64, TokenId)], green: &mut Vec<bool>) {
        SCRATCH.with_borrow_mut(|PermutationScratch { indices, different, answers }| {
            indices.clear();
            different.clear();
            for &(seed, token) in questions {
                let question = (seed as u32, token);
                indices.entry(question).or_insert_with(|| {
                    different.push(question);
                    different.len() - 1
                });
            }
            answers.clear();
            answers.resize(different.len(), false);
            among_first(self.vocabulary as u32, self.green as u32, different, answers);
            green.clear();
            green.extend(questions.iter().map(|&(seed, token)| answers[indices[&(seed as u32, token)]]));
        });
    }
}
