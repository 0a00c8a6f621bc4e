//! Keys and the tokenizers that they were made for, from files and folders.

use std::io;
use std::path::{Path, PathBuf};

use verdigris_text::{Tokenizer, TokenizerError};
use verdigris_watermark::ring::{Skipped, distinct};
use verdigris_watermark::{Key, KeyError, KeyRing};

use crate::error::DetectError;
use crate::reader::Reader;

/// Keys read from files.
#[derive(Debug)]
pub struct KeyFiles {
    named: Vec<(PathBuf, Key)>,
    ring: Option<KeyRing>,
}

/// The keys that were made for any of the given tokenizers.
#[derive(Debug)]
pub struct FittingKeys {
    /// The keys, each once: every further key is a further look, which raises the p-values.
    pub keys: Vec<Key>,
    /// Their files, and the files of keys that make the same mark as one of them.
    pub files: Vec<PathBuf>,
    /// The files of the folder that are not used, each with the reason.
    pub skipped: Vec<Skipped>,
}

/// The reason why there are no keys to read with. Each message is one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// A key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A named key was made for another tokenizer.
    #[error("{}: {fault}", file.display())]
    ForeignKey {
        /// The file of the key.
        file: PathBuf,
        /// The difference to the first tokenizer.
        fault: Box<DetectError>,
    },
    /// A tokenizer cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A file is not a tokenizer.
    #[error("{}: {fault}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The error in the file.
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
    /// [`KeysError::Key`] if a file cannot be read or is damaged, or if the folder has no key.
    pub fn load(files: &[PathBuf], ring: Option<&Path>) -> Result<Self, KeysError> {
        let load = |file: &PathBuf| Ok((file.clone(), Key::load(file)?));
        let named = files.iter().map(load).collect::<Result<_, KeysError>>()?;
        Ok(Self { named, ring: ring.map(KeyRing::load).transpose()? })
    }

    /// Returns the keys for any of the readers' tokenizers. A named key for another tokenizer is an error; one in the
    /// folder is skipped.
    ///
    /// # Errors
    /// [`KeysError::ForeignKey`], [`KeysError::Key`] if the folder has no key for these tokenizers, and
    /// [`KeysError::None`] if there is no key at all.
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
    /// Creates a reader with the tokenizer of a `tokenizer.json`, or of a folder that contains one.
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
