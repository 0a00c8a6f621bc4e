//! The sum of `n` exponential scores: gamma(n, 1).

use super::{deviance, ln_one_minus_exp, series, stirling_error};
use crate::real::ln;

/// `ln P(S >= s)` for the sum `S` of `n` independent scores that are Exp(1).
///
/// For integer `n` this is the probability that a Poisson variable with mean `s` stays below `n`, a sum of `n` terms.
pub fn ln_tail(n: u64, s: f64) -> f64 {
    if n == 0 || s <= 0.0 {
        return 0.0;
    }
    if s > n as f64 - 1.0 {
        // Below the mean: starts from the largest term, that of n - 1, and goes down.
        ln_poisson(n - 1, s) + ln(series((1..n).rev().map(|k| k as f64 / s)))
    } else {
        ln_one_minus_exp(ln_poisson(n, s) + ln(series((n + 1..).map(|k| s / k as f64))))
    }
}

/// `ln P(X = k)` for `X` Poisson with mean `s`, in Loader's form (2000, section 3).
fn ln_poisson(k: u64, s: f64) -> f64 {
    if k == 0 {
        return -s;
    }
    let k = k as f64;
    -stirling_error(k) - deviance(k, s) - 0.5 * ln(2.0 * std::f64::consts::PI * k)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By definition: `e^-s` times the sum of `s^k / k!` below `n`.
    #[test]
    fn tails_equal_their_definition() {
        for n in 1..60u64 {
            for s in [0.01f64, 0.5, 1.0, 3.0, 9.5, 30.0, 59.0, 90.0, 200.0] {
                let mut term = (-s).exp();
                let mut sum = 0.0;
                for k in 0..n {
                    sum += term;
                    term *= s / (k + 1) as f64;
                }
                let got = ln_tail(n, s);
                assert!((got - sum.ln()).abs() < 1e-11 * (1.0 - sum.ln()), "{n} {s}: {got} {}", sum.ln());
            }
        }
        assert_eq!((ln_tail(0, 1.0), ln_tail(5, 0.0), ln_tail(1, 700.0)), (0.0, 0.0, -700.0));
    }

    /// Expected values computed with 60 significant digits by `fixtures/golden/tails.py`.
    #[test]
    fn large_sums_are_precise() {
        for (n, s, expected) in GOLDEN {
            let got = ln_tail(n, s);
            assert!((got - expected).abs() < 1e-10 * expected.abs().max(1e-3), "{n} {s}: {got} {expected}");
        }
    }

    const GOLDEN: [(u64, f64, f64); 4] = [
        (200, 300.0, -21.81061086362489),
        (1000, 900.0, -0.0005500535174143447),
        (100_000, 110_000.0, -473.3559336737648),
        (1_000_000, 1_005_000.0, -15.02366203408618),
    ];
}
