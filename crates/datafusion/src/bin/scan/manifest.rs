//! The arguments of a scan, which make sure that a folder of parts only contains parts of one scan.

use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use verdigris_datafusion::Keys;
use verdigris_detector::Level;

use crate::error::Failure;
use crate::inputs::Input;
use crate::options::Options;

pub(crate) const FORMAT: &str = "verdigris-scan-4";

/// Written when a scan starts, and compared when it is resumed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: String,
    program: String,
    text_column: String,
    level: Level,
    /// Ids and parameters of keys; never a secret or anything computed from one.
    keys: Vec<String>,
    key_files: Vec<Stamp>,
    tokenizers: Vec<String>,
    inputs: Vec<Stamp>,
}

/// Identifies a file, so that a different one of the same name is noticed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    name: String,
    bytes: u64,
    /// Microseconds since 1970.
    modified: u64,
}

impl Manifest {
    pub(crate) fn new(options: &Options, keys: &Keys, inputs: &[Input]) -> Result<Self, Failure> {
        let (described, tokenizers) = keys.described();
        let inputs = inputs.iter().map(|input| Stamp {
            name: input.name.clone(),
            bytes: input.meta.size,
            modified: input.meta.last_modified.timestamp_micros() as u64,
        });
        Ok(Self {
            format: FORMAT.into(),
            program: env!("CARGO_PKG_VERSION").into(),
            text_column: options.text_column.clone(),
            level: options.level,
            keys: described,
            key_files: keys.files().iter().map(|file| stamp(file)).collect::<Result<_, _>>()?,
            tokenizers,
            inputs: inputs.collect(),
        })
    }

    /// Returns the first difference between this scan and the one that was started.
    pub(crate) fn departure(&self, began: &Self) -> Option<String> {
        let settings = [
            ("format", &self.format, &began.format),
            ("version", &self.program, &began.program),
            ("--text-column", &self.text_column, &began.text_column),
            ("--level", &self.level.to_string(), &began.level.to_string()),
            ("tokenizer", &self.tokenizers.join(", "), &began.tokenizers.join(", ")),
            ("keys", &self.keys.join("; "), &began.keys.join("; ")),
        ];
        if let Some((what, now, then)) = settings.into_iter().find(|(_, now, then)| now != then) {
            return Some(format!("its {what} is {then}, but now {now}"));
        }
        let pairs = [(&self.key_files, &began.key_files), (&self.inputs, &began.inputs)];
        for (now, then) in pairs {
            let changed = |other: &&Stamp| now.iter().all(|stamp| stamp != *other);
            if let Some(gone) = then.iter().find(changed) {
                return Some(format!("{} has changed since, or is no longer read", gone.name));
            }
            if let Some(new) = now.iter().find(|stamp| !then.contains(stamp)) {
                return Some(format!("{} is new", new.name));
            }
        }
        (self != began).then(|| "the files are given in another order".into())
    }
}

fn stamp(file: &Path) -> Result<Stamp, Failure> {
    let about = file.metadata().map_err(Failure::read(file))?;
    let modified = about.modified().map_err(Failure::read(file))?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Stamp { name: file.display().to_string(), bytes: about.len(), modified: modified.as_micros() as u64 })
}
