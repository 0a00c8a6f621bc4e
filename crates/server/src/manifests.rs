//! The C2PA manifests of texts, which an answer returns next to them.

use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Map, Value};
use verdigris::Key;

use crate::options::{Options, Signer};
use crate::protocol::Refusal;
use crate::protocol::ask::Ask;
use crate::turns::Turns;

/// The number of texts that are signed at the same time, of which one is kept for a tenant that signs no other.
const AT_A_TIME: usize = 9;

/// The manifest store of a text, or `None` if the text could not be signed. The log has the reason, which may name
/// files of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestField(Option<Vec<u8>>);

impl ManifestField {
    /// The status in the audit log and in metrics.
    pub(crate) fn status(&self) -> &'static str {
        if self.0.is_some() { "signed" } else { "failed" }
    }

    /// The manifest store.
    pub(crate) fn store(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// Adds the field to the object of its text.
    pub(crate) fn add_to(&self, object: &mut Map<String, Value>) {
        match &self.0 {
            Some(manifest) => object.insert("c2pa".into(), BASE64.encode(manifest).into()),
            None => object.insert("c2pa_error".into(), "the text could not be signed: see the server's log".into()),
        };
    }
}

/// Signs the texts of all requests.
pub(crate) struct Manifests {
    signer: Option<Arc<dyn Signer>>,
    /// Whether texts must be signed.
    is_required: bool,
    turns: Turns,
}

impl Manifests {
    pub(crate) fn new(options: &Options) -> Self {
        let (signer, is_required) = (options.signer.clone(), options.requires_manifests);
        Self { signer, is_required, turns: Turns::new(AT_A_TIME) }
    }

    /// Whether the texts of a request are signed.
    pub(crate) fn are_for(&self, ask: &Ask) -> Result<bool, Refusal> {
        match (ask.c2pa, &self.signer) {
            (Some(true), None) => Err(Refusal::field(
                "c2pa",
                "no_signer",
                "a manifest is requested, but this server signs no texts: leave the field out, or use another server",
            )),
            (Some(false), Some(_)) if self.is_required => {
                let message = "this server signs all texts that it writes: leave the field out";
                Err(Refusal::field("c2pa", "c2pa_enforced", message))
            }
            (Some(false), _) | (_, None) => Ok(false),
            (_, Some(_)) => Ok(true),
        }
    }

    /// Signs a text of a model, when it is the tenant's turn.
    pub(crate) async fn sign(
        &self,
        model: &str,
        text: &str,
        key: Option<Arc<Key>>,
        tenant: &Arc<str>,
        request_id: &str,
    ) -> Option<ManifestField> {
        let (signer, model, text) = (self.signer.clone()?, model.to_owned(), text.to_owned());
        let work = move || signer.sign(&model, &text, key.as_ref().map(|key| (key.dialect().name(), key.id())));
        let signed = self.turns.take(tenant).await.spend(work).await;
        let signed = signed.unwrap_or_else(|| Err("the signer panicked".into()));
        if let Err(error) = &signed {
            tracing::error!(request_id, %tenant, error, "a text could not be signed");
        }
        Some(ManifestField(signed.ok()))
    }

    /// The refusal of a text that could not be signed, if texts must be.
    pub(crate) fn refusal(&self, manifest: &ManifestField) -> Option<Refusal> {
        let message = "the text could not be signed, and this server returns no others: try again later";
        let refusal = Refusal::new(503, "c2pa_unavailable", message).retry_after(1);
        (self.is_required && manifest.store().is_none()).then_some(refusal)
    }
}
