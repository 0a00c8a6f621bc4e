//! Why a key could not be had.

use std::io;
use std::path::PathBuf;

use super::MAX_NAME;
use crate::dialect::BadDialect;

/// Why a key could not be read, made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file could not be opened or read.
    #[error("cannot read the key file {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Other people can read the file.
    #[error(
        "the key file {path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`, and make a new key if it was copied"
    )]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file could not be created or written.
    #[error("cannot write the key file {path}: {source}{hint}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
        /// What to do about it.
        hint: &'static str,
    },
    /// The file is no key file. The text of the fault is left out: it could quote a secret.
    #[error("{path} is not a key file: {fault}")]
    NotAKey {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without any part of the file.
        fault: String,
    },
    /// The file says that it is a key file and cannot be read as one. The text of the fault is left out: it could
    /// quote the secret.
    #[error("the key file {path} cannot be used: {fault}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without any part of the file.
        fault: String,
    },
    /// The parameters make no scheme.
    #[error(transparent)]
    Dialect(#[from] BadDialect),
    /// A name that does not fit into a key file.
    #[error("the {what} is {bytes} bytes long, but may have {MAX_NAME}")]
    Name {
        /// Whose name it is: the id or the tenant.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// The key writes payloads, and none is given; or the other way round.
    #[error("the key {id} {}", if *.carries { "carries a payload: say which one to write" } else { "carries no payload: make one with --payload-bits" })]
    Payload {
        /// The key's id.
        id: String,
        /// Whether it carries payloads.
        carries: bool,
    },
    /// A period that ends before it begins, or is no date.
    #[error("{0}")]
    Period(String),
    /// The folder of a ring could not be read.
    #[error("cannot read the key ring {path}: {source}")]
    Ring {
        /// Which folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The ring has no key that may be used.
    #[error("the key ring {path} has no key {wanted}")]
    EmptyRing {
        /// Which folder.
        path: PathBuf,
        /// What was looked for.
        wanted: String,
    },
}
