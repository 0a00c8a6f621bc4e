//! The level of significance.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::real::ln;

/// The largest p-value at which a text is called marked: above 0 and below 1. Of unmarked texts at most this share is
/// called marked.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Level(f64);

/// A level that is not above 0 and below 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("must be a number above 0 and below 1, not {0}")]
pub struct BadLevel(String);

impl Level {
    /// One false alarm in 100,000 unmarked texts.
    pub const DEFAULT: Self = Self(1e-5);

    /// A level above 0 and below 1.
    ///
    /// # Errors
    /// [`BadLevel`] for any other number.
    pub fn new(level: f64) -> Result<Self, BadLevel> {
        if level > 0.0 && level < 1.0 { Ok(Self(level)) } else { Err(BadLevel(level.to_string())) }
    }

    /// The level as a number.
    pub fn value(self) -> f64 {
        self.0
    }

    /// Its natural logarithm.
    pub fn ln(self) -> f64 {
        ln(self.0)
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::LowerExp for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerExp::fmt(&self.0, f)
    }
}

impl FromStr for Level {
    type Err = BadLevel;

    fn from_str(text: &str) -> Result<Self, BadLevel> {
        text.parse().map_err(|_| BadLevel(format!("{text:?}"))).and_then(Self::new)
    }
}

impl TryFrom<f64> for Level {
    type Error = BadLevel;

    fn try_from(level: f64) -> Result<Self, BadLevel> {
        Self::new(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_lie_between_0_and_1() {
        for bad in [0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            assert!(Level::new(bad).is_err(), "{bad}");
        }
        for bad in ["", "0", "1", "NaN", "a"] {
            assert!(bad.parse::<Level>().is_err(), "{bad}");
        }
        assert_eq!("1e-5".parse(), Ok(Level::DEFAULT));
        assert_eq!((Level::DEFAULT.to_string(), format!("{:e}", Level::DEFAULT)), ("0.00001".into(), "1e-5".into()));
        assert_eq!(serde_json::from_str::<Level>("0.25").unwrap().value(), 0.25);
        assert!(serde_json::from_str::<Level>("1.5").unwrap_err().to_string().contains("below 1, not 1.5"));
    }
}
