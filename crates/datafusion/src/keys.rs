//! Keys and tokenizers in files.

use std::path::{Path, PathBuf};

use verdigris_detector::{self as keys, DetectError, FittingKeys, Key, KeyFiles, Level, Reader, Tokenizer};

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
            [] => vec![Reader::new(Tokenizer::from_json(TALE).expect("the tokenizer that is built in"))],
            paths => paths.iter().map(|path| Reader::open(path)).collect::<Result<_, _>>()?,
        };
        let fitting = KeyFiles::load(keys, ring)?.fitting(&readers).map_err(|error| match error {
            keys::KeysError::ForeignKey { file, fault } => KeysError::OtherTokenizer { file, fault },
            error => error.into(),
        })?;
        let FittingKeys { keys, files, skipped } = fitting;
        Ok(Self { readers, keys, files, notes: skipped.iter().map(ToString::to_string).collect() })
    }

    /// One judge with all keys.
    ///
    /// # Errors
    /// [`KeysError::SeveralTokenizers`], and as [`Judge::new`].
    pub fn judge(self, level: Level) -> Result<Judge, KeysError> {
        let [reader] = &self.readers[..] else { return Err(KeysError::SeveralTokenizers) };
        Ok(Judge::new(reader.clone(), self.keys, level)?)
    }

    /// A judge for each key.
    ///
    /// # Errors
    /// As [`Judges::at_level`].
    pub fn judges(self, level: Level) -> Result<Judges, KeysError> {
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
    /// A key or a tokenizer cannot be read, or there is no key.
    #[error(transparent)]
    Files(#[from] keys::KeysError),
    /// A key that was named was made for none of the tokenizers.
    #[error("{file}: {fault}: give its tokenizer with --tokenizer")]
    OtherTokenizer {
        /// That of the key.
        file: PathBuf,
        /// How it differs from the first tokenizer.
        fault: Box<DetectError>,
    },
    /// One verdict is asked for, and there are several tokenizers.
    #[error("without --sql there is one tokenizer: scan once for each, or name keys in a query")]
    SeveralTokenizers,
    /// A key cannot be used, or not beside the others.
    #[error(transparent)]
    Judge(#[from] JudgeError),
}
