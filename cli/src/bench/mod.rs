//! `verdigris bench`: measurements that anyone can repeat.

mod costs;
mod detection;
mod fewest;
mod forging;
mod harm;
#[cfg(feature = "train")]
mod loss;
mod marks;
mod power;
mod price;
mod prompts;
mod questions;
mod robustness;
mod speculation;
mod strength;
mod thief;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Failure;
#[cfg(not(feature = "train"))]
use crate::left_out::LeftOut;

/// Measure marks, models and drafts
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
pub(crate) enum Bench {
    Detection(detection::Detection),
    Forging(forging::Forging),
    Harm(harm::Harm),
    Power(power::Power),
    Price(price::Price),
    Robustness(robustness::Robustness),
    Strength(strength::Strength),
    #[cfg(feature = "train")]
    Loss(loss::Loss),
    #[cfg(not(feature = "train"))]
    Loss(LeftOut),
    Speculation(speculation::Speculation),
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Detection(detection) => detection.run(),
            Self::Forging(forging) => forging.run(),
            Self::Harm(harm) => harm.run(),
            Self::Power(power) => power.run(),
            Self::Price(price) => price.run(),
            Self::Robustness(robustness) => robustness.run(),
            Self::Strength(strength) => strength.run(),
            #[cfg(feature = "train")]
            Self::Loss(loss) => loss.run(),
            #[cfg(not(feature = "train"))]
            Self::Loss(loss) => loss.run("bench loss", "train"),
            Self::Speculation(speculation) => speculation.run(),
        }
    }
}

/// The name of a drafter in a table.
fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
