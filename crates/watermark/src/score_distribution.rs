//! The distribution of a score in text that is independent of the key.

use std::sync::Arc;

use crate::real::{exp, ln, ln_1p};
use crate::statistics::saddlepoint::{self, Cumulants, Support};
use crate::statistics::{bernoulli, binomial, convolution, gamma, hypergeometric};

/// The distribution of one observation's score under the null hypothesis. Scores of different observations are
/// independent.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreDistribution {
    /// 1 for a green token, which has probability `gamma`; else 0.
    Green {
        /// The green share.
        gamma: f64,
    },
    /// Like `Green`, with one list for the whole text: no token is drawn twice.
    OneList {
        /// The size of the vocabulary.
        population: u64,
        /// The number of green tokens.
        green: u64,
    },
    /// `-ln(1 - u)` for a uniform `u`: Exp(1).
    Exponential,
    /// `(1 - share) a + share b` for independent Exp(1) scores `a` and `b` of two keys.
    TwoKeys {
        /// The weight of the second key, between 0 and 1/2.
        share: f64,
    },
    /// Integers with known probabilities.
    Integer(Arc<Integer>),
    /// The logarithm of a likelihood ratio against a distribution of marked text: its exponential has mean one.
    LikelihoodRatio {
        /// The largest possible score.
        largest: f64,
    },
}

/// A distribution on the integers `0, 1, .., n`.
#[derive(Debug, PartialEq)]
pub struct Integer {
    /// The probability of each number.
    probabilities: Vec<f64>,
    /// The displayed value of a score of 1.
    pub(crate) unit: f64,
}

impl Integer {
    /// The distribution with these probabilities, which sum to one. A score of 1 is displayed as `unit`.
    pub fn new(mut probabilities: Vec<f64>, unit: f64) -> Self {
        // The last probability must be that of the largest possible score, from which the least p-value follows.
        let end = probabilities.iter().rposition(|&p| p > 0.0).map_or(1, |last| last + 1);
        probabilities.truncate(end);
        Self { probabilities, unit }
    }
}

impl ScoreDistribution {
    /// The expected score of an observation.
    pub fn mean(&self) -> f64 {
        self.cumulants(0.0)[1]
    }

    /// The distribution of an observation where the same one may be drawn twice, for when every position of a text
    /// counts.
    #[must_use]
    pub fn with_replacement(self) -> Self {
        match self {
            Self::OneList { population, green } => Self::Green { gamma: green as f64 / population as f64 },
            distribution => distribution,
        }
    }

    /// Whether scores are colours: 1 for green, 0 for red.
    pub fn is_of_colours(&self) -> bool {
        matches!(self, Self::Green { .. } | Self::OneList { .. })
    }

    /// The score of `n` observations in standard deviations from its mean; 0 for no observations, and NaN where the
    /// distribution has no known deviation.
    pub fn z_score(&self, n: u64, sum: f64) -> f64 {
        if n == 0 {
            return 0.0;
        }
        let [_, mean, mut variance] = self.cumulants(0.0);
        let n = n as f64;
        if let Self::OneList { population, .. } = *self {
            variance *= ((population as f64 - n) / (population as f64 - 1.0)).max(0.0);
        }
        if variance == 0.0 { 0.0 } else { (sum - n * mean) / (n * variance).sqrt() }
    }

    /// The cumulant generating function `ln E[e^(t score)]` of one observation and two derivatives. For `OneList` they
    /// are those with replacement, which bound the ones without (Hoeffding 1963, theorem 4).
    pub fn cumulants(&self, t: f64) -> Cumulants {
        let exponential = |t: f64| [-ln_1p(-t), 1.0 / (1.0 - t), 1.0 / ((1.0 - t) * (1.0 - t))];
        match *self {
            Self::Green { gamma } => bernoulli::cumulants(gamma, t),
            Self::OneList { population, green } => bernoulli::cumulants(green as f64 / population as f64, t),
            Self::Exponential => exponential(t),
            Self::TwoKeys { share } => {
                let (a, b) = (exponential((1.0 - share) * t), exponential(share * t));
                let powers = |w: f64| [1.0, w, w * w];
                let (first, second) = (powers(1.0 - share), powers(share));
                [0, 1, 2].map(|i| a[i] * first[i] + b[i] * second[i])
            }
            // Unknown, except that for a ratio `K(1) = 0`, and `K <= 0` before since it is convex.
            Self::LikelihoodRatio { .. } => [0.0, f64::NAN, f64::NAN],
            Self::Integer(ref distribution) => {
                // Relative to the end that the tilt favours, so that nothing overflows, with one multiplication per
                // step.
                let last = distribution.probabilities.len() - 1;
                let largest = if t > 0.0 { last as f64 } else { 0.0 };
                let (factor, mut power) = (exp(-t.abs()), 1.0);
                let [mut mass, mut first, mut second] = [0.0; 3];
                for i in 0..=last {
                    let x = if t > 0.0 { last - i } else { i };
                    let weight = distribution.probabilities[x] * power;
                    let x = x as f64;
                    mass += weight;
                    first += weight * x;
                    second += weight * x * x;
                    power *= factor;
                }
                let mean = first / mass;
                [ln(mass) + t * largest, mean, second / mass - mean * mean]
            }
        }
    }

