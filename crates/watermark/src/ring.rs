//! A folder of keys: the one that writes today, and all that have ever written.

use std::path::{Path, PathBuf};

use jiff::civil::Date;

use crate::key::{Key, KeyError};

/// The most keys of a ring: every one costs some of a p-value.
pub const MAX_KEYS: usize = 10_000;

/// The keys of a folder, by file name.
#[derive(Debug)]
pub struct KeyRing {
    path: PathBuf,
    keys: Vec<Key>,
}

impl KeyRing {
    /// Reads all files of a folder that end in `.key` or `.json`. One that is no key is an error: a ring that lost a
    /// key without a word would call marked texts unmarked.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let ring = |source| KeyError::Ring { path: path.into(), source };
        let mut files = Vec::new();
        for entry in path.read_dir().map_err(ring)? {
            let file = entry.map_err(ring)?.path();
            let hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if !hidden && file.extension().is_some_and(|kind| kind == "key" || kind == "json") {
                files.push(file);
            }
        }
        files.sort();
        if files.is_empty() {
            let wanted = "file: its keys end in .key or .json".into();
            return Err(KeyError::EmptyRing { path: path.into(), wanted });
        }
        if files.len() > MAX_KEYS {
            let many = std::io::Error::other(format!("it holds {} keys, and at most {MAX_KEYS} are read", files.len()));
            return Err(ring(many));
        }
        let keys = files.iter().map(|file| Key::load(file)).collect::<Result<_, _>>()?;
        Ok(Self { path: path.into(), keys })
    }

    /// All keys, past and future ones too.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The key to write with on a day, for a tenant (empty for none in particular): of those whose period holds the
    /// day, the one that began last.
    pub fn writer(&self, day: Date, tenant: &str) -> Result<&Key, KeyError> {
        Ok(&self.keys[self.writer_index(day, tenant)?])
    }

    /// As [`KeyRing::writer`], and gives the key away.
    pub fn into_writer(mut self, day: Date, tenant: &str) -> Result<Key, KeyError> {
        let index = self.writer_index(day, tenant)?;
        Ok(self.keys.swap_remove(index))
    }

    /// All keys.
    pub fn into_keys(self) -> Vec<Key> {
        self.keys
    }

    fn writer_index(&self, day: Date, tenant: &str) -> Result<usize, KeyError> {
        let usable = |key: &Key| key.tenant() == tenant && key.period().contains(day);
        let usable = (0..self.keys.len()).filter(|&i| usable(&self.keys[i]));
        usable.max_by_key(|&i| self.keys[i].period().from).ok_or_else(|| {
            let whose = if tenant.is_empty() { String::new() } else { format!(" for the tenant {tenant}") };
            KeyError::EmptyRing { path: self.path.clone(), wanted: format!("to write with on {day}{whose}") }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Marking, Period, Vocabulary};

    #[test]
    fn the_latest_usable_key_writes_and_all_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let day = |text: &str| text.parse::<Date>().unwrap();
        let vocabulary = || Vocabulary { size: 100, fingerprint: "x".into() };
        for (id, tenant, from, until) in [
            ("old", "", None, Some("2026-06-30")),
            ("new", "", Some("2026-06-01"), None),
            ("acme", "acme", Some("2026-01-01"), Some("2026-12-31")),
        ] {
            let key = Key::generate(Marking::default(), vocabulary()).with_id(id).with_tenant(tenant);
            key.with_period(Period::new(from, until).unwrap()).save(&folder.path().join(format!("{id}.key"))).unwrap();
        }
        std::fs::write(folder.path().join("README.txt"), "not a key").unwrap();
        let ring = KeyRing::load(folder.path()).unwrap();
        assert_eq!(ring.keys().len(), 3);
        let writer = |on, tenant| ring.writer(day(on), tenant).map(Key::id).map_err(|error| error.to_string());
        assert_eq!(writer("2026-05-01", ""), Ok("old"));
        assert_eq!(writer("2026-06-15", ""), Ok("new"));
        assert_eq!(writer("2026-06-15", "acme"), Ok("acme"));
        assert!(writer("2027-01-01", "acme").unwrap_err().contains("2027-01-01 for the tenant acme"));
        std::fs::write(folder.path().join("broken.key"), "{}").unwrap();
        assert!(KeyRing::load(folder.path()).is_err(), "a broken key is not passed over");
        let empty = tempfile::tempdir().unwrap();
        assert!(KeyRing::load(empty.path()).unwrap_err().to_string().contains("no key"));
        assert!(KeyRing::load(&empty.path().join("none")).is_err());
    }
}
