//! Entries as JSON, and on a terminal.

use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;
use verdigris_ledger::Entry;

use crate::terminal::shown_line;

/// The JSON fields of an entry; docs/json.md describes them.
#[derive(Serialize)]
pub(super) struct EntryFields<'a> {
    id: &'a str,
    part: u32,
    tenant: &'a str,
    time: String,
    key_id: Option<&'a str>,
    payload: Option<u32>,
    sha256: String,
    manifest_sha256: Option<String>,
    manifest: Option<String>,
}

impl<'a> From<&'a Entry> for EntryFields<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            id: &entry.id,
            part: entry.part,
            tenant: &entry.tenant,
            time: entry.time.to_string(),
            key_id: entry.key_id.as_deref(),
            payload: entry.payload,
            sha256: HEXLOWER.encode(&entry.digest),
            manifest_sha256: entry.manifest_digest.map(|digest| HEXLOWER.encode(&digest)),
            manifest: entry.manifest.as_deref().map(|manifest| BASE64.encode(manifest)),
        }
    }
}

/// The names of an entry's columns.
pub(super) const HEADER: &str = "time (UTC)           key              tenant    id";

/// An entry as a row of a table.
pub(super) fn row(entry: &Entry) -> String {
    let or_none = |text: &str| if text.is_empty() { "-".to_owned() } else { shown_line(text).into_owned() };
    let time = entry.time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let (key, tenant) = (or_none(entry.key_id.as_deref().unwrap_or_default()), or_none(&entry.tenant));
    let part = if entry.part > 0 { format!(", text {}", entry.part) } else { String::new() };
    format!("{time:<20} {key:<16} {tenant:<9} {}{part}", shown_line(&entry.id))
}
