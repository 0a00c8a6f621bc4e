//! The green count of `n` distinct observations: binomial(n, gamma).
//!
//! The tail is summed from the point probability in Loader's saddle-point form (Catherine Loader, *Fast and
//! accurate computation of binomial probabilities*, 2000).

use std::f64::consts::PI;

use super::{deviance, ln_one_minus_exp, series, stirling_error};
use crate::real::{ln, ln_1p};

/// `ln P(X >= green)` for `X ~ binomial(n, gamma)`.
///
/// # Panics
/// If `green > n` or `gamma` is not strictly between 0 and 1.
pub fn ln_tail(n: u64, green: u64, gamma: f64) -> f64 {
    assert!(green <= n && gamma > 0.0 && gamma < 1.0);
    if green == 0 {
        return 0.0;
    }
    let mean = n as f64 * gamma;
    if green as f64 > mean {
        ln_upper(n, green, gamma)
    } else {
        // The tail is the larger part, so subtract the other side from one. P(X <= green-1) = P(Y >= n-green+1).
        ln_one_minus_exp(ln_upper(n, n - green + 1, 1.0 - gamma))
    }
}

/// `ln P(X >= k)` for `k` above the mean: the point probability times a falling geometric-like sum.
fn ln_upper(n: u64, k: u64, p: f64) -> f64 {
    let odds = p / (1.0 - p);
    ln_point(n, k, p) + ln(series((k..n).map(|i| (n - i) as f64 / (i + 1) as f64 * odds)))
}

/// `ln P(X = k)`, Loader's formula (5).
pub(crate) fn ln_point(n: u64, k: u64, p: f64) -> f64 {
    let (nf, kf) = (n as f64, k as f64);
    if k == 0 {
        return nf * ln_1p(-p);
    }
    if k == n {
        return nf * ln(p);
    }
    let rest = nf - kf;
    stirling_error(nf)
        - stirling_error(kf)
        - stirling_error(rest)
        - deviance(kf, nf * p)
        - deviance(rest, nf * (1.0 - p))
        + 0.5 * ln(nf / (2.0 * PI * kf * rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By definition: every term of the tail from the multiplicative binomial coefficient.
    fn by_definition(n: u64, green: u64, gamma: f64) -> f64 {
        let mut coefficient = 1.0f64;
        let mut tail = 0.0;
        for k in 0..=n {
            if k > 0 {
                coefficient *= (n - k + 1) as f64 / k as f64;
            }
            if k >= green {
                tail += coefficient * gamma.powi(k as i32) * (1.0 - gamma).powi((n - k) as i32);
            }
        }
        tail
    }

    #[test]
    fn tails_equal_their_definition() {
        for n in [1, 2, 5, 15, 16, 17, 40, 200] {
            for gamma in [1.0 / 256.0, 0.25, 0.5, 0.75] {
                for green in 0..=n {
                    let (got, expected) = (ln_tail(n, green, gamma), by_definition(n, green, gamma).ln());
                    if expected < -600.0 {
                        continue; // the definition, not in log space, has underflowed
                    }
                    assert!((got - expected).abs() < 1e-11 * (1.0 - expected), "{n} {green} {gamma}: {got} {expected}");
                }
            }
        }
    }

    /// Expected values computed with 60 significant digits by `fixtures/golden/tails.py`.
    #[test]
    fn far_and_large_tails_are_precise() {
        for (n, green, gamma, expected) in [
            (200, 90, 0.25, -21.14775530342874),
            (200, 200, 0.25, -277.2588722239781),
            (1000, 300, 0.25, -8.549766374303779),
            (1000, 260, 0.25, -1.414992812632351),
            (1000, 1000, 0.00390625, -5545.177444479562),
            (100000, 52000, 0.5, -83.44376187955509),
            (1000000, 750000, 0.5, -130818.6201839853),
            (1000000, 251000, 0.25, -4.554872719225915),
            (100000000, 25100000, 0.25, -270.4878939709601),
            (1000, 240, 0.25, -0.2514760248683155),
            (1000000, 249000, 0.25, -0.01046010492149887),
            (50, 13, 0.25, -0.7153645152094143),
        ] {
            let got = ln_tail(n, green, gamma);
            assert!((got / expected - 1.0f64).abs() < 1e-11, "{n} {green} {gamma}: {got} {expected}");
        }
    }

    #[test]
    fn the_smallest_cases() {
        assert_eq!(ln_tail(0, 0, 0.5), 0.0);
        assert_eq!(ln_tail(3, 0, 0.5), 0.0);
        assert!((ln_tail(3, 3, 0.5) - 0.125f64.ln()).abs() < 1e-15);
    }
}
