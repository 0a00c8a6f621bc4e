//! `verdigris train`: trains models, draft heads for them, and detectors.

mod draft;
mod lm;
mod steps;
mod synthid;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Failure;

/// Train a model on a text, a draft head on texts of its target, or a detector of SynthID
#[derive(Subcommand)]
pub(crate) enum Train {
    Lm(lm::Lm),
    Draft(draft::Draft),
    Medusa(draft::Medusa),
    SynthidDetector(synthid::SynthidDetector),
}

impl Train {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Lm(lm) => lm.run(),
            Self::Draft(draft) => draft.run(),
            Self::Medusa(medusa) => medusa.run(),
            Self::SynthidDetector(detector) => detector.run(),
        }
    }
}
