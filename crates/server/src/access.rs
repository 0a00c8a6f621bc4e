//! API keys: a file with one named key per line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The minimum length of a key.
const SHORTEST: usize = 16;

/// The API keys, which requests send as `Authorization: Bearer KEY` or `x-api-key: KEY`.
#[derive(Default)]
pub struct ApiKeys {
    /// The file, for reloading.
    path: Option<PathBuf>,
    keys: Vec<ApiKey>,
}

struct ApiKey {
    name: Arc<str>,
    rights: Rights,
    /// SHA-256 of the key, so that no key stays in memory and comparison time does not depend on its length.
    digest: [u8; 32],
}

/// The rights of a key, in addition to the addresses that are open to every key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Access to `/metrics`, which covers all tenants.
    pub(crate) metrics: bool,
    /// Access to all results of `/detect`, not only the verdict: p-values, scores and colours, at any level.
    pub(crate) detect: bool,
}

impl Rights {
    /// The rights of clients if no key is required.
    pub(crate) const ALL: Self = Self { metrics: true, detect: true };

    /// Adds a right by its name; `false` if the name is unknown.
    fn add(&mut self, name: &str) -> bool {
        match name {
            "metrics" => self.metrics = true,
            "detect" => self.detect = true,
            _ => return false,
        }
        true
    }
}

/// Shows names only.
impl std::fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.name)).finish()
    }
}

/// Why a file of API keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is malformed.
    #[error("{}, line {line}: {fault}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The fault.
        fault: &'static str,
    },
    /// The file has no keys.
    #[error("{}: the file has no keys: add a line NAME KEY for each", .0.display())]
    Empty(PathBuf),
}

impl ApiKeys {
    /// Reads a file with a line `NAME KEY` for each key, followed by its rights (`metrics`, `detect`), if it has any.
    /// Keys have at least 16 characters. Empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// [`AccessError`]; no error contains a key.
    pub fn load(path: &Path) -> Result<Self, AccessError> {
        let text = std::fs::read_to_string(path).map(Zeroizing::new);
        let text = text.map_err(|source| AccessError::Read { path: path.into(), source })?;
        let mut keys: Vec<ApiKey> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let bad = |fault| AccessError::Line { path: path.into(), line, fault };
            let mut words = text.split_whitespace();
            let (Some(name), Some(secret)) = (words.next(), words.next()) else {
                return Err(bad("expected a name and a key"));
            };
            if secret.len() < SHORTEST {
                return Err(bad("the key is shorter than 16 characters"));
            }
            if keys.iter().any(|key| &*key.name == name) {
                return Err(bad("an earlier line has the same name"));
            }
            let mut rights = Rights::default();
            if !words.all(|right| rights.add(right)) {
                return Err(bad(
                    "there is an unknown right after the name and the key: the rights are metrics and detect",
                ));
            }
            let digest: [u8; 32] = Sha256::digest(secret).into();
            if keys.iter().any(|key| key.digest == digest) {
                return Err(bad("an earlier line has the same key under another name"));
            }
            keys.push(ApiKey { name: name.into(), rights, digest });
        }
        if keys.is_empty() { Err(AccessError::Empty(path.into())) } else { Ok(Self { path: Some(path.into()), keys }) }
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// See [`ApiKeys::load`].
    pub(crate) fn reloaded(&self) -> Result<Self, AccessError> {
        self.path.as_deref().map_or_else(|| Ok(Self::default()), Self::load)
    }

    /// Whether no key is required.
    pub(crate) fn is_open(&self) -> bool {
        self.keys.is_empty()
    }

    /// The names of all keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| &*key.name)
    }

    /// The name and the rights of the key in a header `Authorization`.
    pub(crate) fn holder(&self, header: Option<&str>) -> Option<(&Arc<str>, Rights)> {
        let (scheme, given) = header.and_then(|header| header.split_once(' '))?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        self.holder_of(given)
    }

    /// The name and the rights of a key. All keys are compared, each in constant time.
    pub(crate) fn holder_of(&self, given: &str) -> Option<(&Arc<str>, Rights)> {
        let given: [u8; 32] = Sha256::digest(given.trim()).into();
        let mut found = None;
        for key in &self.keys {
            if bool::from(key.digest.ct_eq(&given)) {
                found = Some((&key.name, key.rights));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<ApiKeys, AccessError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ApiKeys::load(file.path())
    }

    #[test]
    fn a_key_opens_and_nothing_else_does() {
        let keys = loaded("# team\nann 0123456789abcdef\n\nben fedcba9876543210  metrics\n").unwrap();
        let name_of = |header| keys.holder(header).map(|(name, _)| &**name);
        assert_eq!(name_of(Some("Bearer 0123456789abcdef")), Some("ann"));
        // The scheme is case-insensitive: RFC 9110, section 11.1.
        assert_eq!(name_of(Some("bearer fedcba9876543210 ")), Some("ben"));
        let may_read_metrics = |header| keys.holder(header).map(|(_, rights)| rights.metrics);
        assert_eq!(may_read_metrics(Some("Bearer 0123456789abcdef")), Some(false));
        assert_eq!(may_read_metrics(Some("Bearer fedcba9876543210")), Some(true));
        let others = [
            None,
            Some(""),
            Some("Bearer "),
            Some("Basic 0123456789abcdef"),
            Some("Bearer 0123456789ABCDEF"),
            Some("0123456789abcdef"),
            Some("Bearer 0123456789abcde"),
            Some("Bearer 0123456789abcdef0"),
        ];
        assert!(others.iter().all(|header| keys.holder(*header).is_none()));
        assert_eq!(keys.holder_of("fedcba9876543210").map(|(name, _)| &**name), Some("ben"));
        assert!(keys.holder_of("").is_none() && keys.holder_of("Bearer fedcba9876543210").is_none());
        assert_eq!(format!("{keys:?}"), r#"["ann", "ben"]"#);
    }

    #[test]
    fn bad_files_are_refused_without_showing_a_key() {
        for (text, fault) in [
            ("", "no key"),
            ("0123456789abcdef", "line 1: expected a name"),
            ("ann 0123456789abcdef more", "line 1: there is an unknown right"),
            ("ann 0123456789abcdef metrics 0123456789abcdef", "line 1: there is an unknown right"),
            ("\nann short", "line 2: the key is shorter"),
            ("a 0123456789abcdef\na fedcba9876543210", "line 2: an earlier line has the same name"),
            ("a 0123456789abcdef\nb 0123456789abcdef", "line 2: an earlier line has the same key"),
        ] {
            let error = loaded(text).unwrap_err().to_string();
            assert!(error.contains(fault) && !error.contains("0123456789abcdef"), "{error}");
        }
    }
}
