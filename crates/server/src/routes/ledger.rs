//! The entries of an answer in the ledger.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use data_encoding::{BASE64, HEXLOWER};
use serde::Serialize;

use super::computed;
use crate::caller::Caller;
use crate::ledger::LedgerEntry;
use crate::protocol::Refusal;
use crate::service::Service;

/// The entries of an answer. `docs/serve.md` describes the fields.
#[derive(Serialize)]
pub(super) struct Manifest {
    id: String,
    texts: Vec<ManifestText>,
}

#[derive(Serialize)]
struct ManifestText {
    index: u32,
    time: String,
    key_id: Option<String>,
    sha256: String,
    manifest_sha256: Option<String>,
    manifest: Option<String>,
}

impl From<LedgerEntry> for ManifestText {
    fn from(entry: LedgerEntry) -> Self {
        Self {
            index: entry.index,
            time: entry.time.to_string(),
            key_id: entry.key_id,
            sha256: HEXLOWER.encode(&entry.digest),
            manifest_sha256: entry.manifest_digest.map(|digest| HEXLOWER.encode(&digest)),
            manifest: entry.manifest.map(|manifest| BASE64.encode(&manifest)),
        }
    }
}

pub(super) async fn manifest(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Manifest>, Refusal> {
    // An id that is not UTF-8 is not that of an answer. Answers of other tenants are unknown, too.
    let unknown = || Refusal::new(404, "unknown_answer", "the ledger of this server has no such answer of yours");
    let Path(id) = id.map_err(|_| unknown())?;
    let entries = computed(move || service.operator.recorded(&caller.tenant, &id).map(|entries| (id, entries)));
    let (id, entries) = entries.await??;
    match entries.is_empty() {
        true => Err(unknown()),
        false => Ok(Json(Manifest { id, texts: entries.into_iter().map(Into::into).collect() })),
    }
}
