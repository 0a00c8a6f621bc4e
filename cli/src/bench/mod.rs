//! `verdigris bench`: figures that anyone can check.

mod detection;
mod loss;
mod marks;
mod power;
mod robustness;
mod speculation;
mod strength;

use std::process::ExitCode;

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::Failure;

/// Measure
#[derive(Subcommand)]
pub(crate) enum Bench {
    Detection(detection::Detection),
    Power(power::Power),
    Robustness(robustness::Robustness),
    Strength(strength::Strength),
    Loss(loss::Loss),
    Speculation(speculation::Speculation),
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Detection(detection) => detection.run(),
            Self::Power(power) => power.run(),
            Self::Robustness(robustness) => robustness.run(),
            Self::Strength(strength) => strength.run(),
            Self::Loss(loss) => loss.run(),
            Self::Speculation(speculation) => speculation.run(),
        }
    }
}

fn progress(texts: u64) -> ProgressBar {
    ProgressBar::new(texts).with_style(
        ProgressStyle::with_template("{bar:40} {pos} of {len} texts, {eta} left").expect("a valid template"),
    )
}
