//! The days on which a key writes.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// The days on which a key is used for writing, including the first and the last; an open end has no limit. Reading
/// ignores it, so older marks are still found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PeriodFields")]
pub struct Period {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Date>,
}

/// Days that do not make a period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadPeriod {
    /// A text that is not a date.
    #[error("{0:?} is no date such as 2026-08-02")]
    NoDay(String),
    /// The last day is before the first.
    #[error("the key would end ({until}) before it begins ({from})")]
    Backwards {
        /// The first day.
        from: Date,
        /// The last day.
        until: Date,
    },
}

impl Period {
    /// A period between two days such as `2026-08-02`.
    ///
    /// # Errors
    /// [`BadPeriod`] if one of them is not a date, or the last is before the first.
    pub fn new(from: Option<&str>, until: Option<&str>) -> Result<Self, BadPeriod> {
        let day = |text: &str| text.parse().map_err(|_| BadPeriod::NoDay(text.into()));
        let (from, until) = (from.map(day).transpose()?, until.map(day).transpose()?);
        PeriodFields { from, until }.try_into()
    }

    /// The first day.
    pub fn from(self) -> Option<Date> {
        self.from
    }

    /// The last day.
    pub fn until(self) -> Option<Date> {
        self.until
    }

    /// Whether the period contains a day.
    pub fn contains(&self, day: Date) -> bool {
        self.from.is_none_or(|from| from <= day) && self.until.is_none_or(|until| day <= until)
    }

    /// Whether it has neither a first nor a last day.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// A period of a key file, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeriodFields {
    from: Option<Date>,
    until: Option<Date>,
}

impl TryFrom<PeriodFields> for Period {
    type Error = BadPeriod;
    fn try_from(PeriodFields { from, until }: PeriodFields) -> Result<Self, BadPeriod> {
        match (from, until) {
            (Some(from), Some(until)) if until < from => Err(BadPeriod::Backwards { from, until }),
            _ => Ok(Self { from, until }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_a_first_and_a_last_day() {
        let period = Period::new(Some("2026-08-02"), Some("2026-08-04")).unwrap();
        let inside = |day: &str| period.contains(day.parse().unwrap());
        let days = ["2026-08-01", "2026-08-02", "2026-08-04", "2026-08-05"];
        assert_eq!(days.map(inside), [false, true, true, false]);
        assert!(Period::default().contains("1999-01-01".parse().unwrap()));
        for (from, until) in
            [(Some("yesterday"), None), (None, Some("2026-13-01")), (Some("2026-02-02"), Some("2026-02-01"))]
        {
            assert!(Period::new(from, until).is_err());
        }
    }
}
