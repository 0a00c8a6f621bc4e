//! Errors of reports and their keys.

use std::io;
use std::path::PathBuf;

use serde_json::error::Category;

use super::payload::{FORMAT, MAX_REPORT};

/// A report that could not be signed or verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The report is too long.
    #[error("the report is longer than {} MiB", MAX_REPORT >> 20)]
    Long,
    /// The file could not be read.
    #[error("it cannot be read: {0}")]
    Read(String),
    /// The data is not a signed report.
    #[error("it is not a signed report, or it is damaged: {0}")]
    Damaged(&'static str),
    /// The report is of a version that this program does not know.
    #[error("the report has the format {0:?}, but this program reads {FORMAT}: use a newer version of it")]
    Version(String),
    /// The report is signed with a key that is not among the given ones.
    #[error("the report names the key {kid:?}, which is not the given one ({given})")]
    OtherKey {
        /// The thumbprint that the report names.
        kid: String,
        /// Those of the given keys.
        given: String,
    },
    /// The signature does not match the contents.
    #[error("the signature is wrong: the report was changed, or was not signed with this key")]
    Signature,
    /// The report is about another text.
    #[error("the report is about another text, of {bytes} bytes with the SHA-256 {sha256}")]
    OtherText {
        /// The hash of the text that it is about.
        sha256: String,
        /// The length of that text.
        bytes: u64,
    },
}

impl ReportError {
    /// The name of the error in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Long => "too_long",
            Self::Read(_) => "unreadable",
            Self::Damaged(_) => "damaged",
            Self::Version(_) => "unknown_version",
            Self::OtherKey { .. } => "other_key",
            Self::Signature => "wrong_signature",
            Self::OtherText { .. } => "other_text",
        }
    }

    /// Whether the report was read, and refuted: it is not what the caller takes it for.
    pub fn is_refuted(&self) -> bool {
        matches!(self, Self::OtherKey { .. } | Self::Signature | Self::OtherText { .. })
    }
}

impl ReportError {
    /// The fault of a part of a file that is not a signed report.
    pub(super) fn of(error: &serde_json::Error, is_long: bool) -> Self {
        match error.classify() {
            _ if is_long => Self::Long,
            Category::Io => Self::Read(error.to_string()),
            Category::Eof => Self::Damaged("it ends early"),
            Category::Syntax => Self::Damaged("it is not JSON"),
            Category::Data => Self::Damaged("it has not exactly the fields payload, protected and signature"),
        }
    }
}

/// A key of reports that could not be read, used or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportKeyError {
    /// The file could not be read.
    #[error("cannot read the report key {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Other users can read the private key.
    #[error(
        "the report key {0} can be read by others (mode {mode:04o}): run `chmod 600 {0}`, and make a new key if it was \
         copied", path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a key that can be used.
    #[error("the report key {} cannot be used: {fault}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// The fault, without quoting the file.
        fault: BadReportKey,
    },
    /// The file could not be written.
    #[error("cannot write the report key {}: {source}{hint}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
        /// A hint for the user.
        hint: &'static str,
    },
}

/// A fault in a key of reports. Never quotes it, since it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReportKey {
    /// The file is too long.
    #[error("it is longer than a key")]
    Long,
    /// A private key is encrypted.
    #[error("it is encrypted: decrypt it with `openssl pkey -in FILE`")]
    Encrypted,
    /// There is a public key instead of a private one.
    #[error("it is a public key, and only the private key signs")]
    Public,
    /// There is a private key instead of a public one.
    #[error("it is a private key: give the public one, `openssl pkey -pubout -in FILE`")]
    Private,
    /// It is not PEM of an Ed25519 key.
    #[error("it is not an Ed25519 private key in PEM (PKCS#8): `verdigris key report FILE` makes one")]
    NotPrivate,
    /// It is not a public Ed25519 key.
    #[error("it is not an Ed25519 public key: PEM, a JWK, or a JWK set")]
    NotPublic,
    /// The key is of small order: every signature would be valid.
    #[error("it is a weak key, for which anyone can make signatures")]
    Weak,
}
