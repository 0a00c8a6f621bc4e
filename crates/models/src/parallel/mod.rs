//! A model that several ranks compute together, because it is too large for one.
//!
//! | module | holds |
//! |---|---|
//! | [`shared`] | a model before it is split, and what its ranks must agree on |
//! | [`leader`] | rank 0: a [`LanguageModel`](crate::LanguageModel), whose sequences send commands to the other ranks |
//! | [`worker`] | the other ranks, which execute the commands |
//! | `command` | the commands |
//!
//! Only rank 0 has rows, and it does everything with them: watermark, constraint, mixture, sampling. The other ranks
//! learn which tokens were read and which were taken back.

mod command;
pub mod leader;
pub mod shared;
pub mod worker;

use verdigris_collective::{Collective, CollectiveError};

pub use leader::Leader;
pub use shared::{Ranks, SharedModel};
pub use worker::Worker;

/// Shares among all ranks which of them cannot execute the last command, and returns the first of these. `able` is a
/// buffer.
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
