//! Numbers on the command line.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// A whole number that is not below 0; the error says that, or that it is too large, whatever else was written.
pub(crate) fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "it is larger than any number that can be meant".into(),
        _ => "it must be a whole number, 0 or more".into(),
    })
}
