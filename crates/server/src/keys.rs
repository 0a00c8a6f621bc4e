//! The watermark keys of a server, by tenant and day.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use jiff::civil::Date;
use verdigris::watermark::ring::{distinct, writer_among};
use verdigris::watermark::{KeyError, VocabularyId};
use verdigris::{DetectError, Error, Key, KeyRing, Reader};

/// Keys that cannot be used with a model.
#[derive(Debug, thiserror::Error)]
pub struct BadKeys {
    /// The name of the model, if there are several.
    pub model: Option<String>,
    /// The cause.
    pub source: Box<Error>,
}

impl fmt::Display for BadKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, source } = self;
        match (model, &**source) {
            (None, _) => write!(f, "{source}"),
            (Some(model), Error::Detect(DetectError::ForeignKey { .. })) => {
                write!(f, "the model {model:?}: {source}, or give --ring with a key for each tokenizer")
            }
            (Some(model), _) => write!(f, "the model {model:?}: {source}"),
        }
    }
}

/// The keys of a server for a model: one for all tenants, a ring, or both.
#[derive(Default)]
pub(crate) struct Keys {
    /// The key for tenants for which the ring has none.
    for_all: Option<Arc<Key>>,
    ring: Vec<Arc<Key>>,
}

impl Keys {
    /// The keys for the tokenizer of each model. Keys of the ring for other tokenizers are skipped, with a warning in
    /// the log.
    ///
    /// # Errors
    /// [`Error::Detect`] if `for_all` is for another tokenizer; [`Error::Key`] if the ring has no key for one of them,
    /// if a key carries payloads, which requests cannot set, or if `for_all` is a published key, which cannot write.
    pub(crate) fn of_models(
        for_all: Option<&Arc<Key>>,
        ring: Option<KeyRing>,
        models: &[(&str, &Reader)],
    ) -> Result<Vec<Self>, BadKeys> {
        let vocabularies: Vec<VocabularyId> = models.iter().map(|(_, reader)| reader.vocabulary()).collect();
        let path = ring.as_ref().map(|ring| ring.path().to_owned());
        let ring = ring.map(|ring| ring.for_vocabularies(&vocabularies)).transpose();
        let ring = ring.map_err(|source| BadKeys { model: None, source: Box::new(source.into()) })?;
        for skipped in ring.iter().flat_map(KeyRing::skipped) {
            tracing::warn!("{skipped}");
        }
        let ring: Option<Vec<Arc<Key>>> = ring.map(|ring| ring.into_keys().into_iter().map(Arc::new).collect());
        let each = models.iter().zip(&vocabularies).map(|((name, reader), vocabulary)| {
            let of_model = ring.as_ref().map(|ring| {
                let fits = |key: &&Arc<Key>| key.vocabulary().fingerprint() == vocabulary.fingerprint();
                ring.iter().filter(fits).cloned().collect::<Vec<_>>()
            });
            let keys = match (of_model, &path) {
                (Some(keys), Some(path)) if keys.is_empty() => {
                    let wanted = "for its tokenizer: make one with `verdigris key new --model`".into();
                    Err(KeyError::EmptyRing { path: path.clone(), wanted }.into())
                }
                (keys, _) => Self::new(for_all.cloned(), keys.unwrap_or_default(), reader),
            };
            keys.map_err(|source| BadKeys {
                model: (models.len() > 1).then(|| (*name).to_owned()),
                source: Box::new(source),
            })
        });
        each.collect()
    }

    fn new(for_all: Option<Arc<Key>>, ring: Vec<Arc<Key>>, reader: &Reader) -> Result<Self, Error> {
        if let Some(key) = &for_all {
            reader.fits(key)?;
            if key.is_published() {
                return Err(KeyError::Published { id: key.id().into() }.into());
            }
        }
        if let Some(key) = for_all.iter().chain(&ring).find(|key| key.payload_bits().is_some()) {
            return Err(KeyError::Payload { id: key.id().into(), carries: true }.into());
        }
        Ok(Self { for_all, ring })
    }

