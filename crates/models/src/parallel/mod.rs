//! A model that several ranks compute together, because it is too large for one.
//!
//! | module | holds |
//! |---|---|
//! | [`shared`] | a model that is about to be shared out, and what its ranks must agree about |
//! | [`leader`] | rank 0: a [`LanguageModel`](crate::LanguageModel), whose sequences tell the other ranks what to do |
//! | [`worker`] | the other ranks, which do it |
//! | `command` | what rank 0 tells them |
//!
//! Rank 0 alone has rows, and does everything that is done with them: watermark, constraint, mixture, draw. The other
//! ranks hear which tokens were read and which were taken back.

mod command;
pub mod leader;
pub mod shared;
pub mod worker;

use verdigris_collective::{Collective, CollectiveError};

pub use leader::Leader;
pub use shared::{Ranks, SharedModel};
pub use worker::Worker;

/// Lets every rank know which of them are not able to do what all were told; gives the first of them. `able` has memory
/// for that.
fn first_unable(
    collective: &mut dyn Collective,
    is_able: bool,
    able: &mut Vec<f32>,
) -> Result<Option<usize>, CollectiveError> {
    able.clear();
    able.resize(collective.world(), 0.0);
    able[collective.rank()] = f32::from(u8::from(is_able));
    collective.all_reduce_sum(able)?;
    Ok(able.iter().position(|able| *able == 0.0))
}
