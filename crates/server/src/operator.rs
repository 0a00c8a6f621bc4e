//! What an operator gives a server beside its model: who may ask, what marks their answers, and where that is put on
//! record.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use verdigris::watermark::KeyError;
use verdigris::{Error, Key, KeyRing, Reader};

use crate::access::{AccessError, ApiKeys, Rights};
use crate::audit::{AuditLog, Entry};
use crate::keys::Keys;
use crate::protocol::Refusal;

/// Who may ask, what marks, and the record of it. The first two can be read again while requests are answered.
pub(crate) struct Operator {
    /// The one key that is not read again: it may have come by a pipe.
    key: Option<Arc<Key>>,
    ring: Option<PathBuf>,
    secrets: RwLock<Arc<Secrets>>,
    audit: Option<AuditLog>,
}

/// What was read at one time, and holds for whole requests.
struct Secrets {
    api_keys: ApiKeys,
    keys: Keys,
}

/// Why secrets that were read again are not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Keys(#[from] Error),
    #[error("the audit log cannot be opened anew: {0}")]
    Audit(#[from] std::io::Error),
}

impl Operator {
    /// Refuses keys that fit no text of the model.
    pub(crate) fn new(
        key: Option<Key>,
        ring: Option<KeyRing>,
        api_keys: ApiKeys,
        audit: Option<AuditLog>,
        reader: &Reader,
    ) -> Result<Self, Error> {
        let key = key.map(Arc::new);
        let path = ring.as_ref().map(|ring| ring.path().to_owned());
        let secrets = Secrets::new(key.clone(), ring, api_keys, reader)?;
        Ok(Self { key, ring: path, secrets: RwLock::new(Arc::new(secrets)), audit })
    }

    /// Reads the ring and the file of API keys again, and goes on in a new audit log where the old one was moved away.
    ///
    /// # Errors
    /// Where one of them cannot be used: then everything stays as it was, but for the audit log.
    pub(crate) async fn reload(&self, reader: &Reader) -> Result<(), ReloadError> {
        if let Some(audit) = &self.audit {
            audit.reopen().await?;
        }
        let api_keys = self.secrets().api_keys.reloaded()?;
        let ring = self.ring.as_deref().map(KeyRing::load).transpose()?;
        let secrets = Arc::new(Secrets::new(self.key.clone(), ring, api_keys, reader)?);
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(())
    }

    fn secrets(&self) -> Arc<Secrets> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The name and the rights of the client that sends a header `Authorization`; the name is empty where no key is
    /// needed. None where the key is wrong.
    pub(crate) fn holder(&self, authorization: Option<&str>) -> Option<(Arc<str>, Rights)> {
        let secrets = self.secrets();
        if secrets.api_keys.is_open() {
            return Some(("".into(), Rights::ALL));
        }
        secrets.api_keys.holder(authorization).map(|(name, rights)| (name.clone(), rights))
    }

    /// Whether all requests are one tenant's.
    pub(crate) fn has_one_tenant(&self) -> bool {
        self.secrets().api_keys.names().count() < 2
    }

    /// Whether answers are marked unless they are not to be.
    pub(crate) fn marks(&self) -> bool {
        !self.secrets().keys.is_empty()
    }

    /// The key that marks what is written for a tenant today.
    pub(crate) fn writer(&self, tenant: &str) -> Option<Arc<Key>> {
        self.secrets().keys.writer(tenant, Timestamp::now().to_zoned(TimeZone::UTC).date()).cloned()
    }

    /// The keys that texts are looked at with for a tenant, each once: its own and those of nobody in particular, of
    /// all days. Where everybody may ask, all.
    pub(crate) fn readers(&self, tenant: &str) -> Vec<Arc<Key>> {
        let secrets = self.secrets();
        secrets.keys.readers(Some(tenant).filter(|_| !secrets.api_keys.is_open()))
    }

    /// Puts an answer on record, before it ends.
    ///
    /// # Errors
    /// Where that cannot be done: then the answer may not be given.
    pub(crate) async fn enter(&self, entry: &Entry) -> Result<(), Refusal> {
        let Some(audit) = &self.audit else { return Ok(()) };
        audit.enter(entry).await.map_err(|_| {
            let message = "the audit log cannot be written, and nothing is answered without: tell the operator";
            Refusal::new(503, "audit_unavailable", message)
        })
    }

    /// Puts on record that an answer was cut off, without waiting.
    pub(crate) fn note(&self, entry: &Entry) {
        if let Some(audit) = &self.audit {
            audit.note(entry);
        }
    }
}

impl Secrets {
    fn new(key: Option<Arc<Key>>, ring: Option<KeyRing>, api_keys: ApiKeys, reader: &Reader) -> Result<Self, Error> {
        let secrets = Self { keys: Keys::new(key, ring, reader)?, api_keys };
        let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
        if !secrets.keys.is_empty() {
            for name in secrets.api_keys.names().filter(|name| secrets.keys.writer(name, today).is_none()) {
                tracing::warn!(tenant = name, "there is no key for this tenant today: its requests are refused");
            }
        }
        Ok(secrets)
    }
}
