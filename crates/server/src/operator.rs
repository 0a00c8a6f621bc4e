//! The operator's settings in addition to the model: API keys, watermark keys, the audit log and the ledger.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use verdigris::watermark::KeyError;
use verdigris::{Key, KeyRing, Reader};

use crate::access::{AccessError, ApiKeys, Rights};
use crate::audit::{AuditLog, Entry};
use crate::keys::{BadKeys, Keys};
use crate::ledger::{Ledger, LedgerEntry, LedgerText};
use crate::model_source::ModelSource;
use crate::models::{ModelId, Models};
use crate::protocol::Refusal;

/// API keys, watermark keys, the audit log and the ledger. Both kinds of keys can be reloaded while requests are
/// answered.
pub(crate) struct Operator {
    /// The key for all tenants, which is not reloaded: it may have come from a pipe.
    key: Option<Arc<Key>>,
    ring: Option<PathBuf>,
    secrets: RwLock<Arc<Secrets>>,
    audit: Option<AuditLog>,
    ledger: Option<Box<dyn Ledger>>,
}

/// The keys that were loaded together.
struct Secrets {
    api_keys: ApiKeys,
    /// The keys for each model.
    keys: Vec<Keys>,
}

/// Why reloaded keys are not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Keys(#[from] BadKeys),
    #[error("the audit log cannot be reopened: {0}")]
    Audit(#[from] std::io::Error),
}

impl Operator {
    /// # Errors
    /// If a model has keys that do not fit its tokenizer.
    pub(crate) fn new(
        key: Option<Key>,
        ring: Option<KeyRing>,
        api_keys: ApiKeys,
        audit: Option<AuditLog>,
        ledger: Option<Box<dyn Ledger>>,
        models: &[ModelSource],
    ) -> Result<Self, BadKeys> {
        let key = key.map(Arc::new);
        let path = ring.as_ref().map(|ring| ring.path().to_owned());
        let models = models.iter().map(|model| (&*model.name, &model.reader)).collect::<Vec<_>>();
        let secrets = Secrets::new(key.clone(), ring, api_keys, &models)?;
        Ok(Self { key, ring: path, secrets: RwLock::new(Arc::new(secrets)), audit, ledger })
    }

    /// Reads the ring and the file of API keys again, and continues in a new audit log if the old one was moved.
    ///
    /// # Errors
    /// If one of them cannot be used; then nothing changes, except for the audit log.
    pub(crate) async fn reload(&self, models: &Models) -> Result<(), ReloadError> {
        // Keys are read whatever becomes of the log: one of them may have leaked.
        let reopened = match &self.audit {
            Some(audit) => audit.reopen().await,
            None => Ok(()),
        };
        let api_keys = self.secrets().api_keys.reloaded()?;
        let ring = self.ring.as_deref().map(KeyRing::load).transpose()?;
        let models = models.all().map(|(_, model)| (model.name(), model.reader())).collect::<Vec<_>>();
        let secrets = Arc::new(Secrets::new(self.key.clone(), ring, api_keys, &models)?);
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(reopened?)
    }

    fn secrets(&self) -> Arc<Secrets> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name and the rights of the client that sends a header `Authorization` or an API key in `x-api-key`; the name
    /// is empty if no key is required. `None` if the key is wrong.
    pub(crate) fn holder(&self, authorization: Option<&str>, api_key: Option<&str>) -> Option<(Arc<str>, Rights)> {
        let secrets = self.secrets();
        if secrets.api_keys.is_open() {
            return Some(("".into(), Rights::ALL));
        }
        let keys = &secrets.api_keys;
        let holder = keys.holder(authorization).or_else(|| keys.holder_of(api_key?));
        holder.map(|(name, rights)| (name.clone(), rights))
    }

    /// Whether requests need an API key.
    pub(crate) fn has_api_keys(&self) -> bool {
        !self.secrets().api_keys.is_open()
    }

    /// Whether there is at most one tenant.
    pub(crate) fn has_one_tenant(&self) -> bool {
        self.secrets().api_keys.names().count() < 2
    }

    /// Whether answers are marked by default.
    pub(crate) fn marks(&self) -> bool {
        self.secrets().has_keys()
    }

