//! A folder of keys: the one that writes today, and all earlier ones.

use std::borrow::Borrow;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::civil::Date;

use crate::key::{BadKeyFile, Key, KeyError};
use crate::vocabulary_id::VocabularyId;

/// The most keys of a ring, since every key makes p-values larger.
pub const MAX_KEYS: usize = 10_000;

/// The keys of a folder, by file name.
#[derive(Debug)]
pub struct KeyRing {
    path: PathBuf,
    keys: Vec<(PathBuf, Key)>,
    skipped: Vec<Skipped>,
}

/// An unused file of a ring, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub file: PathBuf,
    /// The reason why the ring cannot use it.
    pub why: String,
}

/// Displays as in `keys/a.key is skipped: it is not a key file`.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is skipped: {}", self.file.display(), self.why)
    }
}

impl KeyRing {
    /// Reads all files of a folder that end in `.key` or `.json`. Other JSON, and keys in PEM or of SSH, are skipped
    /// and listed in [`KeyRing::skipped`]. A damaged or empty key file is an error, since a ring that lost a key would
    /// call marked texts unmarked.
    ///
    /// # Errors
    /// [`KeyError::Ring`] if the folder cannot be read, and the error of a damaged key.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let ring = |source| KeyError::Ring { path: path.into(), source };
        let mut files = Vec::new();
        if path.is_file() {
            return Err(ring(io::Error::other("it is a file, and a ring is a folder of key files")));
        }
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
            let many = io::Error::other(format!("it holds {} keys, and at most {MAX_KEYS} are read", files.len()));
            return Err(ring(many));
        }
        let (mut keys, mut skipped) = (Vec::new(), Vec::new());
        for file in files {
            match Key::load(&file) {
                Ok(key) => keys.push((file, key)),
                Err(KeyError::NotAKey { fault, .. }) if !matches!(fault, BadKeyFile::Empty) && is_foreign(&file) => {
                    skipped.push(Skipped { file, why: format!("it is not a key file: {fault}") });
                }
                // A file of this kind without content, or with damaged content, may have been a key.
                Err(KeyError::NotAKey { path, fault }) => return Err(KeyError::Malformed { path, fault }),
                Err(error) => return Err(error),
            }
        }
        Self { path: path.into(), keys, skipped }.checked()
    }

    fn checked(self) -> Result<Self, KeyError> {
        match (self.keys.is_empty(), self.skipped.first()) {
            (true, Some(first)) => {
                Err(KeyError::EmptyRing { path: self.path, wanted: format!("that can be used; {first}") })
            }
            _ => Ok(self),
        }
    }

    /// Keeps the keys for a tokenizer and skips the others.
    ///
    /// # Errors
    /// [`KeyError::EmptyRing`] if no key is left.
    pub fn for_vocabulary(self, vocabulary: &VocabularyId) -> Result<Self, KeyError> {
        self.for_vocabularies(std::slice::from_ref(vocabulary))
    }

    /// Like [`KeyRing::for_vocabulary`], for the keys of any of several tokenizers.
    ///
    /// # Errors
    /// [`KeyError::EmptyRing`] if no key is left.
    pub fn for_vocabularies(mut self, vocabularies: &[VocabularyId]) -> Result<Self, KeyError> {
        let fits = |(_, key): &(PathBuf, Key)| {
            vocabularies.iter().any(|vocabulary| key.vocabulary().fingerprint() == vocabulary.fingerprint())
        };
        let (keys, foreign): (Vec<_>, Vec<_>) = self.keys.into_iter().partition(fits);
        self.skipped.extend(foreign.into_iter().map(|(file, key)| {
            let theirs = key.vocabulary();
            let whose = theirs.model().map_or(String::new(), |model| format!(" of {model}"));
            Skipped { file, why: format!("it was made for another tokenizer{whose} ({} tokens)", theirs.size()) }
        }));
        self.skipped.sort_by(|a, b| a.file.cmp(&b.file));
        Self { keys, ..self }.checked()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, including past and future ones.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.keys.iter().map(|(_, key)| key)
    }

    /// All keys with their files.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&Path, &Key)> {
        self.keys.iter().map(|(file, key)| (&**file, key))
    }

    /// The files that are not used, by name.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The key to write with on a day, for a tenant (empty for none): of those whose period contains the day, the one
    /// with the latest first day.
    ///
    /// # Errors
    /// [`KeyError::EmptyRing`] if no key's period contains the day.
    pub fn writer(&self, day: Date, tenant: &str) -> Result<&Key, KeyError> {
        Ok(&self.keys[self.writer_index(day, tenant)?].1)
    }

    /// Like [`KeyRing::writer`], but consumes the ring and returns the key.
    ///
    /// # Errors
    /// [`KeyError::EmptyRing`] if no key's period contains the day.
    pub fn into_writer(mut self, day: Date, tenant: &str) -> Result<Key, KeyError> {
        let index = self.writer_index(day, tenant)?;
        Ok(self.keys.swap_remove(index).1)
    }

    /// All keys.
    pub fn into_keys(self) -> Vec<Key> {
        self.keys.into_iter().map(|(_, key)| key).collect()
    }

    fn writer_index(&self, day: Date, tenant: &str) -> Result<usize, KeyError> {
        let index = writer_among(self.keys.iter().map(|(_, key)| key), day, tenant);
        index.ok_or_else(|| {
            let whose = if tenant.is_empty() { String::new() } else { format!(" for the tenant {tenant}") };
            KeyError::EmptyRing { path: self.path.clone(), wanted: format!("to write with on {day}{whose}") }
        })
    }
}

