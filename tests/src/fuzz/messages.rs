//! Errors that say something.

use std::fmt::Display;

/// The value, if there is one; an error must have a message.
pub(super) fn checked<T>(result: Result<T, impl Display>) -> Option<T> {
    result.inspect_err(|fault| assert!(!fault.to_string().is_empty())).ok()
}
