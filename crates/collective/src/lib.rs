//! Communication between the ranks that compute one model together.
//!
//! A *rank* is one of several processes that run the same steps on parts of the same numbers; the *world* is their
//! number. [`Collective`] is the contract, and [`Tcp`] keeps it among processes, on one machine or on several.
//!
//! There is no implementation on NCCL, because the GPU decoder of this project is not split among ranks.
#![forbid(unsafe_code)]

use std::time::Duration;

mod deadline;
mod error;
pub mod tcp;

pub use error::CollectiveError;
pub use tcp::{Listener, Tcp};

/// One rank's side of the communication.
///
/// # Contract
/// - All ranks make the same calls in the same order, with the same number of elements, except that
///   [`Collective::send`] and [`Collective::receive`] are made only by the two ranks involved.
/// - Sums are taken in the order of the ranks, `((x0 + x1) + x2) + ...`, whatever arrives first: every rank gets the
///   same bits, the same each time.
/// - A call ends before its deadline, with the result or with an error. After an error of one rank the others get
///   errors too, and all later calls fail with [`CollectiveError::Over`].
/// - Once buffers have grown to the size of the data, calls do not allocate.
pub trait Collective: Send {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn world(&self) -> usize;

    /// Replaces each element by its sum over all ranks.
    ///
    /// # Errors
    /// If a rank is gone, late, or out of step.
    #[doc(alias = "all_reduce")]
    fn all_reduce_sum(&mut self, x: &mut [f32]) -> Result<(), CollectiveError>;

    /// Concatenates the parts of all ranks into `all` of rank 0. Parts may differ in length; together they must be as
    /// long as rank 0's `all`. Other ranks' `all` is left unchanged.
    ///
    /// # Errors
    /// If a rank is gone, late, or out of step.
    fn gather(&mut self, part: &[f32], all: &mut [f32]) -> Result<(), CollectiveError>;

    /// Sends the message of rank 0, of at most [`MAX_MESSAGE`] bytes, to every rank. The others may wait for it as long
    /// as nothing is computed, so this call has its own deadline for them.
    ///
    /// # Errors
    /// If a rank is gone, late, or out of step.
    fn broadcast(&mut self, message: &mut Vec<u8>) -> Result<(), CollectiveError>;

    /// Sends numbers to another rank, which must [receive](Collective::receive) the same number from this one.
    ///
    /// # Errors
    /// If that rank is gone or late.
    ///
    /// # Panics
    /// If the rank does not exist, or is this one.
    fn send(&mut self, to: usize, x: &[f32]) -> Result<(), CollectiveError>;

    /// Receives numbers that another rank [sends](Collective::send) to this one.
    ///
    /// # Errors
    /// If that rank is gone, late, or out of step.
    ///
    /// # Panics
    /// If the rank does not exist, or is this one.
    fn receive(&mut self, from: usize, x: &mut [f32]) -> Result<(), CollectiveError>;

    /// Reports to the other ranks that this one cannot continue, and why: their calls fail with
    /// [`CollectiveError::Failed`]. All later calls fail.
    fn abort(&mut self, why: &str);

    /// The number of bytes that this rank has sent to others so far, including the overhead of each message.
    fn sent(&self) -> u64;
}

/// The time that a rank waits for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For all calls but waiting for a message of rank 0: the longest time that the slowest rank may compute between
    /// two calls.
    pub call: Duration,
    /// For the next message of rank 0: the longest time without anything to compute.
    pub idle: Duration,
}

impl Default for Deadlines {
    /// One minute per call, and ten minutes when idle.
    fn default() -> Self {
        Self { call: Duration::from_secs(60), idle: Duration::from_secs(600) }
    }
}

/// The most bytes in a message of a [broadcast](Collective::broadcast).
pub const MAX_MESSAGE: usize = 64 << 20;

/// Panics unless `rank` is another rank of the world.
#[track_caller]
fn assert_other(rank: usize, own: usize, world: usize) {
    assert!(rank < world && rank != own, "rank {rank} is not a rank of {world} other than {own}");
}

// Compiles the README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