/// Whether a file that is not a key file belongs to something else, by its name or its beginning.
fn is_foreign(file: &Path) -> bool {
    let mut beginning = [0; 10];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut beginning));
    let is_other_key = beginning.starts_with(b"-----BEGIN") || beginning.starts_with(b"ssh-");
    file.extension().is_some_and(|kind| kind == "json") || read.is_ok() && is_other_key
}

/// The index of the key that writes on a day, for a tenant, like [`KeyRing::writer`].
pub fn writer_among<'a>(keys: impl Iterator<Item = &'a Key>, day: Date, tenant: &str) -> Option<usize> {
    let usable =
        keys.enumerate().filter(|(_, key)| key.tenant() == tenant && key.period().contains(day) && !key.is_published());
    usable.max_by_key(|(_, key)| key.period().from()).map(|(index, _)| index)
}

/// Removes keys that mark like an earlier one.
pub fn distinct<K: Borrow<Key>>(keys: impl IntoIterator<Item = K>) -> Vec<K> {
    let mut kept: Vec<K> = Vec::new();
    for key in keys {
        if !kept.iter().any(|other| other.borrow().marks_as(key.borrow())) {
            kept.push(key);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Marking, Period};

    #[test]
    fn the_latest_usable_key_writes_and_all_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let day = |text: &str| text.parse::<Date>().unwrap();
        let vocabulary = || VocabularyId::new(100, "x").unwrap();
        for (id, tenant, from, until) in [
            ("old", "", None, Some("2026-06-30")),
            ("new", "", Some("2026-06-01"), None),
            ("acme", "acme", Some("2026-01-01"), Some("2026-12-31")),
        ] {
            let key = Key::generate(Marking::lists(), vocabulary()).with_id(id).unwrap().with_tenant(tenant).unwrap();
            key.with_period(Period::new(from, until).unwrap()).save(&folder.path().join(format!("{id}.key"))).unwrap();
        }
        std::fs::write(folder.path().join("README.txt"), "not a key").unwrap();
        let ring = KeyRing::load(folder.path()).unwrap();
        assert_eq!((ring.keys().len(), ring.skipped()), (3, &[][..]));
        let writer = |on, tenant| ring.writer(day(on), tenant).map(Key::id).map_err(|error| error.to_string());
        assert_eq!(writer("2026-05-01", ""), Ok("old"));
        assert_eq!(writer("2026-06-15", ""), Ok("new"));
        assert_eq!(writer("2026-06-15", "acme"), Ok("acme"));
        assert!(writer("2027-01-01", "acme").unwrap_err().contains("2027-01-01 for the tenant acme"));
        let empty = tempfile::tempdir().unwrap();
        assert!(KeyRing::load(empty.path()).unwrap_err().to_string().contains("no key"));
        assert!(KeyRing::load(&empty.path().join("none")).is_err());
    }

    #[test]
    fn what_is_no_key_is_skipped_and_a_key_that_is_broken_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |file: &str| folder.path().join(file);
        std::fs::write(path("stray.key"), "ssh-rsa AAAA").unwrap();
        let alone = KeyRing::load(folder.path()).unwrap_err().to_string();
        assert!(alone.contains("no key that can be used") && alone.contains("stray.key"), "{alone}");
        for (name, fingerprint) in [("ours", "x"), ("theirs", "y")] {
            let vocabulary = VocabularyId::new(100, fingerprint).unwrap().with_model(name);
            Key::generate(Marking::lists(), vocabulary).save(&path(&format!("{name}.key"))).unwrap();
        }
        let names = |ring: &KeyRing| -> Vec<String> {
            ring.skipped().iter().map(|skipped| skipped.file.file_name().unwrap().to_string_lossy().into()).collect()
        };
        let ring = KeyRing::load(folder.path()).unwrap();
        assert_eq!((ring.keys().len(), names(&ring)), (2, vec!["stray.key".into()]));
        let [x, y] = ["x", "y"].map(|fingerprint| VocabularyId::new(100, fingerprint).unwrap());
        let ring = ring.for_vocabularies(&[x.clone(), y]).unwrap();
        assert_eq!((ring.keys().len(), names(&ring)), (2, vec!["stray.key".into()]));
        let ring = ring.for_vocabulary(&x).unwrap();
        assert_eq!((ring.keys().len(), names(&ring)), (1, vec!["stray.key".into(), "theirs.key".into()]));
        assert!(ring.skipped()[1].to_string().contains("another tokenizer of theirs (100 tokens)"));
        assert!(ring.for_vocabulary(&VocabularyId::new(100, "z").unwrap()).is_err(), "no key is left");
        std::fs::write(path("gone.key"), "").unwrap();
        let gone = KeyRing::load(folder.path()).unwrap_err().to_string();
        assert!(gone.contains("gone.key cannot be used: it is empty"), "{gone}");
        std::fs::remove_file(path("gone.key")).unwrap();
        let private = |name: &str, bytes: &[u8]| {
            std::fs::write(path(name), bytes).unwrap();
            #[cfg(unix)]
            std::fs::set_permissions(path(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        };
        private("other.json", b"{}");
        private("server.key", b"-----BEGIN PRIVATE KEY-----");
        assert_eq!(KeyRing::load(folder.path()).unwrap().skipped().len(), 3);
        private("zeros.key", &[0; 400]);
        let zeros = KeyRing::load(folder.path()).unwrap_err().to_string();
        assert!(zeros.contains("zeros.key cannot be used: it does not name the format"), "{zeros}");
        std::fs::remove_file(path("zeros.key")).unwrap();
        let mut half = std::fs::read(path("ours.key")).unwrap();
        half.truncate(200);
        private("half.key", &half);
        let broken = KeyRing::load(folder.path()).unwrap_err().to_string();
        assert!(broken.contains("half.key"), "a key is not passed over: {broken}");
    }

    #[test]
    fn keys_that_mark_alike_are_one() {
        let key = |secret: u8, from| {
            let key = Key::from_secret([secret; 32], "k", Marking::lists(), VocabularyId::new(9, "x").unwrap());
            key.unwrap().with_period(Period::new(from, None).unwrap())
        };
        let keys = distinct(vec![key(1, None), key(2, None), key(1, Some("2026-01-01"))]);
        assert_eq!(keys.len(), 2);
    }
}