    /// Whether there are no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.for_all.is_none() && self.ring.is_empty()
    }

    /// See [`writer_for`].
    pub(crate) fn writer(&self, tenant: &str, day: Date) -> Option<&Arc<Key>> {
        writer_for(self.for_all.as_ref(), &self.ring, tenant, day)
    }

    /// The keys, of all days, with which texts are tested for a tenant: its own and those without a tenant; all keys if
    /// `tenant` is `None`. Of keys with the same mark, one is returned.
    pub(crate) fn readers(&self, tenant: Option<&str>) -> Vec<Arc<Key>> {
        let theirs = |key: &&Arc<Key>| tenant.is_none_or(|tenant| key.tenant() == tenant || key.tenant().is_empty());
        distinct(self.for_all.iter().chain(self.ring.iter().filter(theirs)).cloned())
    }
}

/// The key that marks texts for a tenant on a day. A tenant with its own keys in the ring only uses those; all others
/// use the keys without a tenant, or else the key for all tenants.
pub fn writer_for<'k, K: Borrow<Key>>(for_all: Option<&'k K>, ring: &'k [K], tenant: &str, day: Date) -> Option<&'k K> {
    let among = |tenant| writer_among(ring.iter().map(Borrow::borrow), day, tenant).map(|index| &ring[index]);
    let has_own = !tenant.is_empty() && ring.iter().any(|key| key.borrow().tenant() == tenant);
    if has_own { among(tenant) } else { among("").or(for_all) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris::Marking;
    use verdigris::watermark::Period;

    fn key(id: &str, tenant: &str, from: Option<&str>, until: Option<&str>) -> Arc<Key> {
        let key = Key::generate(Marking::lists(), VocabularyId::new(100, "x").unwrap());
        let key = key.with_id(id).unwrap().with_tenant(tenant).unwrap();
        Arc::new(key.with_period(Period::new(from, until).unwrap()))
    }

    #[test]
    fn a_tenants_own_keys_come_first_and_alone() {
        let ring = vec![
            key("old", "", None, Some("2026-06-30")),
            key("new", "", Some("2026-06-01"), Some("2026-12-31")),
            key("ann-1", "ann", Some("2026-01-01"), Some("2026-06-30")),
            key("ann-2", "ann", Some("2026-07-01"), Some("2026-09-30")),
        ];
        let keys = Keys { for_all: Some(key("last", "", None, None)), ring };
        let writer = |tenant, day: &str| keys.writer(tenant, day.parse().unwrap()).map(|key| key.id().to_owned());
        for (tenant, day, id) in [
            ("ann", "2026-05-01", Some("ann-1")),
            ("ann", "2026-07-01", Some("ann-2")),
            // Her keys have ended: her texts are not marked with another tenant's.
            ("ann", "2026-10-01", None),
            ("ben", "2026-05-01", Some("old")),
            ("ben", "2026-06-15", Some("new")),
            ("", "2026-06-15", Some("new")),
            ("", "2027-01-01", Some("last")),
        ] {
            assert_eq!(writer(tenant, day).as_deref(), id, "{tenant} on {day}");
        }
        let ids = |tenant| keys.readers(tenant).iter().map(|key| key.id().to_owned()).collect::<Vec<_>>();
        assert_eq!(ids(Some("ben")), ["last", "old", "new"]);
        assert_eq!(ids(Some("ann")), ["last", "old", "new", "ann-1", "ann-2"]);
        assert_eq!(ids(None).len(), 5);
        let alone = Keys { for_all: None, ring: vec![key("ann-1", "ann", None, None)] };
        assert!(alone.writer("ben", "2026-05-01".parse().unwrap()).is_none() && alone.readers(Some("ben")).is_empty());
    }
}
