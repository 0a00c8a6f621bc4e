//! One colour: 1 with probability `gamma`, else 0.

use super::saddlepoint::Cumulants;
use crate::real::{exp, exp_m1, ln, ln_1p};

/// The share of green under a distribution that favours it by `e^x`.
pub(crate) fn tilted(gamma: f64, x: f64) -> f64 {
    1.0 / (1.0 + (1.0 - gamma) / gamma * exp(-x))
}

/// `ln(1 - gamma + gamma e^t)`, without overflow, and two derivatives.
pub(crate) fn cumulants(gamma: f64, t: f64) -> Cumulants {
    let green = tilted(gamma, t);
    let value = if t > 0.0 { t + ln(gamma + (1.0 - gamma) * exp(-t)) } else { ln_1p(gamma * exp_m1(t)) };
    [value, green, green * (1.0 - green)]
}
