//! Green tokens among distinct ones, where one fixed list splits the vocabulary: hypergeometric.
//!
//! A text with `n` distinct tokens of a vocabulary of `population`, `green` of which are in the list, draws without
//! replacement. This is the exact distribution behind the unique-token detector of *Provable Robust Watermarking*
//! (Zhao, Ananth, Li and Wang, ICLR 2024, section 4).

use super::{binomial, ln_one_minus_exp, series};
use crate::real::ln;

/// `ln P(X >= k)` for the number `X` of green tokens among `n` that are drawn without replacement from `population`, of
/// which `green` are green.
///
/// # Panics
/// If `n` or `green` is above `population`, or `k` above `n`.
pub fn ln_tail(population: u64, green: u64, n: u64, k: u64) -> f64 {
    assert!(n <= population && green <= population && k <= n);
    let least = (n + green).saturating_sub(population);
    if k <= least {
        return 0.0;
    }
    if k > green {
        return f64::NEG_INFINITY;
    }
    let mean = n as f64 * green as f64 / population as f64;
    if k as f64 > mean {
        ln_upper(population, green, n, k)
    } else {
        // The tail is the larger part, so subtract the red side from one.
        ln_one_minus_exp(ln_upper(population, population - green, n, n - k + 1))
    }
}

/// `ln P(X >= k)` for `k` above the mean.
fn ln_upper(population: u64, green: u64, n: u64, k: u64) -> f64 {
    if k > green || k > n {
        return f64::NEG_INFINITY;
    }
    let ratio = |i: u64| {
        let up = (green - i) as f64 * (n - i) as f64;
        let down = (i + 1) as f64 * ((population + i + 1) as f64 - (green + n) as f64);
        up / down
    };
    ln_point(population, green, n, k) + ln(series((k..n.min(green)).map(ratio)))
}

/// `ln P(X = k)` as a product of three binomial points with one `p`, which cancels (Loader 2000, section 4).
fn ln_point(population: u64, green: u64, n: u64, k: u64) -> f64 {
    let p = n as f64 / population as f64;
    if n == population {
        return if k == green { 0.0 } else { f64::NEG_INFINITY };
    }
    binomial::ln_point(green, k, p) + binomial::ln_point(population - green, n - k, p)
        - binomial::ln_point(population, n, p)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By definition: products of binomial coefficients.
    #[test]
    fn tails_equal_their_definition() {
        let choose = |n: u64, k: u64| (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>();
        for population in [1u64, 2, 7, 20, 60] {
            for green in 0..=population {
                for n in 0..=population {
                    for k in 0..=n {
                        let tail: f64 = (k..=n.min(green))
                            .filter(|&j| n - j <= population - green)
                            .map(|j| choose(green, j) * choose(population - green, n - j))
                            .sum::<f64>()
                            / choose(population, n);
                        let got = ln_tail(population, green, n, k).exp();
                        assert!((got - tail).abs() <= 1e-10 * tail, "{population} {green} {n} {k}: {got} {tail}");
                    }
                }
            }
        }
    }

    /// Expected values computed with 60 significant digits by `fixtures/golden/tails.py`.
    #[test]
    fn large_populations_are_precise() {
        for (population, green, n, k, expected) in GOLDEN {
            let got = ln_tail(population, green, n, k);
            assert!((got - expected).abs() < 1e-10 * expected.abs().max(1.0), "{population} {green} {n} {k}: {got}");
        }
    }

    const GOLDEN: [(u64, u64, u64, u64, f64); 4] = [
        (50_000, 25_000, 200, 120, -5.879986004480547),
        (50_000, 25_000, 200, 150, -28.5996951461339),
        (128_256, 32_064, 1000, 300, -8.604542181852091),
        (32_000, 8_000, 150, 30, -0.06439011804350678),
    ];
}
