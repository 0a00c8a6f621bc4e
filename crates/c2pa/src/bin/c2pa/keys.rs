//! The options for keys and their tokenizer.

use std::path::PathBuf;

use clap::Args;
use verdigris_detector::{Judgement, Key, KeyFiles, Level, Look, Reader, Tokenizer};

use crate::error::Failure;

/// The tokenizer of the models that are built into the main program.
const TALE: &[u8] = include_bytes!("../../../../../fixtures/models/tale/tokenizer.json");

#[derive(Args)]
pub(crate) struct KeyOptions {
    /// The key to look for in the words; may be given again
    #[arg(short, long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json), all of which are looked for
    #[arg(long, value_name = "DIR")]
    ring: Option<PathBuf>,
    /// The tokenizer.json of the model that the keys are for, or its folder [default: that of tale]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// The p-value at which a text is called marked
    #[arg(long, value_name = "P", default_value_t)]
    level: Level,
}

/// Keys and the reader that judges marks with them.
pub(crate) struct Keys {
    reader: Reader,
    pub(crate) keys: Vec<Key>,
    level: Level,
    /// The skipped files of a ring.
    pub(crate) notes: Vec<String>,
}

impl KeyOptions {
    /// Loads the keys, if any were given.
    pub(crate) fn load(&self) -> Result<Option<Keys>, Failure> {
        if self.key.is_empty() && self.ring.is_none() {
            return Ok(None);
        }
        let reader = match &self.tokenizer {
            None => Reader::new(Tokenizer::from_json(TALE).expect("the built-in tokenizer is valid")),
            Some(path) => Reader::open(path)?,
        };
        let keys = KeyFiles::load(&self.key, self.ring.as_deref())?.fitting(std::slice::from_ref(&reader))?;
        let notes = keys.skipped.iter().map(ToString::to_string).collect();
        Ok(Some(Keys { reader, keys: keys.keys, level: self.level, notes }))
    }
}

impl Keys {
    /// Judges a text under all keys, without the manifests in it.
    pub(crate) fn judge(&self, text: &str) -> Result<Judgement<'_>, String> {
        let look = Look { level: self.level, ..Look::default() };
        let keys: Vec<&Key> = self.keys.iter().collect();
        self.reader.judge(&keys, text, &look).map_err(|error| error.to_string())
    }
}