    /// The `t` with `K'(t) = mean`: how much a mark under which scores have that mean favours them, in the exponential
    /// family of the distribution. For colours the mean is capped below 1, where `t` is infinite.
    pub fn tilt(&self, mean: f64) -> f64 {
        match *self {
            Self::LikelihoodRatio { .. } => 1.0,
            Self::Green { .. } | Self::OneList { .. } => {
                let share = self.mean();
                let mean = mean.min(share + 0.98 * (1.0 - share));
                ln(mean / (1.0 - mean) * (1.0 - share) / share)
            }
            _ => saddlepoint::solve(&|t| self.cumulants(t), self.end(), mean),
        }
    }

    /// The smallest `t` at which the cumulants are infinite.
    pub fn end(&self) -> f64 {
        match *self {
            Self::Exponential => 1.0,
            Self::TwoKeys { share } => 1.0 / share.max(1.0 - share),
            Self::LikelihoodRatio { .. } => 1.0,
            _ => f64::INFINITY,
        }
    }

    /// `ln P(sum >= s)` over `n` observations. Exact for colours, exponential scores and short sums of integers; two
    /// keys and long sums use the saddle point, whose relative error is below 2 % (see the tests).
    pub fn ln_tail(&self, n: u64, s: f64) -> f64 {
        if n == 0 {
            return 0.0;
        }
        let sum = |t: f64| self.cumulants(t).map(|c| c * n as f64);
        match *self {
            Self::Green { gamma } => binomial::ln_tail(n, s.max(0.0).ceil() as u64, gamma),
            // Tokens outside the vocabulary are observations too.
            Self::OneList { population, green } if n > population => {
                binomial::ln_tail(n, s.max(0.0).ceil() as u64, green as f64 / population as f64)
            }
            Self::OneList { population, green } => {
                hypergeometric::ln_tail(population, green, n, s.max(0.0).ceil() as u64)
            }
            Self::Exponential => gamma::ln_tail(n, s),
            // Markov's inequality on the product of the ratios.
            Self::LikelihoodRatio { .. } => -s.max(0.0),
            Self::TwoKeys { .. } if s <= 0.0 => 0.0,
            Self::TwoKeys { .. } => saddlepoint::ln_tail(sum, self.end(), Support::Real, s),
            Self::Integer(ref distribution) => {
                let largest = (distribution.probabilities.len() - 1) as f64 * n as f64;
                if s <= 0.0 {
                    0.0
                } else if s >= largest {
                    n as f64 * ln(distribution.probabilities[distribution.probabilities.len() - 1])
                } else if convolution::is_short(distribution.probabilities.len(), n) {
                    let tilt = saddlepoint::solve(&sum, self.end(), s);
                    convolution::ln_tail(&distribution.probabilities, n as usize, tilt, s.ceil() as usize)
                } else {
                    saddlepoint::ln_tail(sum, self.end(), Support::Integer, s)
                }
            }
        }
    }

