//! When a key writes.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::KeyError;

/// The days on which a key is used for writing, the first and the last included; open ends mean for ever. Reading
/// takes no notice: what was marked stays marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Period {
    from: Option<Date>,
    until: Option<Date>,
}

impl Period {
    /// A period from and until days such as `2026-08-02`.
    pub fn new(from: Option<&str>, until: Option<&str>) -> Result<Self, KeyError> {
        let date = |text: Option<&str>| {
            let parse = |text: &str| {
                text.parse().map_err(|_| KeyError::Period(format!("{text:?} is no date such as 2026-08-02")))
            };
            text.map(parse).transpose()
        };
        Form { from: date(from)?, until: date(until)? }.try_into().map_err(KeyError::Period)
    }

    /// The first day.
    pub fn from(self) -> Option<Date> {
        self.from
    }

    /// The last day.
    pub fn until(self) -> Option<Date> {
        self.until
    }

    /// Whether a day lies in it.
    pub fn contains(&self, day: Date) -> bool {
        self.from.is_none_or(|from| from <= day) && self.until.is_none_or(|until| day <= until)
    }

    /// Whether it has neither a first nor a last day.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// As it stands in key files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Date>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Date>,
}

impl TryFrom<Form> for Period {
    type Error = String;
    fn try_from(Form { from, until }: Form) -> Result<Self, String> {
        match (from, until) {
            (Some(from), Some(until)) if until < from => {
                Err(format!("the key would end ({until}) before it begins ({from})"))
            }
            _ => Ok(Self { from, until }),
        }
    }
}

impl From<Period> for Form {
    fn from(Period { from, until }: Period) -> Self {
        Self { from, until }
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
