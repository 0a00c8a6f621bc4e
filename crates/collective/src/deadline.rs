//! When a call must be over.

use std::time::{Duration, Instant};

use crate::CollectiveError;

/// A moment, and how far away it was when it was set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    after: Duration,
}

impl Deadline {
    pub(crate) fn after(after: Duration) -> Self {
        Self { at: Instant::now() + after, after }
    }

    /// How long there is still time; none is the error of a peer that is late.
    pub(crate) fn left(&self, peer: impl FnOnce() -> String) -> Result<Duration, CollectiveError> {
        match self.at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(CollectiveError::Late { peer: peer(), after: self.after }),
            left => Ok(left),
        }
    }
}
