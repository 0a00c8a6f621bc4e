//! Options for other processes that compute a model together with this one.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use verdigris::Device;
use verdigris::models::{Deadlines, Ranks, Split};

use crate::choice::{Choice, OneOf};
use crate::error::Failure;

/// How a model is split among ranks.
pub(crate) const SPLITS: &[Choice<Split>] = &[
    (
        "tensor",
        Split::Tensor,
        "Each rank has a part of every layer: less work for each, but two sums over all ranks per layer",
    ),
    ("layers", Split::Layers, "Each rank has some consecutive layers: little is sent"),
];

/// Parses the time that a rank waits for others.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let possible = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 3600);
    seconds.filter(|seconds| possible.contains(seconds)).ok_or_else(|| "it must be seconds, 0.001 or more".into())
}

/// The ranks that compute the model together with this process.
#[derive(Args)]
pub(crate) struct RankOptions {
    /// Compute the model together with the ranks at these addresses (see `verdigris rank`), each of which has a part of
    /// it; this process is rank 0. Experts and drafters are not split, and run here
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    ranks: Vec<String>,
    /// How the model is split
    #[arg(long, value_parser = OneOf(SPLITS), default_value = "tensor", requires = "ranks")]
    split: Split,
    /// Give up when a rank sends nothing for this long
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, requires = "ranks")]
    rank_timeout: Duration,
}

impl RankOptions {
    /// The ranks as a device, if there are any. Refused if another device was chosen.
    pub(crate) fn device(&self, is_chosen: bool) -> Result<Option<Device>, Failure> {
        if self.ranks.is_empty() {
            return Ok(None);
        }
        if is_chosen {
            return Err(Failure::Usage("--ranks compute on CPUs: leave out --device and --backend".into()));
        }
        let deadlines = Deadlines { call: self.rank_timeout, ..Deadlines::default() };
        let ranks = Ranks { addresses: self.ranks.clone(), split: self.split, deadlines };
        Ok(Some(Device::Ranks(Arc::new(ranks))))
    }
}
