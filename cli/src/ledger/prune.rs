//! `verdigris ledger prune`: removes old entries.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use verdigris_ledger::Ledger;

use crate::error::Failure;

/// Remove the entries of texts that were written before a day
#[derive(Args)]
#[command(after_help = "\
The removed data is overwritten, in the log of changes too unless a process is
reading the ledger. Copies of the file still have it.

Example:
  verdigris ledger prune answers.ledger --before 2026-06-01")]
pub(crate) struct Prune {
    /// The ledger
    ledger: PathBuf,
    /// The first day, or the first moment, of the entries that stay; days begin at midnight UTC
    #[arg(long, value_name = "TIME", value_parser = moment)]
    before: Timestamp,
    /// Only entries of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

impl Prune {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let mut ledger = Ledger::open(&self.ledger)?;
        let (mut removed, tenant) = (0, self.tenant.as_deref());
        loop {
            match ledger.prune(self.before, tenant)? {
                0 => break,
                more => removed += more,
            }
        }
        writeln!(std::io::stdout(), "{removed} removed, {} left", ledger.count(None)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Parses a day, which begins at midnight UTC, or a moment such as 2026-06-01T12:00:00Z.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    let day = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    let moment = text.parse::<Timestamp>().ok();
    moment.or_else(day).ok_or_else(|| "it must be a day such as 2026-06-01, or a time such as 2026-06-01T12:00Z".into())
}
