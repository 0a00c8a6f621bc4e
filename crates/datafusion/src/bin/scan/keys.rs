//! Keys and tokenizers, as they were asked for.

use std::path::{Path, PathBuf};

use verdigris_datafusion::{Judge, Judges};
use verdigris_detector::watermark::ring::distinct;
use verdigris_detector::{Key, KeyRing, Reader, Tokenizer};

use crate::error::Failure;
use crate::options::Options;

/// That of the models that are built into the main program.
const TALE: &[u8] = include_bytes!("../../../../../fixtures/models/tale/tokenizer.json");

/// All that judges.
pub(crate) struct Keys {
    readers: Vec<Reader>,
    /// Those that fit one of the readers.
    keys: Vec<Key>,
    /// What was read, and what was left out of a ring.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) notes: Vec<String>,
}

impl Keys {
    pub(crate) fn load(options: &Options) -> Result<Self, Failure> {
        let readers = match &options.tokenizer[..] {
            [] => vec![tokenizer(Path::new("tale"), TALE)?],
            paths => paths.iter().map(|path| load(path)).collect::<Result<_, _>>()?,
        };
        let fits = |key: &Key| readers.iter().any(|reader| reader.fits(key).is_ok());
        let (mut keys, mut files, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for file in &options.key {
            let key = Key::load(file)?;
            if !fits(&key) {
                let fault = readers[0].fits(&key).expect_err("it fits none of them");
                return Err(Failure::Usage(format!(
                    "{}: {fault}: give its tokenizer with --tokenizer",
                    file.display()
                )));
            }
            keys.push(key);
            files.push(file.clone());
        }
        if let Some(folder) = &options.ring {
            let ring = KeyRing::load(folder)?;
            notes.extend(ring.skipped().iter().map(ToString::to_string));
            let names: Vec<PathBuf> = ring.files().map(|(file, _)| file.into()).collect();
            for (file, key) in names.into_iter().zip(ring.into_keys()) {
                if fits(&key) {
                    keys.push(key);
                    files.push(file);
                } else {
                    notes.push(format!("{} is skipped: it was made for another tokenizer", file.display()));
                }
            }
        }
        if keys.is_empty() {
            let why = notes.first().cloned().unwrap_or_default();
            return Err(Failure::Usage(format!("there is no key to judge by: {why}")));
        }
        Ok(Self { readers, keys: distinct(keys), files, notes })
    }

    /// One judge with all keys.
    pub(crate) fn judge(self, level: f64) -> Result<Judge, Failure> {
        let [reader] = &self.readers[..] else {
            return Err(Failure::Usage(
                "without --sql there is one tokenizer: scan once for each, or name keys in a query".into(),
            ));
        };
        Ok(Judge::new(reader.clone(), self.keys, level)?)
    }

    /// A judge for each key.
    pub(crate) fn judges(self, level: f64) -> Result<Judges, Failure> {
        Ok(Judges::at_level(self.readers, self.keys, level)?)
    }

    /// What tells keys and tokenizers apart without a part of any secret.
    pub(crate) fn described(&self) -> (Vec<String>, Vec<String>) {
        let keys = self.keys.iter().map(|key| format!("{}: {}", key.id(), key.describe()));
        let readers = self.readers.iter().map(|reader| reader.vocabulary().fingerprint().to_owned());
        (keys.collect(), readers.collect())
    }
}

fn load(path: &Path) -> Result<Reader, Failure> {
    let file = if path.is_dir() { path.join("tokenizer.json") } else { path.into() };
    let json = std::fs::read(&file).map_err(Failure::read(&file))?;
    tokenizer(&file, &json)
}

fn tokenizer(name: &Path, json: &[u8]) -> Result<Reader, Failure> {
    let cannot = |error| Failure::Usage(format!("{}: {error}", name.display()));
    Ok(Reader::new(Tokenizer::from_json(json).map_err(cannot)?))
}
