//! Why a ledger cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a ledger cannot be used. Nothing in the file has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The file cannot be opened or created.
    #[error("{}: {source}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a ledger: give the name of one, or of a new file", .0.display())]
    NotALedger(PathBuf),
    /// The file was made by a later version of this library.
    #[error("{} has version {version} of the format, but this program reads up to 1: use a later one", .path.display())]
    Later {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
    },
    /// The file is damaged.
    #[error("{} is damaged ({fault}): restore it from a copy, or begin a new file", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
    /// Another process writes to the file.
    #[error("{} is locked by another process: try again when that has ended", .0.display())]
    Locked(PathBuf),
    /// The entry exists.
    #[error("{} has an entry {id} already, for another text: give another id", .path.display())]
    Known {
        /// The file.
        path: PathBuf,
        /// The id of the answer.
        id: String,
    },
    /// The file cannot be read or written for another reason, such as a full disk.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
}

impl LedgerError {
    /// The error for a failure of SQLite.
    pub(crate) fn of(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        |source| {
            let path = path.to_owned();
            match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked(path),
                Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, fault: line(&source) },
                Some(ErrorCode::NotADatabase) => Self::NotALedger(path),
                // A missing table or column, or a value of another type.
                Some(ErrorCode::Unknown) | None => Self::Damaged { path, fault: line(&source) },
                Some(_) => Self::File { path, source },
            }
        }
    }
}

/// The words of an error on one line: SQLite may quote the tables of a damaged file.
fn line(error: &rusqlite::Error) -> String {
    error
        .to_string()
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
