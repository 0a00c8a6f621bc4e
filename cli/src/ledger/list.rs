//! `verdigris ledger list`: lists entries.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris_ledger::{Entry, Ledger};

use crate::error::Failure;
use crate::ledger::shown::{EntryFields, HEADER, row};
use crate::report::print_json;

/// List the entries of a ledger, the oldest first
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris ledger list answers.ledger --tenant ann
  verdigris ledger list answers.ledger --id chatcmpl-7 --json")]
pub(crate) struct List {
    /// The ledger
    ledger: PathBuf,
    /// Only entries of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Only the texts of this answer
    #[arg(long)]
    id: Option<String>,
    /// Print one JSON object per entry, with its manifest
    #[arg(long)]
    json: bool,
}

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-ledger-list-1";

#[derive(Serialize)]
struct Output<'a> {
    format: &'static str,
    #[serde(flatten)]
    entry: EntryFields<'a>,
}

impl List {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let ledger = Ledger::open(&self.ledger)?;
        let mut out = anstream::stdout();
        if !self.json {
            let dim = anstyle::Style::new().dimmed();
            writeln!(out, "{dim}{HEADER}{dim:#}")?;
        }
        ledger.each::<Failure>(self.tenant.as_deref(), |entry: Entry| {
            if self.id.as_ref().is_some_and(|id| *id != entry.id) {
                return Ok(());
            }
            match self.json {
                true => print_json(&Output { format: FORMAT, entry: (&entry).into() }).map(drop),
                false => Ok(writeln!(out, "{}", row(&entry))?),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
