//! Deadlines of calls.

use std::time::{Duration, Instant};

use crate::CollectiveError;

/// A point in time, and the timeout that it was set with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    after: Duration,
}

impl Deadline {
    pub(crate) fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }

    /// The time left, or [`CollectiveError::Late`].
    pub(crate) fn left(&self, peer: impl FnOnce() -> String) -> Result<Duration, CollectiveError> {
        match self.at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(CollectiveError::Late { peer: peer(), after: self.after }),
            left => Ok(left),
        }
    }
}
