//! Typical acceptance: a draft is accepted unless the target finds it too unlikely, with a threshold that falls as the
//! target becomes less certain (Cai et al., *Medusa*, arXiv:2401.10774, section 2.3.1, after Hewitt et al.,
//! arXiv:2210.15191):
//!
//! ```text
//! p(x) > min(epsilon, delta * exp(-H(p)))
//! ```
//!
//! **This changes the distribution of the text**: accepted tokens come from the drafter, not from the target. At
//! temperature 0 it is greedy verification.

/// The bounds on how unlikely a draft may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typical {
    epsilon: f64,
    delta: f64,
}

/// Bounds that are not above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("epsilon is {epsilon} and delta {delta}, but both must be above 0 and at most 1")]
pub struct BadTypical {
    epsilon: f64,
    delta: f64,
}

impl Default for Typical {
    /// Medusa's values: 0.09, and its square root.
    fn default() -> Self {
        Self { epsilon: 0.09, delta: 0.3 }
    }
}

impl Typical {
    /// Creates the rule with these bounds.
    ///
    /// # Errors
    /// [`BadTypical`] unless both are above 0 and at most 1.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, BadTypical> {
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        if is_share(epsilon) && is_share(delta) {
            Ok(Self { epsilon, delta })
        } else {
            Err(BadTypical { epsilon, delta })
        }
    }

    /// The probability that a draft must exceed if the target's distribution is `p`.
    pub fn threshold(self, p: &[f64]) -> f64 {
        let entropy: f64 = -p.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        self.epsilon.min(self.delta * (-entropy).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_falls_with_what_is_uncertain() {
        let typical = Typical::default();
        assert_eq!(typical.threshold(&[0.0, 1.0]), 0.09);
        // The entropy of n equal tokens is ln n.
        let equal = vec![1.0 / 30.0; 30];
        assert!((typical.threshold(&equal) - 0.01).abs() < 1e-12);
        assert!(
            Typical::new(0.0, 0.3).is_err() && Typical::new(0.1, f64::NAN).is_err() && Typical::new(1.0, 1.0).is_ok()
        );
    }
}
