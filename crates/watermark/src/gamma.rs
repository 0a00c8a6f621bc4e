//! The share of the vocabulary that is green, as an exact fraction.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A green share `m / 2^k` with `k <= 8`, strictly between 0 and 1.
///
/// Because it is dyadic, membership is the comparison of `k` random bits with `m`, without rounding: each token is
/// green with probability exactly `gamma`, and the statistics use the same number.
#[doc(alias = "greenlist_ratio")]
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Gamma {
    m: u16,
    k: u8,
}

/// A green share that is not a multiple of 1/256 strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("gamma is {0}, but must be a multiple of 1/256 above 0 and below 1, such as 0.25 or 0.5")]
pub struct BadGamma(f64);

impl Gamma {
    /// The fraction equal to `value`.
    ///
    /// # Errors
    /// [`BadGamma`] if it is not a multiple of 1/256 above 0 and below 1.
    pub fn new(value: f64) -> Result<Self, BadGamma> {
        let scaled = value * 256.0;
        if !(value > 0.0 && value < 1.0 && scaled.fract() == 0.0) {
            return Err(BadGamma(value));
        }
        let shift = (scaled as u16).trailing_zeros();
        Ok(Self { m: scaled as u16 >> shift, k: 8 - shift as u8 })
    }

    /// The share as a number.
    pub fn value(self) -> f64 {
        f64::from(self.m) / f64::from(1u16 << self.k)
    }

    /// `m`: a token is green when its `k` random bits, read as a number, are below `m`.
    pub fn numerator(self) -> u16 {
        self.m
    }

    /// `k`: the number of random bits that decide one membership.
    pub fn bits(self) -> usize {
        usize::from(self.k)
    }
}

impl Default for Gamma {
    /// A quarter.
    fn default() -> Self {
        Self { m: 1, k: 2 }
    }
}

impl TryFrom<f64> for Gamma {
    type Error = BadGamma;
    fn try_from(value: f64) -> Result<Self, BadGamma> {
        Self::new(value)
    }
}

impl From<Gamma> for f64 {
    fn from(gamma: Gamma) -> f64 {
        gamma.value()
    }
}

impl fmt::Debug for Gamma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

impl fmt::Display for Gamma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact_and_in_lowest_terms() {
        for i in 1..256u16 {
            let gamma = Gamma::new(f64::from(i) / 256.0).unwrap();
            assert_eq!(gamma.value(), f64::from(i) / 256.0);
            assert_eq!(gamma.numerator() % 2, 1);
        }
        assert_eq!((Gamma::new(0.25).unwrap().numerator(), Gamma::new(0.25).unwrap().bits()), (1, 2));
    }

    #[test]
    fn others_are_refused() {
        for bad in [0.0, 1.0, -0.25, 1.25, 0.3, f64::NAN, f64::INFINITY, 1.0 / 512.0] {
            assert!(Gamma::new(bad).is_err(), "{bad}");
        }
    }
}
