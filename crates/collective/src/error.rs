//! Errors of communication between ranks.

use std::io;
use std::time::Duration;

/// An error of communication between ranks. Each message is one line that names the rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectiveError {
    /// A rank has ended, or cannot be reached any more.
    #[error("{peer} is gone ({fault}): start all ranks anew")]
    Gone {
        /// The rank, and its last address.
        peer: String,
        /// The fault that revealed this.
        fault: String,
    },
    /// A rank has not ended, but does not respond in time.
    #[error("{peer} has said nothing for {:.1} s: it hangs, or needs a longer deadline", after.as_secs_f64())]
    Late {
        /// The rank, and its address.
        peer: String,
        /// The time waited.
        after: Duration,
    },
    /// A rank reports that it cannot continue.
    #[error("{peer} has given up: {fault}")]
    Failed {
        /// The rank, and its address.
        peer: String,
        /// The reason that it reports.
        fault: String,
    },
    /// A rank makes a different call from this one.
    #[error("{peer} is out of step ({fault}): all ranks must be of one version of the program")]
    OutOfStep {
        /// The rank, and its address.
        peer: String,
        /// The data that it sends, and the data expected.
        fault: String,
    },
    /// A call after an error.
    #[error("the ranks stopped computing together after an earlier error: start all of them anew")]
    Over,
    /// A message above the maximum length.
    #[error("a message to all ranks has {bytes} bytes, but may have {} at most", super::MAX_MESSAGE)]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// No rank accepts connections at an address.
    #[error("no rank can be reached at {address} ({source}): start it there first")]
    Connect {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// An address cannot be listened at.
    #[error("cannot wait for other ranks at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: io::Error,
    },
    /// Two ranks do not belong together.
    #[error("{peer} does not fit: {fault}")]
    Misfit {
        /// The rank, and its address.
        peer: String,
        /// The difference.
        fault: String,
    },
}
