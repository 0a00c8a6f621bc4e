//! Key files: whether they can be used, and only by their owner, and until when there is one to write with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::ToSpan;
use jiff::civil::Date;
use serde::Serialize;
use verdigris::Key;
use verdigris::watermark::{KeyError, Period};

use crate::doctor::finding::Finding;
use crate::doctor::shell::quoted;

/// The folders in which keys are looked for by default: the current one, and that of a ring in README.
const FOLDERS: [&str; 2] = [".", "keys"];

/// The most files of a folder that are checked.
const FILES: usize = 1000;

/// The number of days in advance at which a ring needs its next key.
pub(crate) const SOON: i32 = 30;

#[derive(Serialize)]
pub(super) struct KeyFile {
    #[serde(serialize_with = "crate::report::lossy")]
    file: PathBuf,
    /// The public name of the key; left out if the file cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<Period>,
    /// The reason why the key cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(skip)]
    key: Result<Key, KeyError>,
}

/// The key files of `folder`, or of [`FOLDERS`]. If `folder` cannot be read, that is an error.
pub(super) fn found(folder: Option<&Path>) -> std::io::Result<Vec<KeyFile>> {
    let mut all = Vec::new();
    match folder {
        Some(folder) => add(folder, folder.read_dir()?, &mut all),
        None => {
            for folder in FOLDERS.map(Path::new) {
                if let Ok(entries) = folder.read_dir() {
                    add(folder, entries, &mut all);
                }
            }
        }
    }
    Ok(all)
}

fn add(folder: &Path, entries: fs::ReadDir, all: &mut Vec<KeyFile>) {
    let is_key = |file: &Path| {
        let hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        !hidden && file.extension().is_some_and(|kind| kind == "key" || kind == "json")
    };
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|file| is_key(file)).collect();
    files.sort();
    for file in files.into_iter().take(FILES) {
        let key = Key::load(&file);
        // Files that merely have the extension of a key file are ignored.
        if matches!(key, Err(KeyError::NotAKey { .. })) || file.is_dir() {
            continue;
        }
        let named = if folder == Path::new(".") { file.file_name().map_or(file.clone(), PathBuf::from) } else { file };
        all.push(KeyFile {
            id: key.as_ref().ok().map(|key| key.id().to_owned()),
            period: key.as_ref().ok().map(Key::period).filter(|period| !period.is_open()),
            fault: key.as_ref().err().map(ToString::to_string),
            file: named,
            key,
        });
    }
}

/// The findings on a day: a line on the keys that can be used, and all problems.
pub(super) fn findings(files: &[KeyFile], folder: Option<&Path>, today: Date) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().filter_map(of_file).collect();
    let rings = rings(files);
    findings.extend(rings.iter().filter_map(|(ring, keys)| of_ring(ring, keys, today)));
    let usable = files.iter().filter(|file| file.key.is_ok()).count();
    if !findings.is_empty() && usable == 0 {
        return findings;
    }
    let place = folder.map_or("this folder and keys/".into(), |folder| folder.display().to_string());
    let all = match usable {
        0 => format!("none in {place}; `verdigris key new my.key` makes one"),
        1 => format!("1 in {place}, which can be used"),
        some => format!("{some} in {place}, which can be used"),
    };
    findings.insert(0, Finding::fine("keys", all));
    findings
}

fn of_file(KeyFile { file, key, .. }: &KeyFile) -> Option<Finding> {
    let name = file.display();
    match key {
        Ok(key) if key.is_public() && !key.is_published() => Some(Finding::better(
            "key",
            format!("{name}: its secret is public, so anyone can forge its mark and remove it"),
            "verdigris key new NAME.key --dialect NAME --import FILE, with a secret of your own",
        )),
        Ok(_) => None,
        Err(KeyError::Exposed { mode, .. }) => Some(Finding::fault(
            "key",
            format!("{name} can be read by others (mode {mode:04o}), so no command uses it"),
            format!("chmod 600 {}", quoted(file)),
        )),
        Err(error) => {
            // Without the name of the file, which comes before it.
            let fault = match error {
                KeyError::Read { source, .. } => source.to_string(),
                KeyError::Malformed { fault, .. } => fault.to_string(),
                error => error.to_string(),
            };
            Some(Finding::fault("key", format!("{name} cannot be used: {fault}"), "restore it from a backup"))
        }
    }
}

