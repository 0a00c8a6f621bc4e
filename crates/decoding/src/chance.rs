//! Where decoding meets chance: every random decision goes through here.
//!
//! A program draws from [`Seeded`]. A test puts an enumerator in its place that takes every branch with its
//! probability, and so computes the exact law of the very code that runs.

use verdigris_logits::{Purpose, Random, Row, Sampler, TokenId};

/// The random decisions of decoding. Positions count the tokens before the one decided, prompt included.
pub trait Chance {
    /// A token from the law of a row, or `None` where the row allows none.
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId>;

    /// The number in [0, 1) by which [`Chance::token`] picks, where there is one: for those who draw elsewhere.
    fn number(&self, _position: usize) -> Option<f64> {
        None
    }

    /// A draft from a law that sums to one.
    fn draft(&mut self, law: &[f64], position: usize) -> TokenId;

    /// Whether an event of this probability happens.
    fn accept(&mut self, probability: f64, position: usize) -> bool;

    /// The token that replaces a rejected draft, from a law that sums to one.
    fn residual(&mut self, law: &[f64], position: usize) -> TokenId;
}

/// Chance out of a seed: each decision has its own number, whatever was decided before it.
#[derive(Clone, Copy, Debug)]
pub struct Seeded(pub Random);

impl Chance for Seeded {
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId> {
        sampler.sample(row, self.0.uniform(position as u64, Purpose::Token))
    }

    fn number(&self, position: usize) -> Option<f64> {
        Some(self.0.uniform(position as u64, Purpose::Token))
    }

    fn draft(&mut self, law: &[f64], position: usize) -> TokenId {
        invert(law, self.0.uniform(position as u64, Purpose::Draft))
    }

    fn accept(&mut self, probability: f64, position: usize) -> bool {
        self.0.uniform(position as u64, Purpose::Accept) < probability
    }

    fn residual(&mut self, law: &[f64], position: usize) -> TokenId {
        invert(law, self.0.uniform(position as u64, Purpose::Residual))
    }
}

/// Inverts the distribution function of a law over rising ids.
fn invert(law: &[f64], u: f64) -> TokenId {
    let mut left = u;
    let mut chosen = 0;
    for (token, &p) in law.iter().enumerate() {
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
