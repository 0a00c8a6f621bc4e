//! Why a key could not be had.

use std::io;
use std::path::PathBuf;

use super::MAX_NAME;
use super::format::{FORMAT, MAX_FILE};
use super::period::BadPeriod;
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
        "the key file {path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`, and make a new key if it \
         was copied"
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
    /// The file is no key file.
    #[error("{path} is not a key file: {fault}")]
    NotAKey {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without any part of the file.
        fault: BadKeyFile,
    },
    /// The file says that it is a key file and cannot be read as one.
    #[error("the key file {path} cannot be used: {fault}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without any part of the file.
        fault: BadKeyFile,
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
    #[error(
        "the key {id} {}",
        if *.carries { "carries a payload: say which one to write (--payload)" }
        else { "carries no payload: make one with --payload-bits" }
    )]
    Payload {
        /// The key's id.
        id: String,
        /// Whether it carries payloads.
        carries: bool,
    },
    /// A period that is none.
    #[error(transparent)]
    Period(#[from] BadPeriod),
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

/// What is wrong with the contents of a key file. Nothing of it is quoted: it may hold a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadKeyFile {
    /// It has no content.
    #[error("it is empty")]
    Empty,
    /// It does not say that it is a key file.
    #[error("it does not name the format {FORMAT}")]
    NoFormat,
    /// It is longer than key files are.
    #[error("it is longer than {MAX_FILE} bytes")]
    Long,
    /// It is a key file of another version.
    #[error("its format is not {FORMAT}; a newer version of the program may have made it")]
    Version,
    /// It has a field that no key file has.
    #[error("unknown field at line {line}, column {column}")]
    UnknownField {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// It is not the JSON of a key file.
    #[error("it does not read as one at line {line}, column {column}")]
    Json {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A field is missing, or has a value out of its range: in the words of the check that found it.
    #[error("{0}")]
    Value(String),
    /// The secret is not written in hexadecimal digits.
    #[error("the secret is not hexadecimal")]
    Secret,
    /// What it says makes no key.
    #[error("{0}")]
    Key(#[source] Box<KeyError>),
    /// Its check value is not that of its contents.
    #[error(
        "it was changed after it was made (its check value does not fit): take a copy of it, or, if you changed it on \
         purpose, take the line \"check\" out"
    )]
    Changed,
}

impl BadKeyFile {
    pub(super) fn key(error: KeyError) -> Self {
        Self::Key(Box::new(error))
    }
}
