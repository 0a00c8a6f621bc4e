//! Numbers on the command line.

use std::str::FromStr;

/// A whole number that is not below 0; the error says that, whatever else was written.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "it must be a whole number, 0 or more".into())
}
