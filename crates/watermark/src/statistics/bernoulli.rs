//! One colour: 1 with probability `gamma`, else 0.

use super::saddlepoint::Cumulants;

/// The share of green under a law that favours it by `e^x`.
pub(crate) fn tilted(gamma: f64, x: f64) -> f64 {
    1.0 / (1.0 + (1.0 - gamma) / gamma * (-x).exp())
}

/// `ln(1 - gamma + gamma e^t)`, which does not overflow, and two derivatives.
pub(crate) fn cumulants(gamma: f64, t: f64) -> Cumulants {
    let green = tilted(gamma, t);
    let value = if t > 0.0 { t + (gamma + (1.0 - gamma) * (-t).exp()).ln() } else { (gamma * t.exp_m1()).ln_1p() };
    [value, green, green * (1.0 - green)]
}