    /// The key that marks texts of a model for a tenant today.
    pub(crate) fn writer(&self, model: ModelId, tenant: &str) -> Option<Arc<Key>> {
        self.secrets().keys[model.index()].writer(tenant, Timestamp::now().to_zoned(TimeZone::UTC).date()).cloned()
    }

    /// The keys, of all days, with which texts of a model are tested for a tenant, each once: its own and those without
    /// a tenant; all keys if no API key is required.
    pub(crate) fn readers(&self, model: ModelId, tenant: &str) -> Vec<Arc<Key>> {
        let secrets = self.secrets();
        secrets.keys[model.index()].readers(Some(tenant).filter(|_| !secrets.api_keys.is_open()))
    }

    /// Records an answer, before it ends.
    ///
    /// # Errors
    /// If that fails; then the answer must not be sent.
    pub(crate) async fn enter(&self, entry: &Entry) -> Result<(), Refusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        audit.enter(entry).await.map_err(|_| {
            let message = "the audit log cannot be written, and no answer is sent without it: tell the operator";
            Refusal::new(503, "audit_unavailable", message)
        })
    }

    /// Whether there is a ledger.
    pub(crate) fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    /// Records a text in the ledger, if there is one. Takes as long as the disk.
    ///
    /// # Errors
    /// If that fails; then the answer must not end.
    pub(crate) fn enter_text(&self, text: &LedgerText<'_>) -> Result<(), Refusal> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        ledger.enter(text).map_err(|error| {
            tracing::error!(%error, "the ledger cannot be written");
            let message = "the ledger cannot be written, and no answer is sent without it: contact the operator";
            Refusal::new(503, "ledger_unavailable", message)
        })
    }

    /// The entries of a tenant's answer in the ledger; none without a ledger.
    pub(crate) fn recorded(&self, tenant: &str, id: &str) -> Result<Vec<LedgerEntry>, Refusal> {
        let Some(ledger) = &self.ledger else {
            return Err(Refusal::new(404, "no_ledger", "this server keeps no ledger: start it with --ledger FILE"));
        };
        ledger.answer(tenant, id).map_err(|error| {
            tracing::error!(%error, "the ledger cannot be read");
            Refusal::new(503, "ledger_unavailable", "the ledger cannot be read: contact the operator")
        })
    }

    /// Removes old entries of the ledger.
    pub(crate) fn prune(&self) {
        if let Some(Err(error)) = self.ledger.as_ref().map(|ledger| ledger.prune()) {
            tracing::error!(%error, "old entries of the ledger cannot be removed");
        }
    }

    /// Waits until the audit log has all entries so far. Not for asynchronous code.
    pub(crate) fn close_audit(&self) {
        self.audit.iter().for_each(AuditLog::settle);
    }

    /// Records that an answer was cut off, without waiting.
    pub(crate) fn note(&self, entry: &Entry) {
        if let Some(audit) = &self.audit {
            audit.note(entry);
        }
    }
}

impl Secrets {
    /// The keys of models, by their names and tokenizers.
    fn new(
        key: Option<Arc<Key>>,
        ring: Option<KeyRing>,
        api_keys: ApiKeys,
        models: &[(&str, &Reader)],
    ) -> Result<Self, BadKeys> {
        let secrets = Self { keys: Keys::of_models(key.as_ref(), ring, models)?, api_keys };
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        if secrets.has_keys() {
            let everyone = secrets.api_keys.is_open().then_some("");
            for name in secrets.api_keys.names().chain(everyone) {
                for (keys, (model, _)) in secrets.keys.iter().zip(models) {
                    if keys.writer(name, today).is_some() {
                        continue;
                    }
                    match name {
                        "" => tracing::warn!(model, "no key is valid today: all requests are refused"),
                        _ => tracing::warn!(
                            tenant = name,
                            model,
                            "this tenant has no key today: its requests are refused"
                        ),
                    }
                }
            }
        }
        Ok(secrets)
    }

    /// Whether there are keys. If so, each model has some.
    fn has_keys(&self) -> bool {
        self.keys.iter().any(|keys| !keys.is_empty())
    }
}
