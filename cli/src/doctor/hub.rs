//! The Hugging Face hub: whether it answers, and the cache of files from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use verdigris::models::hub::{Access, TokenSource};

use crate::doctor::finding::Finding;
use crate::doctor::shell::quoted;

/// The time that the hub has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The free space for models, in bytes, below which there is a note.
const LITTLE_ROOM: u64 = 1 << 30;

/// The most files that are counted, so that a large cache does not take longer than everything else.
const FILES: usize = 100_000;

#[derive(Serialize)]
pub(super) struct Cache {
    #[serde(serialize_with = "crate::report::lossy")]
    path: PathBuf,
    /// Whether files can be created in it.
    writable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// The size of its files.
    bytes: u64,
    models: usize,
    /// The free space on its disk, in bytes.
    free: Option<u64>,
}

impl Cache {
    pub(super) fn of(access: &Access) -> Self {
        let path = access.cache.clone();
        // A folder that does not exist yet is created below the nearest one that does.
        let there = path.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("."));
        let fault =
            tempfile::Builder::new().prefix(".verdigris-").tempfile_in(there).err().map(|error| error.to_string());
        let models = fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
        let models = models.filter(|entry| entry.file_name().to_string_lossy().starts_with("models--")).count();
        Self { writable: fault.is_none(), fault, bytes: bytes_in(&path), models, free: free(there), path }
    }

    pub(super) fn finding(&self) -> Finding {
        let path = self.path.display();
        if let Some(fault) = &self.fault {
            let cure = "export HF_HOME=FOLDER, with one that you can write to";
            return Finding::fault("cache", format!("{path}: nothing can be written there ({fault})"), cure);
        }
        let holds = match self.models {
            0 => "no models yet".into(),
            1 => format!("1 model, {}", size(self.bytes)),
            models => format!("{models} models, {}", size(self.bytes)),
        };
        let value = format!("{path}: {holds}");
        match self.free {
            None => Finding::fine("cache", value),
            Some(free) if free < LITTLE_ROOM => {
                let value = format!("{value}; room for {} more", size(free));
                Finding::better("cache", value, format!("du -sh {}/*", quoted(&self.path)))
            }
            Some(free) => Finding::fine("cache", format!("{value}, room for {} more", size(free))),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Hub {
    endpoint: String,
    /// Whether it answers; left out if no request was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// The source of the token, `HF_TOKEN` or `file`, but never the token.
    token: Option<&'static str>,
}

impl Hub {
    /// Sends a request to the hub, unless `offline` or the environment forbids it.
    pub(super) fn of(access: &Access, offline: bool) -> Self {
        let answer = (!offline && !access.is_offline).then(|| access.ask(PATIENCE));
        let token = access.token.map(|token| match token {
            TokenSource::Variable => "HF_TOKEN",
            TokenSource::File => "file",
        });
        let (reachable, fault) = (answer.as_ref().map(Result::is_ok), answer.and_then(Result::err));
        Self { endpoint: access.endpoint.clone(), reachable, fault, token }
    }

    pub(super) fn finding(&self) -> Finding {
        let token = match self.token {
            None => "no token, which open models do not need",
            Some("HF_TOKEN") => "a token in HF_TOKEN",
            Some(_) => "the token of `hf auth login`",
        };
        let endpoint = &self.endpoint;
        match (self.reachable, &self.fault) {
            (Some(true), _) => Finding::fine("hub", format!("{endpoint} answers; {token}")),
            (None, _) => Finding::fine("hub", format!("{endpoint} was not asked; {token}")),
            (Some(false), fault) => {
                let fault = fault.as_deref().unwrap_or_default();
                let value = format!("{endpoint} does not answer ({fault}); {token}");
                Finding::better("hub", value, "without a network: download a model elsewhere, then --model FOLDER")
            }
        }
    }
}

/// The bytes of all files below a folder; links are not followed.
fn bytes_in(folder: &Path) -> u64 {
    let (mut open, mut seen, mut bytes) = (vec![folder.to_owned()], 0, 0);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            let Ok(about) = entry.metadata() else { continue };
            seen += 1;
            match about.is_dir() {
                true if seen < FILES => open.push(entry.path()),
                true => {}
                false if about.is_file() => bytes += about.len(),
                false => {}
            }
        }
    }
    bytes
}

/// The free space on the disk of a folder, in bytes.
#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(folder).ok()?;
    about.f_bavail.checked_mul(about.f_frsize)
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
