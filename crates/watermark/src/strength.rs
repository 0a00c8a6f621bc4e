//! The strength of the preference for green tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The strength of the preference for green tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// `delta` is added to the logits of green tokens (KGW algorithm 2).
    Soft(Delta),
    /// Red tokens are forbidden (KGW algorithm 1). Where no green token is allowed, the row is unchanged.
    Hard,
}

/// The bias added to the logits of green tokens: above 0 and at most 100.
#[doc(alias = "bias")]
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Delta(f64);

/// A bias that is not a number above 0 and at most 100.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("delta is {0}, but must be above 0 and at most 100")]
pub struct BadDelta(f64);

impl Strength {
    /// A soft watermark with bias `delta`, above 0 and at most 100.
    ///
    /// # Errors
    /// [`BadDelta`] for any other number.
    pub fn soft(delta: f64) -> Result<Self, BadDelta> {
        Ok(Self::Soft(Delta::new(delta)?))
    }
}

impl Default for Strength {
    /// Soft, delta 2.
    fn default() -> Self {
        Self::Soft(Delta(2.0))
    }
}

impl Delta {
    /// A bias above 0 and at most 100.
    ///
    /// # Errors
    /// [`BadDelta`] for any other number.
    pub fn new(delta: f64) -> Result<Self, BadDelta> {
        if delta > 0.0 && delta <= 100.0 { Ok(Self(delta)) } else { Err(BadDelta(delta)) }
    }

    /// The bias as a number.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Delta {
    type Error = BadDelta;
    fn try_from(delta: f64) -> Result<Self, BadDelta> {
        Self::new(delta)
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_out_of_range_is_refused() {
        for bad in [0.0, -0.0, -1.0, 100.1, f64::NAN, f64::INFINITY] {
            assert!(Strength::soft(bad).is_err());
        }
        assert_eq!(Strength::soft(2.0), Ok(Strength::default()));
    }
}
