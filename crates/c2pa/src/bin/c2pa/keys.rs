//! Keys and the tokenizer they are for, as they were asked for.

use std::path::{Path, PathBuf};

use clap::Args;
use verdigris_detector::watermark::DEFAULT_LEVEL;
use verdigris_detector::watermark::ring::distinct;
use verdigris_detector::{Judgement, Key, KeyRing, Look, Reader, Tokenizer};

use crate::error::Failure;

/// That of the models that are built into the main program.
const TALE: &[u8] = include_bytes!("../../../../../fixtures/models/tale/tokenizer.json");

#[derive(Args)]
pub(crate) struct KeyOptions {
    /// The key to look for in the words; give it again for more keys
    #[arg(short, long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json), all of which are looked for
    #[arg(long, value_name = "DIR")]
    ring: Option<PathBuf>,
    /// The tokenizer.json of the model that the keys are for, or its folder [default: that of tale]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// The p-value at which a text is called marked
    #[arg(long, value_name = "P", default_value_t = DEFAULT_LEVEL)]
    pub(crate) level: f64,
}

/// All that judges a mark.
pub(crate) struct Keys {
    reader: Reader,
    pub(crate) keys: Vec<Key>,
    /// What was left out of a ring.
    pub(crate) notes: Vec<String>,
}

impl KeyOptions {
    /// What judges, if keys were given.
    pub(crate) fn load(&self) -> Result<Option<Keys>, Failure> {
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Failure::Usage(format!("--level is {}, but must be above 0 and below 1", self.level)));
        }
        if self.key.is_empty() && self.ring.is_none() {
            return Ok(None);
        }
        let reader = match &self.tokenizer {
            None => tokenizer(Path::new("tale"), TALE)?,
            Some(path) => {
                let file = if path.is_dir() { path.join("tokenizer.json") } else { path.clone() };
                tokenizer(&file, &std::fs::read(&file).map_err(Failure::read(&file))?)?
            }
        };
        let (mut keys, mut notes) = (Vec::new(), Vec::new());
        for file in &self.key {
            let key = Key::load(file)?;
            reader.fits(&key).map_err(|fault| Failure::Usage(format!("{}: {fault}", file.display())))?;
            keys.push(key);
        }
        if let Some(folder) = &self.ring {
            let ring = KeyRing::load(folder)?;
            notes.extend(ring.skipped().iter().map(ToString::to_string));
            let names: Vec<PathBuf> = ring.files().map(|(file, _)| file.into()).collect();
            for (file, key) in names.into_iter().zip(ring.into_keys()) {
                match reader.fits(&key) {
                    Ok(()) => keys.push(key),
                    Err(_) => notes.push(format!("{} is skipped: it was made for another tokenizer", file.display())),
                }
            }
        }
        if keys.is_empty() {
            let why = notes.first().cloned().unwrap_or_else(|| "the ring is empty".into());
            return Err(Failure::Usage(format!("there is no key to judge by: {why}")));
        }
        Ok(Some(Keys { reader, keys: distinct(keys), notes }))
    }
}

impl Keys {
    /// What a text is under all keys. Manifests in it are left out.
    pub(crate) fn judge(&self, text: &str) -> Result<Judgement<'_>, String> {
        let look = Look { tokens: false, ..Look::default() };
        let keys: Vec<&Key> = self.keys.iter().collect();
        self.reader.judge(&keys, text, &look).map_err(|error| error.to_string())
    }
}

fn tokenizer(name: &Path, json: &[u8]) -> Result<Reader, Failure> {
    let cannot = |error| Failure::Usage(format!("{}: {error}", name.display()));
    Ok(Reader::new(Tokenizer::from_json(json).map_err(cannot)?))
}
