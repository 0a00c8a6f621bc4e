//! The file of a ledger: its tables and version, and how it is opened.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::LedgerError;

/// The number in the header of SQLite files that are ledgers: `vgL1`.
const APPLICATION: i64 = 0x7667_4C31;

/// The version of the tables.
const VERSION: i64 = 1;

/// The time to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tables. Removed entries are overwritten (`secure_delete`), and their pages returned to the file system.
const TABLES: &str = "
    CREATE TABLE entries (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        part INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        time INTEGER NOT NULL,
        key_id TEXT,
        payload INTEGER,
        digest BLOB NOT NULL,
        rate INTEGER NOT NULL,
        signature BLOB NOT NULL,
        manifest_digest BLOB,
        manifest BLOB,
        UNIQUE (tenant, id, part)
    ) STRICT;
    CREATE INDEX entries_by_digest ON entries (digest);
    CREATE INDEX entries_by_time ON entries (time);
    CREATE INDEX entries_by_payload ON entries (payload) WHERE payload IS NOT NULL;
    CREATE TABLE shingles (
        hash INTEGER NOT NULL,
        entry INTEGER NOT NULL REFERENCES entries (number) ON DELETE CASCADE,
        PRIMARY KEY (hash, entry)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX shingles_by_entry ON shingles (entry);
";

/// Opens a ledger; with `create` it is created if there is nothing at the path.
pub(crate) fn open(path: &Path, create: bool) -> Result<Connection, LedgerError> {
    let fault = |source| LedgerError::Open { path: path.into(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(create).create(create);
    // The files that SQLite adds have the same mode.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let about = options.open(path).and_then(|file| file.metadata()).map_err(fault)?;
    if !about.is_file() {
        return Err(fault(io::Error::other("it is not a regular file")));
    }
    connected(path, create)
}

fn connected(path: &Path, create: bool) -> Result<Connection, LedgerError> {
    let fault = LedgerError::of(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Names such as `:memory:` have a meaning for SQLite, paths do not.
    let absolute = std::path::absolute(path).map_err(|source| LedgerError::Open { path: path.into(), source })?;
    let mut file = Connection::open_with_flags(absolute, flags).map_err(&fault)?;
    file.busy_timeout(PATIENCE).map_err(&fault)?;
    // The file may come from a stranger, and may have triggers and views.
    file.pragma_update(None, "trusted_schema", false).map_err(&fault)?;
    file.pragma_update(None, "cell_size_check", true).map_err(&fault)?;
    file.pragma_update(None, "foreign_keys", true).map_err(&fault)?;
    file.pragma_update(None, "secure_delete", true).map_err(&fault)?;
    // Each entry is on disk before the call that adds it returns.
    file.pragma_update(None, "synchronous", "FULL").map_err(&fault)?;
    let number = |file: &Connection, name| file.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if create && is_empty(&file).map_err(&fault)? {
        file.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(&fault)?;
        // Readers and a writer do not wait for each other.
        file.pragma_update(None, "journal_mode", "WAL").map_err(&fault)?;
        let begun = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(&fault)?;
        // Another process may have been faster.
        if is_empty(&begun).map_err(&fault)? {
            begun.execute_batch(TABLES).map_err(&fault)?;
            begun.pragma_update(None, "application_id", APPLICATION).map_err(&fault)?;
            begun.pragma_update(None, "user_version", VERSION).map_err(&fault)?;
        }
        begun.commit().map_err(&fault)?;
    }
    if number(&file, "application_id").map_err(&fault)? != APPLICATION {
        return Err(LedgerError::NotALedger(path.into()));
    }
    match number(&file, "user_version").map_err(&fault)? {
        VERSION => Ok(file),
        version => Err(LedgerError::Later { path: path.into(), version }),
    }
}

/// Whether a file has no tables and is not another program's.
fn is_empty(file: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application: i64 = file.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(tables == 0 && application == 0)
}
