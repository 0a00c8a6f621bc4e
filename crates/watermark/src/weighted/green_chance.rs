//! The mean probability, over colourings, of a green token in a marked distribution.

use super::bias::Bias;
use crate::real::{exp, ln};

/// The number of most likely tokens whose colours are taken exactly.
pub(super) const EXACT: usize = 64;

/// The step of the integral in `ln t`, and its bounds. It converges exponentially: the integrand is analytic and
/// bounded where `ln t` has an imaginary part below pi / 2.
const STEP: f64 = 1.0 / 3.0;
const FIRST: f64 = -14.0;
const LAST: f64 = 3.5;

/// The probability that a token sampled from a marked distribution is green, on average over colourings in which each
/// token is green with probability `gamma`. A lower bound where more than `exact` tokens are possible.
///
/// With `a = e^delta`, a colouring scales the token `j` by a factor `c_j`, which is `a` for a green one and 1 for a red
/// one, and the sum `X` of all `c_j p_j` becomes the new norm. The red share is `(a / X - 1) / (a - 1)`, and the mean
/// of `1 / X` is an integral over independent factors:
///
/// ```text
/// E[1 / X] = integral over t > 0 of the product over j of f(t p_j),   f(s) = gamma e^(-a s) + (1 - gamma) e^(-s)
/// ```
///
/// `ln f` is convex with `f(0) = 1`, so `f(t p) <= f(t q)^(p / q)` for any `p <= q`: the tokens after the `exact` most
/// likely are bounded by replacing them with tokens that all have the probability of the first of them. That makes
/// `1 / X` larger, and so the green share smaller.
pub(super) fn green_chance(distribution: &[f64], bias: Bias, exact: usize) -> f64 {
    let Bias { gamma, delta } = bias;
    // A mark without effect would divide by zero below.
    if delta < 1e-3 {
        return gamma;
    }
    // A larger bias makes no difference to floating-point numbers.
    let gain = exp(delta.min(700.0));
    let mut likeliest: Vec<f64> = distribution.iter().copied().filter(|&p| p > 0.0).collect();
    let mut rest = (0.0, 0.0);
    if likeliest.len() > exact {
        likeliest.select_nth_unstable_by(exact, |a, b| b.total_cmp(a));
        rest = (likeliest[exact], likeliest[exact..].iter().sum());
        likeliest.truncate(exact);
    }
    let factor = |s: f64| gamma * exp(-gain * s) + (1.0 - gamma) * exp(-s);
    let integrand = |t: f64| {
        let exactly: f64 = likeliest.iter().map(|&p| factor(t * p)).product();
        match rest {
            (q, sum) if q > 0.0 => exactly * exp(sum / q * ln(factor(t * q))),
            _ => exactly,
        }
    };
    let nodes = ((LAST - FIRST) / STEP) as u32;
    let inner: f64 = (0..=nodes)
        .map(|node| {
            let t = exp(FIRST + STEP * f64::from(node));
            STEP * t * integrand(t)
        })
        .sum();
    // The nodes before the first one, where the integrand is at most 1.
    let before = STEP * exp(FIRST) / (exp(STEP) - 1.0);
    let mean_inverse = inner + before;
    ((1.0 - mean_inverse) / (1.0 - 1.0 / gain)).clamp(gamma, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by enumeration of all colourings.
    fn enumerated(distribution: &[f64], Bias { gamma, delta }: Bias) -> f64 {
        let (mut mean, n) = (0.0, distribution.len() as i32);
        for colouring in 0..1u32 << n {
            let share = |wanted: u32| -> f64 {
                let of_colour = distribution.iter().enumerate().filter(|(i, _)| colouring >> i & 1 == wanted);
                of_colour.map(|(_, p)| p).sum()
            };
            let greens = colouring.count_ones() as i32;
            let chance = gamma.powi(greens) * (1.0 - gamma).powi(n - greens);
            mean += chance * share(1) / (share(1) + exp(-delta) * share(0));
        }
        mean
    }

    #[test]
    fn it_is_the_mean_over_all_colourings() {
        let sharp = [1.0 - 1e-3 - 1e-6 - 1e-9, 1e-3, 1e-6, 1e-9];
        let distributions: [&[f64]; 6] = [&[1.0], &[0.9, 0.1], &[0.5, 0.3, 0.2], &[0.1; 10], &[1.0 / 16.0; 16], &sharp];
        for gamma in [0.1, 0.25, 0.5] {
            for delta in [0.5, 2.0, 5.0, 2.0 / 0.3, 20.0, 40.0] {
                let bias = Bias { gamma, delta };
                for distribution in distributions {
                    let (found, exact) = (green_chance(distribution, bias, EXACT), enumerated(distribution, bias));
                    assert!((found - exact).abs() < 2e-6, "{bias:?} {distribution:?}: {found}, not {exact}");
                }
            }
        }
    }

    /// Inexact values are lower bounds, and close ones if the most likely tokens are exact.
    #[test]
    fn tokens_behind_the_likeliest_are_bounded_from_below() {
        let sum: f64 = (1..=600).map(|i| f64::from(i).powf(-1.5)).sum();
        let distribution: Vec<f64> = (1..=600).map(|i| f64::from(i).powf(-1.5) / sum).collect();
        for delta in [0.5, 2.0, 2.0 / 0.3, 20.0] {
            let of = |exact| green_chance(&distribution, Bias { gamma: 0.25, delta }, exact);
            let whole = of(600);
            let mut last = 0.25;
            for exact in [1, 4, 16, EXACT, 200] {
                let bound = of(exact);
                assert!(bound <= whole + 1e-9 && bound >= last - 1e-9, "{delta}, {exact}: {bound} of {whole}");
                last = bound;
            }
            assert!(whole - of(EXACT) < 0.002, "{delta}: {} of {whole}", of(EXACT));
        }
    }

    #[test]
    fn colours_that_sway_nothing_or_all_are_numbers() {
        let of = |delta| green_chance(&[0.7, 0.2, 0.1, 0.0], Bias { gamma: 0.25, delta }, EXACT);
        assert!((of(0.0) - 0.25).abs() < 1e-12 && (of(1e-3) - 0.25).abs() < 1e-3, "{}", of(1e-3));
        // A green token is impossible only if all are red.
        for delta in [100.0, 1000.0, f64::MAX] {
            assert!((of(delta) - (1.0 - 0.75f64.powi(3))).abs() < 2e-6, "{delta}: {}", of(delta));
        }
        assert!((green_chance(&[], Bias { gamma: 0.25, delta: 2.0 }, EXACT)).is_finite());
    }
}
