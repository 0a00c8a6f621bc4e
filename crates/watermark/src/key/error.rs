//! Errors of keys and key files.

use std::io;
use std::path::PathBuf;

use super::format::{FORMAT, MAX_FILE, MAX_NAME, MAX_VARIANTS};
use super::period::BadPeriod;
use crate::dialect::BadDialect;

/// A key that could not be read, made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file could not be opened or read.
    #[error("cannot read the key file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Other users can read the file.
    #[error(
        "the key file {path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`, and make a new key if it \
         was copied"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file could not be created or written.
    #[error("cannot write the key file {path}: {source}{hint}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
        /// A hint for the user.
        hint: &'static str,
    },
    /// The file is not a key file.
    #[error("{path} is not a key file: {fault}")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// The fault, without quoting the file.
        fault: BadKeyFile,
    },
    /// The file claims to be a key file but cannot be read as one.
    #[error("the key file {path} cannot be used: {fault}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault, without quoting the file.
        fault: BadKeyFile,
    },
    /// The parameters do not make a scheme.
    #[error(transparent)]
    Dialect(#[from] BadDialect),
    /// A name that is too long for a key file.
    #[error("the {what} is {bytes} bytes long, but may have {MAX_NAME}")]
    Name {
        /// The name that is too long: `id` or `tenant`.
        what: &'static str,
        /// Its length in bytes.
        bytes: usize,
    },
    /// A number of variants that the key cannot have.
    #[error(
        "a key cannot have {variants} variants here: keys of Verdigris' own dialects without a payload have 1 to \
         {MAX_VARIANTS}, and others have 1"
    )]
    VariantCount {
        /// The number.
        variants: u8,
    },
    /// The key has several variants, and none is chosen.
    #[error("the key {id} has {variants} variants, and a text is written with one of them: choose one")]
    Variants {
        /// The key's id.
        id: String,
        /// The number of its variants.
        variants: u8,
    },
    /// The key has no public part.
    #[error("the key {id} has no public part: make a key with `key new --public-part`, which only keys of noise have")]
    NoPublicPart {
        /// The key's id.
        id: String,
    },
    /// The key is published, and cannot write.
    #[error("the key {id} is a published one, which finds marks and writes none: give the key that it is a part of")]
    Published {
        /// The key's id.
        id: String,
    },
    /// The key carries payloads and none is given, or the other way round.
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
    /// An invalid period.
    #[error(transparent)]
    Period(#[from] BadPeriod),
    /// The folder of a ring could not be read.
    #[error("cannot read the key ring {path}: {source}")]
    Ring {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The ring has no usable key.
    #[error("the key ring {path} has no key {wanted}")]
    EmptyRing {
        /// The folder.
        path: PathBuf,
        /// The kind of key that was looked for.
        wanted: String,
    },
}

/// A fault in the contents of a key file. Never quotes them, since they may hold a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadKeyFile {
    /// It has no content.
    #[error("it is empty")]
    Empty,
    /// It does not name the format of key files.
    #[error("it does not name the format {FORMAT}")]
    NoFormat,
    /// It is longer than [`MAX_FILE`].
    #[error("it is longer than {MAX_FILE} bytes")]
    Long,
    /// It is a key file of another version.
    #[error("its format is not {FORMAT}; a newer version of the program may have made it")]
    Version,
    /// It has an unknown field.
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
    /// A field is missing or out of range, in the words of the check that found it.
    #[error("{0}")]
    Value(String),
    /// The secret is not written in hexadecimal digits.
    #[error("the secret is not hexadecimal")]
    Secret,
    /// Its fields do not make a key.
    #[error("{0}")]
    Key(#[source] Box<KeyError>),
    /// Its check value does not match its contents.
    #[error(
        "it was changed after it was made (its check value does not fit): restore it from a copy or, if you changed it \
         on purpose, remove the line \"check\""
    )]
    Changed,
}

impl BadKeyFile {
    pub(super) fn key(error: KeyError) -> Self {
        Self::Key(Box::new(error))
    }
}
