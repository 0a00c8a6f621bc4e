//! What can go wrong between ranks.

use std::io;
use std::time::Duration;

/// Why ranks cannot compute together, or not any more. Each message is one line that names the rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// A rank has ended, or cannot be reached any more.
    #[error("{peer} is gone ({fault}): start all ranks anew")]
    Gone {
        /// Which rank, and where it was.
        peer: String,
        /// How that was noticed.
        fault: String,
    },
    /// A rank is there and says nothing.
    #[error("{peer} has said nothing for {:.1} s: it hangs, or needs a longer deadline", after.as_secs_f64())]
    Late {
        /// Which rank, and where it is.
        peer: String,
        /// How long was waited.
        after: Duration,
    },
    /// A rank says that it cannot go on.
    #[error("{peer} has given up: {fault}")]
    Failed {
        /// Which rank, and where it is.
        peer: String,
        /// What it says.
        fault: String,
    },
    /// A rank does something else than this one.
    #[error("{peer} is out of step ({fault}): all ranks must be of one version of the program")]
    OutOfStep {
        /// Which rank, and where it is.
        peer: String,
        /// What is sent, and what should be.
        fault: String,
    },
    /// Nothing can be said after an error.
    #[error("the ranks stopped computing together after an earlier error: start all of them anew")]
    Over,
    /// A message that is longer than any may be.
    #[error("a message to all ranks has {bytes} bytes, but may have {} at most", super::MAX_MESSAGE)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Nobody can be reached at an address.
    #[error("no rank can be reached at {address} ({source}): start it there first")]
    Connect {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Nobody can be awaited at an address.
    #[error("cannot wait for other ranks at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Two ranks do not belong together.
    #[error("{peer} does not fit: {fault}")]
    Misfit {
        /// Which rank, and where it is.
        peer: String,
        /// What differs.
        fault: String,
    },
}
