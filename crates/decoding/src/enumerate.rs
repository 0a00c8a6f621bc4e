//! The exact law of a decoder, by taking every branch of the code that runs.
//!
//! A [`Branch`] is a [`Chance`] that does not draw: each decision has one of its outcomes, and [`law`] runs the decoder
//! again until all have been taken. Those who write a [`Drafter`](crate::Drafter) can so prove that it leaves the law
//! of texts as it is: on a model of a few tokens, for texts of a few tokens, with total variation below 1e-12.

use std::collections::BTreeMap;

use verdigris_logits::{Row, Sampler, TokenId};

use crate::chance::Chance;

/// One run along a given path of choices; past its end the first possible choice is taken.
#[derive(Debug)]
pub struct Branch {
    /// For each decision so far: which of its possible outcomes was taken, and of how many.
    path: Vec<(usize, usize)>,
    at: usize,
    probability: f64,
}

impl Branch {
    /// Takes the next outcome of the path among those of positive probability.
    fn choose(&mut self, law: &[f64]) -> usize {
        let possible: Vec<usize> = (0..law.len()).filter(|&i| law[i] > 0.0).collect();
        if self.at == self.path.len() {
            self.path.push((0, possible.len()));
        }
        let (taken, of) = self.path[self.at];
        assert_eq!(of, possible.len(), "the same path must meet the same decisions");
        self.at += 1;
        self.probability *= law[possible[taken]];
        possible[taken]
    }
}

impl Chance for &mut Branch {
    fn token(&mut self, sampler: Sampler, row: &Row, _: usize) -> Option<TokenId> {
        let law = sampler.distribution(row);
        law.iter().any(|&p| p > 0.0).then(|| self.choose(&law) as TokenId)
    }
    fn draft(&mut self, law: &[f64], _: usize, _: usize) -> TokenId {
        self.choose(law) as TokenId
    }
    fn accept(&mut self, probability: f64, _: usize, _: usize) -> bool {
        self.choose(&[1.0 - probability, probability]) == 1
    }
    fn residual(&mut self, law: &[f64], _: usize) -> TokenId {
        self.choose(law) as TokenId
    }
}

/// The probability of each text that `run` can write, whose random decisions all go through the branch.
///
/// # Panics
/// If a run does not meet the decisions of the run before it, up to the one that is taken otherwise.
pub fn law(run: impl Fn(&mut Branch) -> Vec<TokenId>) -> BTreeMap<Vec<TokenId>, f64> {
    let mut law = BTreeMap::new();
    let mut path = Vec::new();
    loop {
        let mut branch = Branch { path, at: 0, probability: 1.0 };
        let text = run(&mut branch);
        *law.entry(text).or_insert(0.0) += branch.probability;
        path = branch.path;
        // The next path: the last decision that has an outcome left takes it.
        while let Some((taken, of)) = path.pop() {
            if taken + 1 < of {
                path.push((taken + 1, of));
                break;
            }
        }
        if path.is_empty() {
            return law;
        }
    }
}
