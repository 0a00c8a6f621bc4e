//! What the ranks say to each other that compute one model together.
//!
//! A *rank* is one of several threads or processes that run the same steps on parts of the same numbers; the *world* is
//! how many there are. [`Collective`] is the contract, and there are three ways to keep it:
//!
//! | module | ranks are |
//! |---|---|
//! | [`single`] | one: nothing is said |
//! | [`threads`] | threads of one process, which share memory |
//! | [`tcp`] | processes, on one machine or on several |
//!
//! There is no implementation on NCCL: on a GPU the decoder of this project has not been split yet.
#![forbid(unsafe_code)]

use std::time::Duration;

mod deadline;
mod error;
pub mod single;
pub mod tcp;
pub mod threads;

pub use error::CollectiveError;
pub use single::Single;
pub use tcp::{Listener, Tcp};
pub use threads::Threads;

/// One rank's side of what all ranks say to each other.
///
/// # Contract
/// - All ranks make the same calls in the same order, with as many numbers each; but [`Collective::send`] and
///   [`Collective::receive`] are made by the two ranks alone that they are about.
/// - Sums are taken in the order of the ranks, `((x0 + x1) + x2) + ...`, whatever comes first: every rank gets the same
///   bits, the same each time, with each implementation.
/// - A call ends before its deadline: with what was asked for, or with an error. After an error of one rank the others
///   get errors too, and all later calls fail with [`CollectiveError::Over`].
/// - Once buffers have grown to what is sent, calls take no memory from the heap.
pub trait Collective: Send {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn world(&self) -> usize;

    /// Makes of each element its sum over all ranks.
    ///
    /// # Errors
    /// Where a rank is gone, late, or does something else.
    #[doc(alias = "all_reduce")]
    fn all_reduce_sum(&mut self, x: &mut [f32]) -> Result<(), CollectiveError>;

    /// Puts the parts of all ranks one after the other, into `all` of rank 0. Parts may differ in length; together they
    /// are as long as rank 0's `all`. Other ranks' `all` is left alone.
    ///
    /// # Errors
    /// Where a rank is gone, late, or does something else.
    fn gather(&mut self, part: &[f32], all: &mut [f32]) -> Result<(), CollectiveError>;

    /// Gives every rank the message of rank 0, of at most [`MAX_MESSAGE`] bytes. The others may wait for it as long as
    /// nothing is computed, so they have a deadline of its own for this call.
    ///
    /// # Errors
    /// Where a rank is gone, late, or does something else.
    fn broadcast(&mut self, message: &mut Vec<u8>) -> Result<(), CollectiveError>;

    /// Gives numbers to another rank, which [receives](Collective::receive) as many from this one.
    ///
    /// # Errors
    /// Where that rank is gone or late.
    ///
    /// # Panics
    /// If there is no such rank, or it is this one.
    fn send(&mut self, to: usize, x: &[f32]) -> Result<(), CollectiveError>;

    /// Takes numbers that another rank [sends](Collective::send) to this one.
    ///
    /// # Errors
    /// Where that rank is gone, late, or does something else.
    ///
    /// # Panics
    /// If there is no such rank, or it is this one.
    fn receive(&mut self, from: usize, x: &mut [f32]) -> Result<(), CollectiveError>;

    /// Tells the other ranks that this one cannot go on, and why: their calls fail with
    /// [`CollectiveError::Failed`]. Nothing can be said after that.
    fn abort(&mut self, why: &str);

    /// How many bytes this rank has sent to others since it began, with what each message costs beside its numbers.
    fn sent(&self) -> u64;
}

/// How long a rank waits for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// In any call but the next one's: as long as the slowest rank may compute between two calls.
    pub call: Duration,
    /// For the next message of rank 0: as long as there may be nothing to compute.
    pub idle: Duration,
}

impl Default for Deadlines {
    /// A minute, and ten.
    fn default() -> Self {
        Self { call: Duration::from_secs(60), idle: Duration::from_secs(600) }
    }
}

/// No message of a [broadcast](Collective::broadcast) has more bytes.
pub const MAX_MESSAGE: usize = 64 << 20;

/// The other ranks than one, for those who name one of them.
#[track_caller]
fn assert_other(rank: usize, own: usize, world: usize) {
    assert!(rank < world && rank != own, "rank {rank} is no other rank of {world} for rank {own}");
}

// So that its program stays one that compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
