//! The ledger of a server.

use std::path::PathBuf;

use clap::Args;

use crate::error::Failure;
use crate::number::some;

/// The file, and how long entries are kept.
#[derive(Args)]
pub(crate) struct LedgerOptions {
    /// Record every text of every answer in this ledger before the answer ends: a fingerprint, the key and the time,
    /// never the text. GET /manifest/ID returns the entries of an answer to its own API key
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Remove the entries of texts that are older than this
    #[arg(long, value_name = "DAYS", requires = "ledger", value_parser = some::<u32>)]
    ledger_days: Option<u32>,
}

impl LedgerOptions {
    /// Whether texts are recorded.
    pub(crate) fn is_given(&self) -> bool {
        self.ledger.is_some()
    }

    /// Opens the ledger, if one is given.
    #[cfg(feature = "ledger")]
    pub(super) fn open(&self) -> Result<Option<Box<dyn verdigris_server::Ledger>>, Failure> {
        let Some(path) = &self.ledger else { return Ok(None) };
        let ledger = verdigris_ledger::Ledger::create(path)?.into();
        Ok(Some(Box::new(entries::Entries { ledger, days: self.ledger_days })))
    }

    /// Refuses a ledger.
    #[cfg(not(feature = "ledger"))]
    pub(super) fn open(&self) -> Result<Option<Box<dyn verdigris_server::Ledger>>, Failure> {
        let message = "--ledger is not part of this program: build it with `--features ledger`";
        if self.ledger.is_some() { Err(Failure::Usage(message.into())) } else { Ok(None) }
    }
}

#[cfg(feature = "ledger")]
mod entries {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use jiff::{SignedDuration, Timestamp};
    use verdigris_ledger::{Entry, Fingerprint, Ledger, LedgerError, NewEntry};
    use verdigris_server::{LedgerEntry, LedgerText};

    /// A ledger that threads share.
    #[derive(Debug)]
    pub(super) struct Entries {
        pub(super) ledger: Mutex<Ledger>,
        pub(super) days: Option<u32>,
    }

    impl Entries {
        fn ledger(&self) -> MutexGuard<'_, Ledger> {
            // A transaction that was interrupted by a panic has been rolled back.
            self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl verdigris_server::Ledger for Entries {
        fn enter(&self, text: &LedgerText<'_>) -> Result<(), String> {
            let LedgerText { id, index, tenant, key_id, text, manifest } = *text;
            let fingerprint = Fingerprint::of(text);
            let part = u32::try_from(index).unwrap_or(u32::MAX);
            let entry = NewEntry { part, tenant, key_id, manifest, ..NewEntry::new(id, &fingerprint) };
            self.ledger().add(&entry).map_err(said)
        }

        fn answer(&self, tenant: &str, id: &str) -> Result<Vec<LedgerEntry>, String> {
            let entries = self.ledger().answer(tenant, id).map_err(said)?;
            Ok(entries.into_iter().map(entry).collect())
        }

        fn prune(&self) -> Result<(), String> {
            let Some(days) = self.days else { return Ok(()) };
            let age = SignedDuration::from_hours(24 * i64::from(days));
            // Before the first possible time, there is nothing to remove.
            let Ok(before) = Timestamp::now().checked_sub(age) else { return Ok(()) };
            // The ledger is free for answers between the steps.
            while self.ledger().prune(before, None).map_err(said)? > 0 {}
            Ok(())
        }
    }

    fn said(error: LedgerError) -> String {
        error.to_string()
    }

    fn entry(entry: Entry) -> LedgerEntry {
        let Entry { part, time, key_id, digest, manifest_digest, manifest, .. } = entry;
        LedgerEntry { index: part, time, key_id, digest, manifest_digest, manifest }
    }
}
