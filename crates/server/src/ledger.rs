//! The operator's ledger: a record of the texts of all answers, without the texts, which the program provides.

use jiff::Timestamp;

/// A record of texts.
pub trait Ledger: Send + Sync + std::fmt::Debug {
    /// Records a text. It is on disk when this returns.
    ///
    /// # Errors
    /// Why it cannot be recorded; then its answer is refused.
    fn enter(&self, text: &LedgerText<'_>) -> Result<(), String>;

    /// The entries of an answer of a tenant, in the order of its texts; none if the answer is unknown.
    ///
    /// # Errors
    /// Why the ledger cannot be read.
    fn answer(&self, tenant: &str, id: &str) -> Result<Vec<LedgerEntry>, String>;

    /// Removes entries that are older than the operator keeps them. Called at the start and once an hour.
    ///
    /// # Errors
    /// Why they cannot be removed.
    fn prune(&self) -> Result<(), String>;
}

/// A text to record.
#[derive(Clone, Copy, Debug)]
pub struct LedgerText<'a> {
    /// The id of the answer.
    pub id: &'a str,
    /// The number of the text in the answer, from 0.
    pub index: usize,
    /// The name of the API key; empty if none is required.
    pub tenant: &'a str,
    /// The id of the key that marks the text.
    pub key_id: Option<&'a str>,
    /// The text as it is delivered.
    pub text: &'a str,
    /// Its C2PA manifest store, if it is signed.
    pub manifest: Option<&'a [u8]>,
}

/// The entry of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The number of the text in the answer, from 0.
    pub index: u32,
    /// The time at which the text was complete.
    pub time: Timestamp,
    /// The id of the key that marks the text.
    pub key_id: Option<String>,
    /// SHA-256 of the text without white space at its ends.
    pub digest: [u8; 32],
    /// SHA-256 of the text's C2PA manifest store.
    pub manifest_digest: Option<[u8; 32]>,
    /// The manifest store.
    pub manifest: Option<Vec<u8>>,
}
