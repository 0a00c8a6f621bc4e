//! Entries, and the entries that match a text.

use jiff::Timestamp;

use crate::fingerprint::Fingerprint;

/// A text to record. Neither it nor its prompt is kept.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// The id of the answer. With `part` and `tenant` it names the entry.
    pub id: &'a str,
    /// The number of the text within the answer, from 0.
    pub part: u32,
    /// The tenant whose answer it is; empty without tenants.
    pub tenant: &'a str,
    /// The time at which the text was complete.
    pub time: Timestamp,
    /// The id of the key that marks the text.
    pub key_id: Option<&'a str>,
    /// The number that its mark carries.
    pub payload: Option<u32>,
    /// The text's C2PA manifest store.
    pub manifest: Option<&'a [u8]>,
    /// The fingerprint of the text.
    pub fingerprint: &'a Fingerprint,
}

impl<'a> NewEntry<'a> {
    /// The first text of an answer, complete at this moment, without a tenant, a key, a payload or a manifest.
    pub fn new(id: &'a str, fingerprint: &'a Fingerprint) -> Self {
        let (time, key_id, payload, manifest) = (Timestamp::now(), None, None, None);
        Self { id, part: 0, tenant: "", time, key_id, payload, manifest, fingerprint }
    }
}

/// An entry of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The id of the answer.
    pub id: String,
    /// The number of the text within the answer, from 0.
    pub part: u32,
    /// The tenant whose answer it is; empty without tenants.
    pub tenant: String,
    /// The time at which the text was complete, in milliseconds.
    pub time: Timestamp,
    /// The id of the key that marks the text.
    pub key_id: Option<String>,
    /// The number that its mark carries.
    pub payload: Option<u32>,
    /// SHA-256 of the text without white space at its ends.
    pub digest: [u8; 32],
    /// SHA-256 of the manifest store.
    pub manifest_digest: Option<[u8; 32]>,
    /// The manifest store.
    pub manifest: Option<Vec<u8>>,
}

/// An entry that matches a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The entry.
    pub entry: Entry,
    /// Whether the text is the one that was recorded, byte for byte except for white space at its ends.
    pub is_same: bool,
    /// The estimated Jaccard similarity of the sequences of five words in both texts.
    pub similarity: f64,
    /// The estimated share of the text's sequences of five words that the entry has too: near 1 for an excerpt.
    pub contained: f64,
}
