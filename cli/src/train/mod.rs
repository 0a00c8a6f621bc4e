//! `verdigris train`: trains models, and draft heads for them.

mod draft;
mod lm;
mod steps;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Failure;

/// Train a model on a text, or a draft head on texts of its target
#[derive(Subcommand)]
pub(crate) enum Train {
    Lm(lm::Lm),
    Draft(draft::Draft),
    Medusa(draft::Medusa),
}

impl Train {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Lm(lm) => lm.run(),
            Self::Draft(draft) => draft.run(),
            Self::Medusa(medusa) => medusa.run(),
        }
    }
}
