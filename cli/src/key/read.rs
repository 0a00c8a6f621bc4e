//! The keys that a command reads or writes with.

use std::path::PathBuf;

use clap::Args;
use verdigris::watermark::ring::{Skipped, distinct};
use verdigris::{Key, KeyRing, Reader};

use crate::error::Failure;
use crate::terminal;

/// Keys to read with: files, or a folder of them.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(crate) struct KeysOption {
    /// The key to look for; give it again for more keys
    #[arg(short, long, value_name = "FILE")]
    pub(crate) key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json), all of which are looked for
    #[arg(long, value_name = "DIR")]
    pub(crate) ring: Option<PathBuf>,
}

/// Keys as they were read.
pub(crate) struct Keys {
    files: Vec<(PathBuf, Key)>,
    ring: Option<KeyRing>,
}

impl KeysOption {
    /// All of them.
    pub(crate) fn load(&self) -> Result<Keys, Failure> {
        let load = |file: &PathBuf| Ok((file.clone(), Key::load(file)?));
        let files = self.key.iter().map(load).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Keys { files, ring: self.ring.as_deref().map(KeyRing::load).transpose()? })
    }
}

impl Keys {
    /// Those for a tokenizer, each once: more keys mean more looks, and p-values that are larger by as much. A key file
    /// for another tokenizer is an error; in a ring it is skipped, and a note on standard error says so.
    pub(crate) fn fitting(self, reader: &Reader) -> Result<(Vec<Key>, Vec<Skipped>), Failure> {
        for (file, key) in &self.files {
            let fits = reader.fits(key);
            fits.map_err(|fault| Failure::Usage(format!("{}: {}", file.display(), Failure::from(fault))))?;
        }
        let ring = self.ring.map(|ring| ring.for_vocabulary(&reader.vocabulary())).transpose()?;
        Ok(Keys { ring, ..self }.all())
    }

    /// All of them, each once, with the files of the ring that are none.
    fn all(self) -> (Vec<Key>, Vec<Skipped>) {
        let mut keys: Vec<Key> = self.files.into_iter().map(|(_, key)| key).collect();
        let skipped = self.ring.as_ref().map_or(Vec::new(), |ring| ring.skipped().to_vec());
        note(&skipped);
        keys.extend(self.ring.map_or(Vec::new(), KeyRing::into_keys));
        (distinct(keys), skipped)
    }
}

fn note(skipped: &[Skipped]) {
    for skipped in skipped {
        terminal::headed("note", terminal::shown_line(&skipped.to_string()));
    }
}

/// The key that a ring writes with today, of those for a tokenizer.
pub(crate) fn writer_of(ring: KeyRing, tenant: &str, reader: &Reader) -> Result<Key, Failure> {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let ring = ring.for_vocabulary(&reader.vocabulary())?;
    note(ring.skipped());
    Ok(ring.into_writer(today, tenant)?)
}
