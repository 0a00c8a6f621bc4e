//! The share of the vocabulary that is green in other systems: any number between 0 and 1.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A green share above 0 and below 1. The native scheme uses a [`Gamma`](crate::Gamma), an exact fraction.
#[doc(alias = "gamma")]
#[doc(alias = "greenlist_ratio")]
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct GreenShare(f64);

/// A number that is not a share.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("gamma is {0}, but must be above 0 and below 1")]
pub struct BadGreenShare(f64);

impl GreenShare {
    /// A quarter.
    pub const QUARTER: Self = Self(0.25);

    /// A half.
    pub const HALF: Self = Self(0.5);

    /// A share above 0 and below 1.
    ///
    /// # Errors
    /// [`BadGreenShare`] for any other number.
    pub fn new(share: f64) -> Result<Self, BadGreenShare> {
        if share > 0.0 && share < 1.0 { Ok(Self(share)) } else { Err(BadGreenShare(share)) }
    }

    /// The share as a number.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for GreenShare {
    type Error = BadGreenShare;
    fn try_from(share: f64) -> Result<Self, BadGreenShare> {
        Self::new(share)
    }
}

impl fmt::Debug for GreenShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_out_of_range_are_refused() {
        for bad in [0.0, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
            assert!(GreenShare::new(bad).is_err(), "{bad}");
        }
        assert_eq!(GreenShare::new(0.25), Ok(GreenShare::QUARTER));
    }
}
