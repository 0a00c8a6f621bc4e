//! The source of randomness: every random decision of decoding goes through [`Chance`].
//!
//! Programs use [`Seeded`]. Tests substitute an enumerator that takes every branch with its probability, and so
//! computes the exact distribution of the code that runs.

use verdigris_logits::{Purpose, Random, Row, Sampler, TokenId};

use crate::distribution;

/// The random decisions of decoding. A position is the number of tokens before the one decided, prompt included.
pub trait Chance {
    /// Samples a token from the distribution of a row, or returns `None` if the row allows no token.
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId>;

    /// The number in [0, 1) by which [`Chance::token`] picks, if there is one: for models that sample on the device.
    fn number(&self, _position: usize) -> Option<f64> {
        None
    }

    /// Samples a draft token from a distribution that sums to one. `index` distinguishes the drafts of one position:
    /// several in one tree, and those of a later call after an earlier draft was rejected.
    fn draft(&mut self, distribution: &[f64], position: usize, index: usize) -> TokenId;

    /// Whether an event of this probability happens. `index` distinguishes the events of one position.
    fn accept(&mut self, probability: f64, position: usize, index: usize) -> bool;

    /// Samples the token that replaces a rejected draft, from a distribution that sums to one.
    fn residual(&mut self, distribution: &[f64], position: usize) -> TokenId;
}

/// Randomness from a seed: each decision has its own number, whatever was decided before it, and no number is used
/// twice.
#[derive(Clone, Copy, Debug)]
pub struct Seeded(pub Random);

impl Chance for Seeded {
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId> {
        sampler.sample(row, self.0.uniform(position as u64, Purpose::Token))
    }

    fn number(&self, position: usize) -> Option<f64> {
        Some(self.0.uniform(position as u64, Purpose::Token))
    }

    fn draft(&mut self, distribution: &[f64], position: usize, index: usize) -> TokenId {
        invert(distribution, self.0.uniform_of(position as u64, Purpose::Draft, index as u32))
    }

    fn accept(&mut self, probability: f64, position: usize, index: usize) -> bool {
        self.0.uniform_of(position as u64, Purpose::Accept, index as u32) < probability
    }

    fn residual(&mut self, distribution: &[f64], position: usize) -> TokenId {
        invert(distribution, self.0.uniform(position as u64, Purpose::Residual))
    }
}

/// Inverts the cumulative distribution function over ascending ids.
fn invert(distribution: &[f64], u: f64) -> TokenId {
    let mut left = u;
    let mut chosen = 0;
    for (token, p) in distribution::tokens(distribution) {
        if p > 0.0 {
            chosen = token;
            left -= p;
            if left < 0.0 {
                break;
            }
        }
    }
    chosen as TokenId
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the number that decides an event: `below` is `true` for the bounds above it.
    fn number(below: impl Fn(f64) -> bool) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..80 {
            let middle = (low + high) / 2.0;
            if below(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// A distribution over two tokens in which the first has this probability.
    fn coin(p: f64) -> [f64; 2] {
        [p, 1.0 - p]
    }

    /// The numbers of all kinds of decisions at many positions are uniform, and no two are equal.
    #[test]
    fn every_decision_has_a_number_of_its_own() {
        const POSITIONS: usize = 2000;
        let chance = || Seeded(Random::new(5));
        let accept = |at: usize, index: usize| number(|p| chance().accept(p, at, index));
        let residual = |at: usize| number(|p| chance().residual(&coin(p), at) == 0);
        let draft = |at: usize, index: usize| number(|p| chance().draft(&coin(p), at, index) == 0);
        let mut kinds = vec![("token", (0..POSITIONS).map(|at| chance().number(at).unwrap()).collect::<Vec<f64>>())];
        kinds.push(("residual", (0..POSITIONS).map(residual).collect()));
        for index in 0..4 {
            kinds.push(("draft", (0..POSITIONS).map(|at| draft(at, index)).collect()));
            kinds.push(("accept", (0..POSITIONS).map(|at| accept(at, index)).collect()));
        }
        let mut all: Vec<f64> = kinds.iter().flat_map(|(_, numbers)| numbers).copied().collect();
        all.sort_unstable_by(f64::total_cmp);
        // Numbers of 53 bits collide by chance with a probability of 1e-8.
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] > 1e-15), "a number is used twice");
        for (kind, numbers) in kinds {
            let mut cells = [0.0; 200];
            numbers.iter().for_each(|number| cells[(number * 200.0) as usize] += 1.0);
            // Mean 199, standard deviation 20. An empty cell costs only 10, so the first and the last are checked
            // separately.
            let chi2: f64 = cells.iter().map(|count: &f64| (count - 10.0).powi(2) / 10.0).sum();
            assert!(chi2 < 300.0 && cells[0] > 0.0 && cells[199] > 0.0, "{kind}: {chi2}");
        }
    }

    #[test]
    fn a_token_is_picked_by_its_number() {
        let distribution = [0.1f64, 0.0, 0.25, 0.4, 0.0, 0.25];
        let row = Row::from(distribution.map(|p| p.ln() as f32).to_vec());
        for at in 0..500 {
            let mut chance = Seeded(Random::new(6));
            let expected = Sampler::Categorical.sample(&row, chance.number(at).unwrap());
            assert_eq!(chance.token(Sampler::Categorical, &row, at), expected);
        }
    }

    #[test]
    fn each_token_has_exactly_its_share_of_the_unit_interval() {
        let distribution = [0.1f64, 0.0, 0.25, 0.4, 0.0, 0.25];
        let mut cumulative = 0.0;
        for (token, p) in (0..).zip(distribution).filter(|&(_, p)| p > 0.0) {
            for inside in [1e-12, p / 2.0, p - 1e-12] {
                assert_eq!(invert(&distribution, cumulative + inside), token);
            }
            cumulative += p;
        }
        assert_eq!(invert(&distribution, 1.0 - f64::EPSILON / 2.0), 5);
        assert_eq!(
            invert(&[0.5, 0.5 - 1e-12, 0.0], 1.0 - f64::EPSILON / 2.0),
            1,
            "what rounding leaves is the last token's"
        );
    }
}
