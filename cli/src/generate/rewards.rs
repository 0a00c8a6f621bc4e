//! Options for reward models.

use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::Reward;

use crate::error::Failure;
use crate::model::find;

/// The judge of several texts, and the choice between them.
#[derive(Args)]
pub(super) struct RewardOptions {
    /// Write N texts, with this seed and the ones after it, and print the one that --reward scores highest, or without
    /// --reward the one whose tokens have the highest mean log-probability
    #[arg(long, value_name = "N", conflicts_with_all = ["draft", "draft_by_expert", "lookup", "texts"], group = "with_best_of",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) best_of: Option<u16>,
    /// The reward model that judges whole texts: a folder of a sequence classifier with one label, or an adapter that
    /// makes a model into one
    #[arg(long, value_name = "PATH|NAME", requires = "with_best_of")]
    reward: Option<PathBuf>,
    /// Choose a text with a probability proportional to exp(reward / L); 0 chooses the best
    #[arg(long, value_name = "L", default_value_t = 0.0, requires = "with_best_of")]
    pub(super) reward_temperature: f64,
}

impl RewardOptions {
    pub(super) fn judge(&self) -> Result<Option<Reward>, Failure> {
        self.reward.as_deref().map(reward).transpose()
    }
}

pub(super) fn reward(path: &Path) -> Result<Reward, Failure> {
    Ok(Reward::from_folder(&find(path)?)?)
}
