//! Exact distributions of sums of scores, in log space.
//!
//! Under the null hypothesis (the text is independent of the key) every counted observation has a known distribution,
//! and observations are independent. So the distribution of their sum is known, and a p-value is a tail of it. Tails
//! are computed as logarithms: they keep their relative precision down to `e^-10^8` and never become zero.
//!
//! | module | the sum of |
//! |---|---|
//! | [`binomial`] | green tokens |
//! | [`hypergeometric`] | green tokens of one fixed list, each token once |
//! | [`gamma`] | exponential scores |
//! | [`convolution`] | integers with known probabilities |
//! | [`saddlepoint`] | anything with known cumulants |
//! | [`weighted`] | weighted colours |

pub(crate) mod bernoulli;
pub mod binomial;
pub mod convolution;
pub mod gamma;
pub mod hypergeometric;
pub mod saddlepoint;
pub mod weighted;

use std::f64::consts::PI;

use statrs::function::factorial::factorial;

use crate::real::{exp, exp_m1, ln, ln_1p};

/// `ln(1 - e^x)` for `x <= 0`, precise near both ends (Mächler, *Accurately computing log(1 - exp(-|a|))*, 2012).
pub(crate) fn ln_one_minus_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 { ln(-exp_m1(x)) } else { ln_1p(-exp(x)) }
}

/// The p-value of the best of `tried` looks from that of the single look, in logs: `min(1, tried * p)`, Bonferroni's
/// bound, which holds however the looks depend on each other.
pub fn ln_corrected(ln_p: f64, tried: f64) -> f64 {
    (ln_p + ln(tried)).min(0.0)
}

/// The sum of a series that begins with 1, from the ratios of each term to the one before it. It ends where terms no
/// longer matter.
pub(crate) fn series(ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for ratio in ratios {
        term *= ratio;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum
}

/// `ln n! - ln(sqrt(2 pi n) (n/e)^n)`.
pub(crate) fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        return ln(factorial(n as u64)) - (n + 0.5) * ln(n) + n - 0.5 * ln(2.0 * PI);
    }
    let square = n * n;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square) / square)
        / n
}

/// `x ln(x / m) + m - x`, without cancellation near `x = m`.
pub(crate) fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * ln(x / m) + m - x;
    }
    let v = (x - m) / (x + m);
    let mut sum = (x - m) * v;
    let mut power = 2.0 * x * v;
    for j in 1.. {
        power *= v * v;
        let next = sum + power / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}
