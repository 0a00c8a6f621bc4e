//! The sum of independent, identically distributed integers, by convolution.
//!
//! It uses the tilted distribution whose mean is near the given value (Esscher 1932), so nothing underflows, however
//! far out the tail.

use super::ln_one_minus_exp;
use crate::real::{exp, ln};

/// The most additions that a convolution may take.
const EXACT: u64 = 1 << 22;

/// Whether the convolution of `n` distributions on `values` numbers is fast enough.
pub(crate) fn is_short(values: usize, n: u64) -> bool {
    let length = (values as u64).saturating_mul(n);
    length.saturating_mul(length) < EXACT
}

/// `ln P(S >= s)` for the sum of `n` numbers whose probabilities are `distribution`, computed under the tilt
/// `e^(tilt x)`. Any tilt gives the tail; one whose mean is near `s` keeps its precision.
pub(crate) fn ln_tail(distribution: &[f64], n: usize, tilt: f64, s: usize) -> f64 {
    let largest = distribution.len() - 1;
    if s == 0 {
        return 0.0;
    }
    if s > n * largest {
        return f64::NEG_INFINITY;
    }
    // Weights relative to the end that the tilt favours, so that none overflows.
    let anchor = if tilt > 0.0 { largest as f64 } else { 0.0 };
    let weights: Vec<f64> = distribution.iter().enumerate().map(|(x, p)| p * exp(tilt * (x as f64 - anchor))).collect();
    let mass: f64 = weights.iter().sum();
    let tilted: Vec<f64> = weights.iter().map(|w| w / mass).collect();
    let mut sum = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.0; sum.len() + largest];
        for (x, p) in tilted.iter().enumerate().filter(|&(_, &p)| p > 0.0) {
            next[x..].iter_mut().zip(&sum).for_each(|(to, from)| *to += p * from);
        }
        sum = next;
    }
    let scale = n as f64 * (ln(mass) + tilt * anchor) - tilt * s as f64;
    let untilt = |x: usize| sum[x] * exp(-tilt * (x as f64 - s as f64));
    if tilt > 0.0 {
        (scale + ln((s..sum.len()).map(untilt).sum())).min(0.0)
    } else {
        ln_one_minus_exp((scale + ln((0..s).map(untilt).sum())).min(-f64::EPSILON))
    }
}
