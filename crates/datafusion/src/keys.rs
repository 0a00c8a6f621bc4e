//! Keys and tokenizers from files.

use std::path::{Path, PathBuf};

use verdigris_detector::{self as keys, DetectError, FittingKeys, Key, KeyFiles, Level, Reader, Tokenizer};

use crate::error::JudgeError;
use crate::judges::{Judge, Judges};

/// The tokenizer of the models that are built into the main program.
const TALE: &[u8] = include_bytes!("../../../fixtures/models/tale/tokenizer.json");

/// Keys and tokenizers from files. Only the processes that execute queries have them.
pub struct Keys {
    readers: Vec<Reader>,
    /// The keys that fit one of the readers.
    keys: Vec<Key>,
    files: Vec<PathBuf>,
    notes: Vec<String>,
}

impl Keys {
    /// Reads key files, a folder of keys, and tokenizers, each a `tokenizer.json` or its folder; by default that of
    /// `tale`. Keys of the folder that cannot be used are skipped, and listed by [`Keys::notes`].
    ///
    /// # Errors
    /// If a file cannot be read, if a named key was made for another tokenizer, if the folder has no key for any of the
    /// tokenizers, or if there is no key at all.
    pub fn load(keys: &[PathBuf], ring: Option<&Path>, tokenizers: &[PathBuf]) -> Result<Self, KeysError> {
        let readers = match tokenizers {
            [] => vec![Reader::new(Tokenizer::from_json(TALE).expect("the built-in tokenizer is valid"))],
            paths => paths.iter().map(|path| Reader::open(path)).collect::<Result<_, _>>()?,
        };
        let fitting = KeyFiles::load(keys, ring)?.fitting(&readers).map_err(|error| match error {
            keys::KeysError::ForeignKey { file, fault } => KeysError::OtherTokenizer { file, fault },
            error => error.into(),
        })?;
        let FittingKeys { keys, files, skipped } = fitting;
        Ok(Self { readers, keys, files, notes: skipped.iter().map(ToString::to_string).collect() })
    }

    /// Creates one judge with all keys.
    ///
    /// # Errors
    /// [`KeysError::SeveralTokenizers`], and those of [`Judge::new`].
    pub fn judge(self, level: Level) -> Result<Judge, KeysError> {
        let [reader] = &self.readers[..] else { return Err(KeysError::SeveralTokenizers) };
        Ok(Judge::new(reader.clone(), self.keys, level)?)
    }

    /// Creates a judge for each key.
    ///
    /// # Errors
    /// Those of [`Judges::at_level`].
    pub fn judges(self, level: Level) -> Result<Judges, KeysError> {
        Ok(Judges::at_level(self.readers, self.keys, level)?)
    }

    /// The key files that were read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The skipped files of the folder, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Descriptions that distinguish keys and tokenizers, without any part of a secret.
    pub fn described(&self) -> (Vec<String>, Vec<String>) {
        let keys = self.keys.iter().map(|key| format!("{}: {}", key.id(), key.describe()));
        let readers = self.readers.iter().map(|reader| reader.vocabulary().fingerprint().to_owned());
        (keys.collect(), readers.collect())
    }
}

/// The reason why there are no keys to judge by. Each message is one line with the cause and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// A key or a tokenizer cannot be read, or there is no key.
    #[error(transparent)]
    Files(#[from] keys::KeysError),
    /// A named key was made for none of the tokenizers.
    #[error("{file}: {fault}: give its tokenizer with --tokenizer")]
    OtherTokenizer {
        /// The file of the key.
        file: PathBuf,
        /// The difference to the first tokenizer.
        fault: Box<DetectError>,
    },
    /// Single verdicts are requested, and there are several tokenizers.
    #[error("several tokenizers need --sql: scan once for each, or name keys in a query")]
    SeveralTokenizers,
    /// A key cannot be used, or not together with the others.
    #[error(transparent)]
    Judge(#[from] JudgeError),
}
