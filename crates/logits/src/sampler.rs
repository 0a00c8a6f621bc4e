//! Sampling of one token from a row.

use crate::blocks::BLOCK;
use crate::row::{total, weight};
use crate::{Row, TokenId};

/// The number of parts in which a row is summed.
const PARTS: usize = 64;

/// How a token is selected from the distribution of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// The most probable token; the lowest id wins a tie.
    Greedy,
    /// A sample from `softmax(row)`.
    Categorical,
}

impl Sampler {
    /// The token that the number `u` in `[0, 1)` selects, or `None` if the row allows no token or [is
    /// broken](Row::is_broken).
    ///
    /// A categorical sample inverts the cumulative distribution over ascending token ids, in `f64`, so it is monotone
    /// in `u` and each token has exactly its share of the unit interval.
    pub fn sample(self, row: &Row, u: f64) -> Option<TokenId> {
        let max = row.max()?;
        match self {
            Self::Greedy => row.logits().iter().position(|&z| z == max).map(|t| t as TokenId),
            Self::Categorical => {
                // Each weight is computed once, and again only in the part where the sample falls.
                let part = row.len().div_ceil(PARTS).next_multiple_of(BLOCK);
                let mut sums = [0.0; PARTS];
                for (sum, logits) in sums.iter_mut().zip(row.logits().chunks(part)) {
                    *sum = total(logits, max);
                }
                let mut left = u * sums.iter().sum::<f64>();
                // If rounding leaves the sample past the last part, it falls into that part.
                let last = sums.iter().rposition(|&sum| sum > 0.0)?;
                let number = sums[..last].iter().position(|&sum| {
                    let is_here = left < sum;
                    left -= if is_here { 0.0 } else { sum };
                    is_here
                });
                let number = number.unwrap_or(last);
                let logits = row.logits().chunks(part).nth(number)?;
                let mut chosen = None;
                for (token, &z) in logits.iter().enumerate() {
                    let w = weight(z, max);
                    if w > 0.0 {
                        chosen = Some((number * part + token) as TokenId);
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

    /// The distribution of [`Sampler::sample`] for a uniform `u`: one probability per token.
    pub fn distribution(self, row: &Row) -> Vec<f64> {
        let mut distribution = Vec::new();
        self.distribution_into(row, &mut distribution);
        distribution
    }

    /// As [`Sampler::distribution`], replacing the contents of `distribution`.
    pub fn distribution_into(self, row: &Row, distribution: &mut Vec<f64>) {
        match self {
            Self::Categorical => row.distribution_into(distribution),
            Self::Greedy => {
                distribution.clear();
                distribution.resize(row.len(), 0.0);
                if let Some(t) = self.sample(row, 0.0) {
                    distribution[t as usize] = 1.0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the unit interval that selects each token equals its probability: checked next to the points where
    /// the choice changes, so the test does not sample.
    #[test]
    fn each_token_has_exactly_its_share_of_the_unit_interval() {
        let row = Row::from(vec![0.3, f32::NEG_INFINITY, -1.0, 2.0, 0.3, f32::NEG_INFINITY]);
        let distribution = Sampler::Categorical.distribution(&row);
        let mut cumulative = 0.0;
        for (token, &p) in distribution.iter().enumerate().filter(|&(_, &p)| p > 0.0) {
            let inside = cumulative + p / 2.0;
            assert_eq!(Sampler::Categorical.sample(&row, inside), Some(token as u32));
            assert_eq!(Sampler::Categorical.sample(&row, cumulative + 1e-12), Some(token as u32));
            cumulative += p;
            assert_eq!(Sampler::Categorical.sample(&row, cumulative - 1e-12), Some(token as u32));
        }
        assert!((cumulative - 1.0).abs() < 1e-12);
        assert_eq!(Sampler::Categorical.sample(&row, 1.0 - f64::EPSILON / 2.0), Some(4));
    }

    /// Rows long enough to be summed in parts, some of which have no token.
    #[test]
    fn parts_change_no_draw() {
        for size in [64usize, 65, 4_096, 9_999, 20_000] {
            let is_allowed = |t: usize| t % 97 < 2 && (t / 1_000) % 3 != 1;
            let logit = |t: usize| if is_allowed(t) { (t % 7) as f32 - 3.0 } else { f32::NEG_INFINITY };
            let row = Row::from((0..size).map(logit).collect::<Vec<f32>>());
            let mut cumulative = 0.0;
            for (token, p) in row.distribution().into_iter().enumerate().filter(|(_, p)| *p > 0.0) {
                for inside in [1e-6, 0.5, 1.0 - 1e-6] {
                    let u = cumulative + inside * p;
                    assert_eq!(Sampler::Categorical.sample(&row, u), Some(token as u32), "{u} of {size}");
                }
                cumulative += p;
            }
            let last = (0..size).rev().find(|&t| is_allowed(t)).map(|t| t as u32);
            assert_eq!(Sampler::Categorical.sample(&row, 1.0 - f64::EPSILON / 2.0), last);
        }
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
