//! Keys and tokenizers in files.

use std::io;
use std::path::{Path, PathBuf};

use verdigris_detector::watermark::KeyError;
use verdigris_detector::watermark::ring::distinct;
use verdigris_detector::{DetectError, Key, KeyRing, Reader, Tokenizer};

use crate::error::JudgeError;
use crate::judges::{Judge, Judges};

/// That of the models that are built into the main program.
const TALE: &[u8] = include_bytes!("../../../fixtures/models/tale/tokenizer.json");

/// Keys and tokenizers from files: what whoever executes queries has, and nobody else.
pub struct Keys {
    readers: Vec<Reader>,
    /// Those that fit one of the readers.
    keys: Vec<Key>,
    files: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Keys {
    /// Reads files of keys, a folder of them, and tokenizers: each a `tokenizer.json` or its folder. Without one it is
    /// that of `tale`. Keys of the folder that cannot be used are left out, which [`Keys::notes`] tells.
    ///
    /// # Errors
    /// Where a file cannot be read, where a key that was named was made for another tokenizer, where the folder has no
    /// key for any of them, and without any key.
    pub fn load(keys: &[PathBuf], ring: Option<&Path>, tokenizers: &[PathBuf]) -> Result<Self, KeysError> {
        let readers = match tokenizers {
            [] => vec![tokenizer(Path::new("tale"), TALE)?],
            paths => paths.iter().map(|path| load(path)).collect::<Result<_, _>>()?,
        };
        let (mut fitting, mut files, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for file in keys {
            let key = Key::load(file)?;
            if !readers.iter().any(|reader| reader.fits(&key).is_ok()) {
                let fault = readers[0].fits(&key).expect_err("it fits none of them");
                return Err(KeysError::OtherTokenizer { file: file.clone(), fault: Box::new(fault) });
            }
            fitting.push(key);
            files.push(file.clone());
        }
        if let Some(folder) = ring {
            let vocabularies: Vec<_> = readers.iter().map(Reader::vocabulary).collect();
            let ring = KeyRing::load(folder)?.for_vocabularies(&vocabularies)?;
            notes.extend(ring.skipped().iter().map(ToString::to_string));
            files.extend(ring.files().map(|(file, _)| file.to_owned()));
            fitting.extend(ring.into_keys());
        }
        if fitting.is_empty() {
            return Err(KeysError::None);
        }
        Ok(Self { readers, keys: distinct(fitting), files, notes })
    }

    /// One judge with all keys.
    ///
    /// # Errors
    /// [`KeysError::SeveralTokenizers`], and as [`Judge::new`].
    pub fn judge(self, level: f64) -> Result<Judge, KeysError> {
        let [reader] = &self.readers[..] else { return Err(KeysError::SeveralTokenizers) };
        Ok(Judge::new(reader.clone(), self.keys, level)?)
    }

    /// A judge for each key.
    ///
    /// # Errors
    /// As [`Judges::at_level`].
    pub fn judges(self, level: f64) -> Result<Judges, KeysError> {
        Ok(Judges::at_level(self.readers, self.keys, level)?)
    }

    /// What was read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// What was left out of the folder, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What tells keys and tokenizers apart without a part of any secret.
    pub fn described(&self) -> (Vec<String>, Vec<String>) {
        let keys = self.keys.iter().map(|key| format!("{}: {}", key.id(), key.describe()));
        let readers = self.readers.iter().map(|reader| reader.vocabulary().fingerprint().to_owned());
        (keys.collect(), readers.collect())
    }
}

/// Why there are no keys to judge by. Each message is one line that names the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// A key cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key that was named was made for none of the tokenizers.
    #[error("{file}: {fault}: give its tokenizer with --tokenizer")]
    OtherTokenizer {
        /// That of the key.
        file: PathBuf,
        /// How it differs from the first tokenizer.
        fault: Box<DetectError>,
    },
    /// A tokenizer cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Its file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is no tokenizer.
    #[error("{path}: {why}")]
    Tokenizer {
        /// That file.
        path: PathBuf,
        /// What it has instead.
        why: String,
    },
    /// Nothing was named.
    #[error("there is no key to judge by: name a key or a folder of keys")]
    None,
    /// One verdict is asked for, and there are several tokenizers.
    #[error("without --sql there is one tokenizer: scan once for each, or name keys in a query")]
    SeveralTokenizers,
    /// A key cannot be used, or not beside the others.
    #[error(transparent)]
    Judge(#[from] JudgeError),
}

fn load(path: &Path) -> Result<Reader, KeysError> {
    let file = if path.is_dir() { path.join("tokenizer.json") } else { path.into() };
    let json = std::fs::read(&file).map_err(|source| KeysError::Read { path: file.clone(), source })?;
    tokenizer(&file, &json)
}

fn tokenizer(name: &Path, json: &[u8]) -> Result<Reader, KeysError> {
    let is_none = |error: &dyn std::fmt::Display| KeysError::Tokenizer { path: name.into(), why: error.to_string() };
    Ok(Reader::new(Tokenizer::from_json(json).map_err(|error| is_none(&error))?))
}
