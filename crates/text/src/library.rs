//! Calls of the tokenizers library.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::chunks::ReadError;
use crate::shown::shown;

/// Runs an encoding of the library. It fails if a model has no token for some word and no unknown token, or if a
/// regular expression in its file backtracks too long; some files make it panic.
pub(crate) fn read<T>(encode: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, ReadError> {
    let fault = match catch_unwind(AssertUnwindSafe(encode)) {
        Ok(Ok(encoding)) => return Ok(encoding),
        Ok(Err(error)) => shown(&error.to_string()).into_owned(),
        Err(_) => "its file is not what the library expects".into(),
    };
    Err(ReadError::NoTokens { fault })
}
