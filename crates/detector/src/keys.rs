//! The keys that texts are read with, and the tokenizers they were made for: files, and folders of keys.

use std::io;
use std::path::{Path, PathBuf};

use verdigris_text::{Tokenizer, TokenizerError};
use verdigris_watermark::ring::{Skipped, distinct};
use verdigris_watermark::{Key, KeyError, KeyRing};

use crate::error::DetectError;
use crate::reader::Reader;

/// Keys as they were read from files.
#[derive(Debug)]
pub struct KeyFiles {
    named: Vec<(PathBuf, Key)>,
    ring: Option<KeyRing>,
}

/// The keys for some tokenizers.
#[derive(Debug)]
pub struct FittingKeys {
    /// The keys, each once: more keys mean more looks, and p-values that are larger by as much.
    pub keys: Vec<Key>,
    /// Their files, and those of keys that mark as one of them does.
    pub files: Vec<PathBuf>,
    /// The files of the folder that are not used, and why.
    pub skipped: Vec<Skipped>,
}

/// Why there are no keys to read with. Each message is one line that names the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// A key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key that was named was made for another tokenizer.
    #[error("{}: {fault}", file.display())]
    ForeignKey {
        /// The file of the key.
        file: PathBuf,
        /// How it differs from the first tokenizer.
        fault: Box<DetectError>,
    },
    /// A tokenizer cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file is not a tokenizer.
    #[error("{}: {fault}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: Box<TokenizerError>,
    },
    /// No key was named.
    #[error("there is no key to judge by: name a key or a folder of keys")]
    None,
}

impl KeyFiles {
    /// Reads key files, and all keys of a folder.
    ///
    /// # Errors
    /// [`KeysError::Key`] where a file cannot be read or is damaged, and where the folder has no key.
    pub fn load(files: &[PathBuf], ring: Option<&Path>) -> Result<Self, KeysError> {
        let load = |file: &PathBuf| Ok((file.clone(), Key::load(file)?));
        let named = files.iter().map(load).collect::<Result<_, KeysError>>()?;
        Ok(Self { named, ring: ring.map(KeyRing::load).transpose()? })
    }

    /// The keys for any of some tokenizers. A named key for another one is an error; in the folder it is skipped.
    ///
    /// # Errors
    /// [`KeysError::ForeignKey`], [`KeysError::Key`] where the folder has no key for these tokenizers, and
    /// [`KeysError::None`] where there is no key at all.
    pub fn fitting(self, readers: &[Reader]) -> Result<FittingKeys, KeysError> {
        let (mut keys, mut files, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for (file, key) in self.named {
            let mut faults = readers.iter().map_while(|reader| reader.fits(&key).err());
            if let (Some(fault), n) = (faults.next(), 1 + faults.count())
                && n == readers.len()
            {
                return Err(KeysError::ForeignKey { file, fault: Box::new(fault) });
            }
            keys.push(key);
            files.push(file);
        }
        if let Some(ring) = self.ring {
            let vocabularies: Vec<_> = readers.iter().map(Reader::vocabulary).collect();
            let ring = ring.for_vocabularies(&vocabularies)?;
            skipped.extend_from_slice(ring.skipped());
            files.extend(ring.files().map(|(file, _)| file.to_owned()));
            keys.extend(ring.into_keys());
        }
        if keys.is_empty() {
            return Err(KeysError::None);
        }
        Ok(FittingKeys { keys: distinct(keys), files, skipped })
    }
}

impl Reader {
    /// A reader with the tokenizer of a `tokenizer.json`, or of the folder that has one.
    ///
    /// # Errors
    /// [`KeysError::Read`] and [`KeysError::Tokenizer`].
    pub fn open(path: &Path) -> Result<Self, KeysError> {
        let path = if path.is_dir() { path.join("tokenizer.json") } else { path.to_owned() };
        let json = std::fs::read(&path).map_err(|source| KeysError::Read { path: path.clone(), source })?;
        let tokenizer = Tokenizer::from_json(&json);
        Ok(Self::new(tokenizer.map_err(|fault| KeysError::Tokenizer { path, fault: Box::new(fault) })?))
    }
}
