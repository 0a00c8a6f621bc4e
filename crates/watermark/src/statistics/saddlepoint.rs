//! Tails of a sum from its cumulants: the saddle-point approximation of Lugannani and Rice.
//!
//! *Saddle point approximation for the distribution of the sum of independent random variables* (Adv. Appl.
//! Prob. 12, 1980); for integer sums with the continuity correction of Daniels, *Tail probability
//! approximations* (Int. Stat. Rev. 55, 1987), section 6. Its relative error stays bounded along the whole tail;
//! the tests show how small it is for the sums that are used here.

use std::f64::consts::{PI, SQRT_2};

use super::ln_one_minus_exp;
use crate::real::{erfc, exp, exp_m1, ln};

/// The cumulant generating function `K(t) = ln E[e^(t S)]` with its first two derivatives, all at one `t`.
pub type Cumulants = [f64; 3];

/// The possible values of a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Support {
    /// Real numbers.
    Real,
    /// Integers.
    Integer,
}

/// `ln P(S >= s)` for a sum with the cumulants `k`, which are finite below `end`. `s` must lie strictly between
/// the least and the largest value of the sum.
pub fn ln_tail(k: impl Fn(f64) -> Cumulants, end: f64, support: Support, s: f64) -> f64 {
    let [_, mean, variance] = k(0.0);
    let sd = variance.sqrt();
    // At the mean the formula is a difference of two poles, so interpolate between .005 deviations to each side.
    let near = 5e-3 * sd;
    if (s - mean).abs() < near {
        let [low, high] = [mean - near, mean + near].map(|s| exp(away_from_mean(&k, end, support, s)));
        let share = (s - mean + near) / (2.0 * near);
        return ln(low + share * (high - low));
    }
    away_from_mean(&k, end, support, s)
}

fn away_from_mean(k: &impl Fn(f64) -> Cumulants, end: f64, support: Support, s: f64) -> f64 {
    let t = solve(k, end, s);
    let [value, _, curvature] = k(t);
    let exponent = (t * s - value).max(0.0);
    let w = (2.0 * exponent).sqrt();
    let slope = match support {
        Support::Real => t,
        Support::Integer => -exp_m1(-t),
    };
    let u = (slope * curvature.sqrt()).abs();
    // The side of `s` away from the mean.
    let tail = ln((mills(w) + 1.0 / u - 1.0 / w).max(f64::MIN_POSITIVE)) - exponent - 0.5 * ln(2.0 * PI);
    if t > 0.0 { tail.min(0.0) } else { ln_one_minus_exp(tail.min(-f64::EPSILON)) }
}

/// The `t` at which the tilted sum has the mean `s`: Newton's method inside a bracket.
pub(crate) fn solve(k: &impl Fn(f64) -> Cumulants, end: f64, s: f64) -> f64 {
    let [_, mean, variance] = k(0.0);
    if s == mean {
        return 0.0;
    }
    let sign = (s - mean).signum();
    // The first step may be too long where `k` has an end.
    let (mut near, mut far) = (0.0, sign / variance.sqrt());
    while far >= end {
        far = (near + end) / 2.0;
    }
    for _ in 0..200 {
        if (k(far)[1] - s) * sign >= 0.0 {
            break;
        }
        near = far;
        far = if sign > 0.0 && end.is_finite() { (far + end) / 2.0 } else { 2.0 * far };
    }
    let mut t = (near + far) / 2.0;
    for _ in 0..200 {
        let [_, at, curvature] = k(t);
        if (at - s) * sign > 0.0 {
            far = t;
        } else {
            near = t;
        }
        let newton = t - (at - s) / curvature;
        let inside = (newton - near) * (newton - far) < 0.0;
        let next = if inside { newton } else { (near + far) / 2.0 };
        if (next - t).abs() <= 1e-14 * t.abs() {
            return next;
        }
        t = next;
    }
    t
}

/// Mills' ratio `(1 - Phi(w)) / phi(w)` for `w >= 0`.
fn mills(w: f64) -> f64 {
    if w < 5.0 {
        return erfc(w / SQRT_2) / 2.0 * (2.0 * PI).sqrt() * exp(w * w / 2.0);
    }
    // Laplace's continued fraction, from the inside out.
    (1..=60).rev().fold(w, |fraction, i| w + f64::from(i) / fraction).recip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{binomial, gamma};

    #[test]
    fn sums_with_exact_tails_are_met() {
        for n in [5u64, 20, 200, 5000] {
            let nf = n as f64;
            let exponential = move |t: f64| [-nf * (1.0 - t).ln(), nf / (1.0 - t), nf / (1.0 - t).powi(2)];
            for z in [-3.0, -1.0, -0.01, 0.0, 0.003, 0.5, 2.0, 5.0, 12.0] {
                let s = nf + z * nf.sqrt();
                if s <= 0.0 {
                    continue;
                }
                let (got, exact) = (ln_tail(exponential, 1.0, Support::Real, s), gamma::ln_tail(n, s));
                assert!((got - exact).abs() < 0.01, "gamma {n} {z}: {got} {exact}");
                let p = 0.25;
                let k = (nf * p + z * (nf * p * (1.0 - p)).sqrt()).round();
                if !(k > 0.0 && k < nf) {
                    continue;
                }
                let colours = move |t: f64| {
                    let q = p * t.exp() / (1.0 - p + p * t.exp());
                    [nf * (p * t.exp_m1()).ln_1p(), nf * q, nf * q * (1.0 - q)]
                };
                let (got, exact) =
                    (ln_tail(colours, f64::INFINITY, Support::Integer, k), binomial::ln_tail(n, k as u64, p));
                assert!((got - exact).abs() < 0.015 + 0.1 / nf, "binomial {n} {z}: {got} {exact}");
            }
        }
    }

    #[test]
    fn mills_ratio_has_no_seam() {
        assert!((mills(4.999_999) / mills(5.000_001) - 1.0).abs() < 1e-6);
        assert!((mills(0.0) - (PI / 2.0).sqrt()).abs() < 1e-12);
    }
}
