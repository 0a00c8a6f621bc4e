//! The end of the law: one token out of a row.

use crate::row::weight;
use crate::{Row, TokenId};

/// How a token is taken from the law of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// The most probable token; the lowest id wins a tie.
    Greedy,
    /// A draw from `softmax(row)`.
    Categorical,
}

impl Sampler {
    /// The token that the number `u` in `[0, 1)` picks, or `None` where the row allows no token or [is
    /// broken](Row::is_broken).
    ///
    /// A categorical draw inverts the distribution function over ascending token ids, in `f64`, so it is
    /// monotone in `u` and each token has exactly its own share of the unit interval.
    pub fn sample(self, row: &Row, u: f64) -> Option<TokenId> {
        let max = row.max()?;
        match self {
            Self::Greedy => row.logits().iter().position(|&z| z == max).map(|t| t as TokenId),
            Self::Categorical => {
                let total: f64 = row.logits().iter().map(|&z| weight(z, max)).sum();
                let mut left = u * total;
                let mut chosen = None;
                for (token, &z) in row.logits().iter().enumerate() {
                    let w = weight(z, max);
                    if w > 0.0 {
                        chosen = Some(token as TokenId);
                        left -= w;
                        if left < 0.0 {
                            break;
                        }
                    }
                }
                chosen
            }
        }
    }

    /// The law of [`Sampler::sample`] for a uniform `u`: one probability a token.
    pub fn distribution(self, row: &Row) -> Vec<f64> {
        let mut law = Vec::new();
        self.distribution_into(row, &mut law);
        law
    }

    /// As [`Sampler::distribution`], in the place of what `law` holds.
    pub fn distribution_into(self, row: &Row, law: &mut Vec<f64>) {
        match self {
            Self::Categorical => row.distribution_into(law),
            Self::Greedy => {
                law.clear();
                law.resize(row.len(), 0.0);
                if let Some(t) = self.sample(row, 0.0) {
                    law[t as usize] = 1.0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the unit interval that picks each token equals its probability: found by bisection of
    /// the points where the choice changes, so the test does not sample.
    #[test]
    fn each_token_has_exactly_its_share_of_the_unit_interval() {
        let row = Row::from(vec![0.3, f32::NEG_INFINITY, -1.0, 2.0, 0.3, f32::NEG_INFINITY]);
        let law = Sampler::Categorical.distribution(&row);
        let mut cumulative = 0.0;
        for (token, &p) in law.iter().enumerate().filter(|&(_, &p)| p > 0.0) {
            let inside = cumulative + p / 2.0;
            assert_eq!(Sampler::Categorical.sample(&row, inside), Some(token as u32));
            assert_eq!(Sampler::Categorical.sample(&row, cumulative + 1e-12), Some(token as u32));
            cumulative += p;
            assert_eq!(Sampler::Categorical.sample(&row, cumulative - 1e-12), Some(token as u32));
        }
        assert!((cumulative - 1.0).abs() < 1e-12);
        assert_eq!(Sampler::Categorical.sample(&row, 1.0 - f64::EPSILON / 2.0), Some(4));
    }

    #[test]
    fn greedy_takes_the_lowest_of_equals() {
        let row = Row::from(vec![1.0, 3.0, 3.0]);
        assert_eq!(Sampler::Greedy.sample(&row, 0.9), Some(1));
        assert_eq!(Sampler::Greedy.distribution(&row), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn an_impossible_row_gives_no_token() {
        let row = Row::from(vec![f32::NEG_INFINITY; 3]);
        assert_eq!(Sampler::Greedy.sample(&row, 0.0), None);
        assert_eq!(Sampler::Categorical.sample(&row, 0.0), None);
    }
}
