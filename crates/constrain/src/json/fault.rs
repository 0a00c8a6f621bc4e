//! Why a schema cannot be used.

use crate::automata::budget::Budget;

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be used: {path}: {fault}")]
pub struct BadSchema {
    /// Where, as a JSON pointer in a URI fragment: `#/properties/age`.
    pub path: String,
    /// What is wrong; names the keyword.
    pub fault: String,
}

pub(crate) type Result<T, E = BadSchema> = std::result::Result<T, E>;

pub(crate) fn bad<T>(path: &str, fault: impl Into<String>) -> Result<T> {
    // A name may have a megabyte.
    let cut = |at: usize| (0..=at).rev().find(|&at| path.is_char_boundary(at)).unwrap_or(0);
    let path = match path.len() {
        0..=MAX_PATH => path.to_owned(),
        length => format!("{}...{}", &path[..cut(MAX_PATH / 2)], &path[cut(length - MAX_PATH / 2)..]),
    };
    Err(BadSchema { path, fault: fault.into() })
}

/// The most bytes of a path that are told.
const MAX_PATH: usize = 1000;

/// Fails where a budget is spent, or nobody waits for the work.
pub(crate) fn check(budget: &Budget, path: &str) -> Result<()> {
    match (budget.is_cancelled(), budget.is_spent()) {
        (true, _) => bad(path, "it was cancelled: nobody waits for it"),
        (false, true) => bad(path, TOO_MUCH),
        (false, false) => Ok(()),
    }
}

/// What is said where a budget is spent.
const TOO_MUCH: &str =
    "it is too much work to tell its branches, patterns and numbers apart: say it with fewer of them";

/// The path of a part of a schema.
pub(crate) fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}
