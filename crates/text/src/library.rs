//! What the library of tokenizers makes of a text.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::chunks::ReadError;
use crate::shown::shown;

/// What the library makes of a text. It gives up where a model has no token for some word and none for 'unknown', and
/// where an expression of its file goes back and forth too long; some files make it panic.
pub(crate) fn read<T>(encode: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, ReadError> {
    let fault = match catch_unwind(AssertUnwindSafe(encode)) {
        Ok(Ok(encoding)) => return Ok(encoding),
        Ok(Err(error)) => shown(&error.to_string()).into_owned(),
        Err(_) => "its file is not what the library expects".into(),
    };
    Err(ReadError::NoTokens { fault })
}
