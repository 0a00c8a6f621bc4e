//! The sum of weighted colours: exact by convolution, or by the saddle point where that would take too long.
//!
//! Each token has its own weight, which counts if it is green, `S = sum of w_i g_i`, and the weights do not depend on
//! the key. They are integers, so that `S` is one too and its distribution a finite convolution. The convolution uses
//! the tilted distribution whose mean is the given value (Esscher 1932), so nothing underflows, however far out the
//! tail.

use super::saddlepoint::{self, Cumulants, Support};
use super::{bernoulli, ln_one_minus_exp};
use crate::real::{exp, ln};

/// The most additions that an exact convolution may take: a few hundredths of a second.
const EXACT: u64 = 1 << 25;

/// `ln P(S >= s)` for weights whose tokens are green with probability `gamma`, independently.
pub fn ln_tail(weights: &[u16], gamma: f64, s: u64) -> f64 {
    let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
    if s == 0 {
        return 0.0;
    }
    if s > total {
        return f64::NEG_INFINITY;
    }
    // Equal weights reduce to a count.
    let unit = weights.iter().fold(0, |unit, &w| gcd(unit, w));
    if unit > 1 {
        let weights: Vec<u16> = weights.iter().map(|w| w / unit).collect();
        return ln_tail(&weights, gamma, s.div_ceil(u64::from(unit)));
    }
    if s == total {
        return weights.iter().filter(|&&w| w > 0).count() as f64 * ln(gamma);
    }
    let k = cumulants(weights, gamma);
    if total.saturating_mul(weights.len() as u64) > EXACT {
        return saddlepoint::ln_tail(k, f64::INFINITY, Support::Integer, s as f64);
    }
    let t = saddlepoint::solve(&k, f64::INFINITY, s as f64);
    let mean = k(0.0)[1];
    let mut distribution = vec![0.0; total as usize + 1];
    distribution[0] = 1.0;
    let mut end = 0;
    for &w in weights.iter().filter(|&&w| w > 0) {
        let green = bernoulli::tilted(gamma, t * f64::from(w));
        let w = usize::from(w);
        for x in (0..=end).rev() {
            distribution[x + w] += green * distribution[x];
            distribution[x] *= 1.0 - green;
        }
        end += w;
    }
    let s = s as usize;
    let untilt = |x: usize| distribution[x] * exp(-t * (x as f64 - s as f64));
    let scale = k(t)[0] - t * s as f64;
    if s as f64 > mean {
        scale + ln((s..=end).map(untilt).sum())
    } else {
        ln_one_minus_exp((scale + ln((0..s).map(untilt).sum())).min(-f64::EPSILON))
    }
}

fn gcd(a: u16, b: u16) -> u16 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn cumulants(weights: &[u16], gamma: f64) -> impl Fn(f64) -> Cumulants {
    // Many weights are equal, so there is one term per different weight.
    let mut counts = std::collections::BTreeMap::<u16, f64>::new();
    weights.iter().filter(|&&w| w > 0).for_each(|&w| *counts.entry(w).or_default() += 1.0);
    move |t| {
        counts.iter().fold([0.0; 3], |[a, b, c], (&w, &n)| {
            let w = f64::from(w);
            let [value, mean, variance] = bernoulli::cumulants(gamma, t * w);
            [a + n * value, b + n * w * mean, c + n * w * w * variance]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::binomial;

    #[test]
    fn tails_equal_the_enumeration_of_all_colourings() {
        let weights = [3u16, 64, 17, 0, 5, 5, 40, 1, 22, 9, 31];
        for gamma in [0.25f64, 0.5, 0.9] {
            let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            for s in 0..=total + 1 {
                let mut tail = 0.0f64;
                for colouring in 0..1u32 << weights.len() {
                    let green = |i: usize| colouring >> i & 1 == 1;
                    let sum: u64 = (0..weights.len()).filter(|&i| green(i)).map(|i| u64::from(weights[i])).sum();
                    if sum >= s {
                        let greens = colouring.count_ones() as i32;
                        tail += gamma.powi(greens) * (1.0 - gamma).powi(weights.len() as i32 - greens);
                    }
                }
                let got = ln_tail(&weights, gamma, s).exp();
                assert!((got - tail).abs() <= 1e-10 * tail, "{gamma} {s}: {got} {tail}");
            }
        }
    }

    #[test]
    fn equal_weights_are_a_count() {
        for n in [1usize, 30, 300] {
            for green in 1..=n as u64 {
                let got = ln_tail(&vec![7; n], 0.25, 7 * green);
                let exact = binomial::ln_tail(n as u64, green, 0.25);
                assert!((got - exact).abs() < 1e-9 * (1.0 - exact), "{n} {green}: {got} {exact}");
            }
        }
    }

    /// Past the limit of the convolution the saddle point gives nearly the same values.
    #[test]
    fn the_saddle_point_goes_on_where_the_convolution_ends() {
        let weights: Vec<u16> = (0..600u32).map(|i| (i * i % 61 + 1) as u16).collect();
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        for share in [0.24, 0.28, 0.35, 0.5] {
            let s = (share * total) as u64;
            let exact = ln_tail(&weights, 0.25, s);
            let k = cumulants(&weights, 0.25);
            let approximate = saddlepoint::ln_tail(k, f64::INFINITY, Support::Integer, s as f64);
            assert!((exact - approximate).abs() < 2e-3, "{share}: {exact} {approximate}");
        }
    }
}