/// Keys that succeed each other: those of a folder for one tenant and one tokenizer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ring<'k> {
    folder: &'k Path,
    tenant: &'k str,
    model: Option<&'k str>,
    tokenizer: &'k str,
}

fn rings(files: &[KeyFile]) -> BTreeMap<Ring<'_>, Vec<&Key>> {
    let mut rings: BTreeMap<Ring<'_>, Vec<&Key>> = BTreeMap::new();
    for KeyFile { file, key, .. } in files {
        let Some(key) = key.as_ref().ok().filter(|key| !key.is_published()) else { continue };
        let (folder, vocabulary) = (file.parent().unwrap_or(Path::new("")), key.vocabulary());
        let ring =
            Ring { folder, tenant: key.tenant(), model: vocabulary.model(), tokenizer: vocabulary.fingerprint() };
        rings.entry(ring).or_default().push(key);
    }
    rings
}

/// The problem with the periods of a ring's keys, if there is one.
fn of_ring(ring: &Ring<'_>, keys: &[&Key], today: Date) -> Option<Finding> {
    if keys.iter().all(|key| key.period().is_open()) {
        return None;
    }
    let last = last_day(keys, today);
    let soon = today.checked_add(SOON.days()).unwrap_or(today);
    let (said, from) = match last {
        Last::Never => return None,
        Last::Day(day) if day > soon => return None,
        Last::Day(day) => (format!("the last day with a key to write with is {day}"), day.tomorrow().unwrap_or(day)),
        Last::None => ("there is no key to write with today".into(), today),
    };
    let place = match ring.folder {
        here if here.as_os_str().is_empty() => "this folder".into(),
        folder => folder.display().to_string(),
    };
    let tenant = if ring.tenant.is_empty() { String::new() } else { format!(" for the tenant {}", ring.tenant) };
    let mut cure =
        format!("verdigris key new {} --valid-from {from}", quoted(&ring.folder.join(format!("{from}.key"))));
    if let Some(model) = ring.model.filter(|model| *model != "tale") {
        cure += &format!(" --model {}", quoted(Path::new(model)));
    }
    if !ring.tenant.is_empty() {
        cure += &format!(" --tenant {}", quoted(Path::new(ring.tenant)));
    }
    Some(Finding::better("key", format!("{place}{tenant}: {said}"), cure))
}

/// The last day with a key to write with, without a gap before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// None, not even today.
    None,
    /// This day.
    Day(Date),
    /// For ever.
    Never,
}

pub(crate) fn last_day(keys: &[&Key], today: Date) -> Last {
    let (mut day, mut last) = (today, Last::None);
    loop {
        let writing = || keys.iter().map(|key| key.period()).filter(|period| period.contains(day));
        if writing().any(|period| period.until().is_none()) {
            return Last::Never;
        }
        let Some(until) = writing().filter_map(Period::until).max() else { return last };
        last = Last::Day(until);
        match until.tomorrow() {
            Ok(next) => day = next,
            Err(_) => return Last::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris::Marking;
    use verdigris::watermark::VocabularyId;

    #[test]
    fn keys_take_turns() {
        let key = |from, until| {
            let vocabulary = VocabularyId::new(4096, "abc").unwrap();
            Key::generate(Marking::lists(), vocabulary).with_period(Period::new(from, until).unwrap())
        };
        let day = |text: &str| text.parse::<Date>().unwrap();
        let last = |keys: &[Key], today| last_day(&keys.iter().collect::<Vec<_>>(), day(today));
        let (first, second) = (key(None, Some("2026-12-31")), key(Some("2027-01-01"), Some("2027-06-30")));
        let keys = [second, first];
        assert_eq!(last(&keys, "2026-11-23"), Last::Day(day("2027-06-30")));
        assert_eq!(last(&keys[1..], "2026-11-23"), Last::Day(day("2026-12-31")));
        assert_eq!(last(&keys[..1], "2026-11-23"), Last::None);
        assert_eq!(last(&keys, "2027-07-01"), Last::None);
        assert_eq!(last(&[key(Some("2026-01-01"), None)], "2026-11-23"), Last::Never);
    }
}