    /// The least `ln p` that `n` observations can have.
    pub fn ln_least(&self, n: u64) -> f64 {
        if n == 0 {
            return 0.0;
        }
        match *self {
            Self::Green { gamma } => n as f64 * ln(gamma),
            Self::OneList { population, green } => {
                hypergeometric::ln_tail(population, green, n.min(population), n.min(green))
            }
            Self::Integer(ref distribution) => {
                n as f64 * ln(distribution.probabilities[distribution.probabilities.len() - 1])
            }
            Self::LikelihoodRatio { largest } => -(n as f64 * largest.max(0.0)),
            // A uniform number has at least 24 bits.
            Self::Exponential | Self::TwoKeys { .. } => n as f64 * -24.0 * std::f64::consts::LN_2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `n`-fold convolution of a distribution on integers.
    fn convolved(distribution: &[f64], n: usize) -> Vec<f64> {
        (0..n).fold(vec![1.0], |sum, _| {
            let mut out = vec![0.0; sum.len() + distribution.len() - 1];
            for (i, a) in sum.iter().enumerate() {
                for (j, b) in distribution.iter().enumerate() {
                    out[i + j] += a * b;
                }
            }
            out
        })
    }

    #[test]
    fn integer_distributions_are_exact_and_the_saddle_point_is_near() {
        let bits: Vec<f64> = (0..=30).map(|k| binomial::ln_point(30, k, 0.5).exp()).collect();
        let skewed = vec![0.5, 0.0, 0.1, 0.05, 0.3, 0.0, 0.0, 0.05];
        for probabilities in [bits, skewed] {
            for n in [2usize, 10, 60] {
                let exact = convolved(&probabilities, n);
                let distribution = ScoreDistribution::Integer(Arc::new(Integer::new(probabilities.clone(), 1.0)));
                let mut tail = 0.0;
                for s in (1..exact.len()).rev() {
                    tail += exact[s];
                    let interior = s > 1 && s + 1 < exact.len();
                    if interior && tail > 1e-290 && tail < 0.999 {
                        let got = distribution.ln_tail(n as u64, s as f64);
                        assert!((got - tail.ln()).abs() < 1e-9, "{n} {s}: {got} {}", tail.ln());
                        let sum = |t: f64| distribution.cumulants(t).map(|c| c * n as f64);
                        let near = saddlepoint::ln_tail(sum, f64::INFINITY, Support::Integer, s as f64);
                        if n == 60 && tail > 1e-14 {
                            assert!((near - tail.ln()).abs() < 0.02, "{n} {s}: {near} {}", tail.ln());
                        }
                    }
                }
            }
        }
    }

    /// The sum over two keys by numerical convolution of two gamma distributions.
    #[test]
    fn two_keys_equal_a_numerical_convolution() {
        for share in [0.1, 0.2, 0.5] {
            for n in [1u64, 5, 20, 200] {
                for z in [-1.0, 1.0, 3.0, 6.0] {
                    let distribution = ScoreDistribution::TwoKeys { share };
                    let [_, mean, variance] = distribution.cumulants(0.0);
                    let s = n as f64 * mean + z * (n as f64 * variance).sqrt();
                    if s <= 0.0 {
                        continue;
                    }
                    // P = integral over b of density(b) P(a >= (s - share b) / (1 - share)).
                    let (steps, nf) = (400_000, n as f64);
                    let end = nf + 60.0 * nf.sqrt() + 60.0;
                    let width = end / f64::from(steps);
                    let ln_norm = statrs::function::gamma::ln_gamma(nf);
                    let tail: f64 = (0..steps)
                        .map(|i| {
                            let b = (f64::from(i) + 0.5) * width;
                            let density = ((nf - 1.0) * b.ln() - b - ln_norm).exp();
                            density * gamma::ln_tail(n, (s - share * b) / (1.0 - share)).exp() * width
                        })
                        .sum();
                    let got = distribution.ln_tail(n, s);
                    assert!((got - tail.ln()).abs() < 0.02, "{share} {n} {z}: {got} {}", tail.ln());
                }
            }
        }
    }

    /// No text can have less than the least `ln p`, and one with the largest scores only has it.
    #[test]
    fn the_least_is_that_of_the_largest_scores() {
        let distributions = [
            (ScoreDistribution::Green { gamma: 0.25 }, 1.0),
            (ScoreDistribution::OneList { population: 100, green: 40 }, 1.0),
            (ScoreDistribution::Integer(Arc::new(Integer::new(vec![0.5, 0.0, 0.3, 0.2, 0.0, 0.0], 1.0))), 3.0),
            (ScoreDistribution::LikelihoodRatio { largest: 0.25 }, 0.25),
        ];
        for (distribution, largest) in distributions {
            assert_eq!(distribution.ln_least(0), 0.0, "{distribution:?}");
            for n in [1, 2, 30] {
                let (least, tail) = (distribution.ln_least(n), distribution.ln_tail(n, largest * n as f64));
                assert!(least.is_finite() && (least - tail).abs() < 1e-9, "{distribution:?} {n}: {least} {tail}");
            }
        }
    }

    #[test]
    fn cumulants_are_derivatives() {
        let integer = ScoreDistribution::Integer(Arc::new(Integer::new(vec![0.2, 0.3, 0.1, 0.4], 1.0)));
        let distributions = [
            ScoreDistribution::Green { gamma: 0.3 },
            ScoreDistribution::Exponential,
            ScoreDistribution::TwoKeys { share: 0.1 },
            integer,
        ];
        for distribution in distributions {
            for t in [-2.0, -0.3, 0.0, 0.4, 0.8] {
                let h = 1e-5;
                let [low, at, high] = [t - h, t, t + h].map(|t| distribution.cumulants(t));
                assert!(((high[0] - low[0]) / (2.0 * h) - at[1]).abs() < 1e-5, "{distribution:?} {t}");
                assert!(((high[1] - low[1]) / (2.0 * h) - at[2]).abs() < 1e-4, "{distribution:?} {t}");
            }
        }
    }
}
