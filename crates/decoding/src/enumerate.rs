//! The exact distribution of a decoder, by taking every branch of the code that runs.
//!
//! A [`Branch`] is a [`Chance`] that chooses outcomes systematically instead of at random, and [`distribution`] runs
//! the decoder again until all outcomes have been taken. Authors of a [`Drafter`](crate::Drafter) can prove with it
//! that the drafter leaves the distribution of texts unchanged: on a model of a few tokens, for texts of a few tokens,
//! with a total variation below 1e-12.

use std::collections::BTreeMap;

use verdigris_logits::{Row, Sampler, TokenId};

use crate::chance::Chance;

/// One run along a given path of choices. Past the end of the path the first possible outcome is taken.
#[derive(Debug)]
pub struct Branch {
    /// For each decision so far, the index of the outcome taken and the number of possible outcomes.
    path: Vec<(usize, usize)>,
    at: usize,
    probability: f64,
}

impl Branch {
    /// Takes the next outcome of the path among those of positive probability.
    fn choose(&mut self, distribution: &[f64]) -> usize {
        let possible: Vec<usize> = (0..distribution.len()).filter(|&i| distribution[i] > 0.0).collect();
        if self.at == self.path.len() {
            self.path.push((0, possible.len()));
        }
        let (taken, of) = self.path[self.at];
        assert_eq!(of, possible.len(), "the same path must meet the same decisions");
        self.at += 1;
        self.probability *= distribution[possible[taken]];
        possible[taken]
    }
}

impl Chance for &mut Branch {
    fn token(&mut self, sampler: Sampler, row: &Row, _: usize) -> Option<TokenId> {
        let distribution = sampler.distribution(row);
        distribution.iter().any(|&p| p > 0.0).then(|| self.choose(&distribution) as TokenId)
    }
    fn draft(&mut self, distribution: &[f64], _: usize, _: usize) -> TokenId {
        self.choose(distribution) as TokenId
    }
    fn accept(&mut self, probability: f64, _: usize, _: usize) -> bool {
        self.choose(&[1.0 - probability, probability]) == 1
    }
    fn residual(&mut self, distribution: &[f64], _: usize) -> TokenId {
        self.choose(distribution) as TokenId
    }
}

/// Returns the probability of each text that `run` can write. All its random decisions must go through the branch.
///
/// # Panics
/// If a run meets different decisions than the run before it, up to the one that takes another outcome.
pub fn distribution(run: impl Fn(&mut Branch) -> Vec<TokenId>) -> BTreeMap<Vec<TokenId>, f64> {
    let mut distribution = BTreeMap::new();
    let mut path = Vec::new();
    loop {
        let mut branch = Branch { path, at: 0, probability: 1.0 };
        let text = run(&mut branch);
        *distribution.entry(text).or_insert(0.0) += branch.probability;
        path = branch.path;
        // The next path: the last decision with an untried outcome takes that outcome.
        while let Some((taken, of)) = path.pop() {
            if taken + 1 < of {
                path.push((taken + 1, of));
                break;
            }
        }
        if path.is_empty() {
            return distribution;
        }
    }
}
