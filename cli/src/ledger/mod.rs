//! `verdigris ledger`: the record of written texts.

mod add;
mod find;
mod list;
mod prune;
mod shown;

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Failure;

/// Record texts without keeping them, and look texts up
#[derive(Subcommand)]
#[command(after_help = "\
A ledger is a file with a fingerprint of each text, its digest, the id of its key, the time, the id of the answer and \
the tenant. `generate`, `batch` and `serve` record what they write with --ledger. A look-up is not a mark: it shows \
that the keeper of the ledger recorded a text like this one.")]
pub(crate) enum LedgerCommand {
    Add(add::Add),
    Find(find::Find),
    List(list::List),
    Prune(prune::Prune),
}

impl LedgerCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Self::Add(add) => add.run(),
            Self::Find(find) => find.run(),
            Self::List(list) => list.run(),
            Self::Prune(prune) => prune.run(),
        }
    }
}
