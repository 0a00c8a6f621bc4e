//! The address of a detector, as its reports name it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest address in bytes.
const LONGEST: usize = 2000;

/// The address of a detector: `http://` or `https://`, a host, and no white space or control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct DetectorUrl(String);

/// A text that is not such an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a detector's address begins with https:// or http:// and a host, and has at most {LONGEST} plain characters")]
pub struct BadDetectorUrl;

impl FromStr for DetectorUrl {
    type Err = BadDetectorUrl;

    fn from_str(text: &str) -> Result<Self, BadDetectorUrl> {
        let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let has_host =
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '['));
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
        if has_host && is_plain && text.len() <= LONGEST { Ok(Self(text.into())) } else { Err(BadDetectorUrl) }
    }
}

impl TryFrom<String> for DetectorUrl {
    type Error = BadDetectorUrl;

    fn try_from(text: String) -> Result<Self, BadDetectorUrl> {
        text.parse()
    }
}

impl fmt::Display for DetectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_taken() {
        for good in ["https://detect.example.com", "http://localhost:8000/detect", "https://[::1]:8/?a=b#c"] {
            assert_eq!(good.parse::<DetectorUrl>().unwrap().to_string(), good);
        }
        let long = format!("https://a/{}", "b".repeat(2000));
        for bad in [
            "",
            "detect.example.com",
            "javascript:alert(1)",
            "https://",
            "https:///a",
            "https://a b",
            "https://é",
            &long,
        ] {
            assert!(bad.parse::<DetectorUrl>().is_err(), "{bad}");
        }
    }
}
