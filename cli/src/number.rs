//! Numbers on the command line.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// Parses a whole number of 0 or more. The error says that it must be one, or that it is too large.
pub(crate) fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "it is too large".into(),
        _ => "it must be a whole number, 0 or more".into(),
    })
}

/// Like [`whole`], but -1 means 0, as in other programs.
pub(crate) fn or_all(text: &str) -> Result<usize, String> {
    if text == "-1" { Ok(0) } else { whole(text).map_err(|fault| fault.replace("0 or more", "0 or more, or -1")) }
}

/// Like [`whole`], but 1 or more.
pub(crate) fn some<T: FromStr<Err = ParseIntError> + Default + PartialEq>(text: &str) -> Result<T, String> {
    whole(text)
        .ok()
        .filter(|number| *number != T::default())
        .ok_or_else(|| "it must be a whole number, 1 or more".into())
}

/// Parses a number of seconds, at most as many as a clock can add.
#[cfg(feature = "serve")]
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    const MOST: u64 = 1 << 31;
    whole(text)
        .and_then(|seconds| if seconds <= MOST { Ok(seconds) } else { Err(format!("it must be at most {MOST}")) })
}

/// Parses a finite number of 0 or more.
#[cfg(feature = "serve")]
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "it must be a number, 0 or more".into())
}

/// Like [`whole`], for the number of texts of a measurement. Numbers that would never finish are taken for typos.
pub(crate) fn samples<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    const MOST: u64 = 1_000_000;
    let count = whole::<u64>(text)?;
    T::try_from(count).ok().filter(|_| count <= MOST).ok_or_else(|| format!("it must be at most {MOST}"))
}
