//! The keys that a command reads or writes with.

use std::path::PathBuf;

use clap::Args;
use verdigris::detector::{FittingKeys, KeyFiles, KeysError};
use verdigris::watermark::ring::Skipped;
use verdigris::{Key, KeyRing, Reader};

use crate::error::Failure;
use crate::key::days::today;
use crate::terminal;

/// Keys to read with: files, or a folder of them.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(crate) struct KeysOption {
    /// The key to look for; may be given several times
    #[arg(short, long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json), all of which are looked for
    #[arg(long, value_name = "DIR")]
    pub(crate) ring: Option<PathBuf>,
}

impl KeysOption {
    /// Loads the keys.
    pub(crate) fn load(&self) -> Result<KeyFiles, Failure> {
        Ok(KeyFiles::load(&self.key, self.ring.as_deref())?)
    }
}

/// The keys for a tokenizer. Notes on standard error name the files of the ring that are skipped.
pub(crate) fn fitting(keys: KeyFiles, reader: &Reader) -> Result<FittingKeys, Failure> {
    let fitting = keys.fitting(std::slice::from_ref(reader)).map_err(|error| match error {
        // The command line's own words for what helps.
        KeysError::ForeignKey { file, fault } => {
            Failure::Usage(format!("{}: {}", file.display(), Failure::from(*fault)))
        }
        error => error.into(),
    })?;
    note(&fitting.skipped);
    Ok(fitting)
}

fn note(skipped: &[Skipped]) {
    for skipped in skipped {
        terminal::headed("note", terminal::shown_line(&skipped.to_string()));
    }
}

/// The key for a tokenizer that a ring writes with today. Unless it is to be quiet, notes name the files that are
/// skipped.
pub(crate) fn writer_of(ring: KeyRing, tenant: &str, reader: &Reader, quiet: bool) -> Result<Key, Failure> {
    let ring = ring.for_vocabulary(&reader.vocabulary())?;
    if !quiet {
        note(ring.skipped());
    }
    Ok(ring.into_writer(today(), tenant)?)
}
