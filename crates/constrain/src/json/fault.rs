//! The reason why a schema cannot be used.

use crate::automata::budget::Budget;

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be used: {path}: {fault}")]
pub struct BadSchema {
    /// The location, as a JSON pointer in a URI fragment: `#/properties/age`.
    pub path: String,
    /// The fault, which names the keyword.
    pub fault: String,
}

pub(crate) type Result<T, E = BadSchema> = std::result::Result<T, E>;

pub(crate) fn bad<T>(path: &str, fault: impl Into<String>) -> Result<T> {
    // A name may be a megabyte long.
    let cut = |at: usize| (0..=at).rev().find(|&at| path.is_char_boundary(at)).unwrap_or(0);
    let path = match path.len() {
        0..=MAX_PATH => path.to_owned(),
        length => format!("{}...{}", &path[..cut(MAX_PATH / 2)], &path[cut(length - MAX_PATH / 2)..]),
    };
    Err(BadSchema { path, fault: fault.into() })
}

/// The maximum length, in bytes, of a reported path.
const MAX_PATH: usize = 1000;

/// Fails if a budget is spent or the work was cancelled.
pub(crate) fn check(budget: &Budget, path: &str) -> Result<()> {
    match (budget.is_cancelled(), budget.is_spent()) {
        (true, _) => bad(path, "it was cancelled, since its result is not needed any more"),
        (false, true) => bad(path, TOO_MUCH),
        (false, false) => Ok(()),
    }
}

/// The error for a spent budget.
const TOO_MUCH: &str =
    "it is too much work to tell its branches, patterns and numbers apart: say it with fewer of them";

/// The path of a part of a schema.
pub(crate) fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}
