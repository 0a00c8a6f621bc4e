//! The folder that parts are written to. A part is either complete or missing, and its name says which part it is.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;

use crate::error::Failure;
use crate::manifest::Manifest;

/// Readers of folders of Parquet skip names that begin with an underscore.
const MANIFEST: &str = "_manifest.json";
const SUMMARY: &str = "_summary.json";

/// A folder of parts, locked against other scans.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held until this is dropped; released if the process is killed.
    _lock: File,
    parts: BTreeMap<(usize, usize), bool>,
}

impl Folder {
    /// Opens a new folder, or that of the same scan to resume it.
    pub(crate) fn open(path: &Path, manifest: &Manifest) -> Result<Self, Failure> {
        if path.is_file() {
            return Err(Failure::Usage(format!(
                "{} is a file, but a scan is written to a folder: name another one",
                path.display()
            )));
        }
        fs::create_dir_all(path).map_err(Failure::write(path))?;
        let lock = File::open(path).map_err(Failure::write(path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Usage(format!("another scan is writing to {}: wait for its end", path.display())));
            }
            Err(TryLockError::Error(error)) => return Err(Failure::write(path)(error)),
        }
        let mut parts = BTreeMap::new();
        let mut names = Vec::new();
        for entry in path.read_dir().map_err(Failure::read(path))? {
            names.push(entry.map_err(Failure::read(path))?.file_name().to_string_lossy().into_owned());
        }
        let file = path.join(MANIFEST);
        // Removes temporary files of a killed scan, only in a folder that belongs to a scan or has nothing else, and
        // only by the names that scans give.
        let is_scans = names.iter().any(|name| name == MANIFEST) || names.iter().all(|name| is_temporary(name));
        if is_scans {
            for name in names.extract_if(.., |name| is_temporary(name)) {
                fs::remove_file(path.join(&name)).map_err(Failure::write(&path.join(name)))?;
            }
        }
        if names.iter().any(|name| name == MANIFEST) {
            let json = fs::read(&file).map_err(Failure::read(&file))?;
            let began: Manifest = serde_json::from_slice(&json)
                .map_err(|error| Failure::Usage(format!("{}: {error}: write to a new folder", file.display())))?;
            if let Some(departure) = manifest.departure(&began) {
                return Err(Failure::Usage(format!(
                    "{} holds another scan: {departure}; resume it with the same arguments, or write to a new folder",
                    path.display()
                )));
            }
            parts.extend(names.iter().filter_map(|name| parse(name)));
        } else if !names.is_empty() {
            return Err(Failure::Usage(format!(
                "{} is not the folder of a scan, and it is not empty: write to a new one",
                path.display()
            )));
        } else {
            let json = serde_json::to_vec_pretty(manifest).expect("a manifest serialises");
            whole(&file, |file| Ok(file.write_all(&json)?))?;
        }
        Ok(Self { path: path.into(), _lock: lock, parts })
    }

    /// The existing parts of a file.
    pub(crate) fn parts(&self, file: usize) -> impl Iterator<Item = (usize, PathBuf)> {
        let of = self.parts.range((file, 0)..(file + 1, 0));
        of.map(|(&(file, index), &last)| (index, self.path.join(name(file, index, last))))
    }

    /// Whether all parts of a file exist.
    pub(crate) fn is_finished(&self, file: usize) -> bool {
        let of: Vec<_> = self.parts.range((file, 0)..(file + 1, 0)).collect();
        of.last().is_some_and(|&(&(_, index), &last)| last && of.len() == index + 1)
    }

    /// The path of a part, if it exists.
    pub(crate) fn part(&self, file: usize, index: usize) -> Option<PathBuf> {
        let last = *self.parts.get(&(file, index))?;
        Some(self.place(file, index, last))
    }

    /// The path of a part.
    pub(crate) fn place(&self, file: usize, index: usize, last: bool) -> PathBuf {
        self.path.join(name(file, index, last))
    }

    pub(crate) fn write_summary(&self, json: &str) -> Result<(), Failure> {
        whole(&self.path.join(SUMMARY), |file| Ok(file.write_all(json.as_bytes())?))
    }
}

fn name(file: usize, index: usize, last: bool) -> String {
    format!("part-{file:06}-{index:06}{}.parquet", if last { "-last" } else { "" })
}

/// Whether a name is one that [`whole`] gives to an incomplete file of a scan: `.tmp-PROCESS-NAME`.
fn is_temporary(name: &str) -> bool {
    let rest = name.strip_prefix(".tmp-").and_then(|rest| rest.split_once('-'));
    rest.is_some_and(|(process, name)| {
        process.parse::<u32>().is_ok() && (name == MANIFEST || name == SUMMARY || parse(name).is_some())
    })
}

fn parse(name: &str) -> Option<((usize, usize), bool)> {
    let stem = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let (stem, last) = stem.strip_suffix("-last").map_or((stem, false), |stem| (stem, true));
    let (file, index) = stem.split_once('-')?;
    Some(((file.parse().ok()?, index.parse().ok()?), last))
}

/// Lets `fill` write a Parquet file under a temporary name, then renames it.
pub(crate) fn parquet(
    path: &Path,
    schema: SchemaRef,
    fill: impl FnOnce(&mut ArrowWriter<&mut File>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    whole(path, |file| {
        let level = Compression::ZSTD(ZstdLevel::try_new(1).expect("a valid level"));
        let properties = WriterProperties::builder().set_compression(level).build();
        // Without Arrow's own schema, other programs read plain strings, whatever layout they had here.
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(file, schema, options);
        let mut writer = writer.map_err(Failure::write_parquet(path))?;
        fill(&mut writer)?;
        writer.close().map_err(Failure::write_parquet(path))?;
        Ok(())
    })
}

/// Lets `fill` write a file that is complete or missing, even after a power failure.
fn whole(path: &Path, fill: impl FnOnce(&mut File) -> Result<(), Failure>) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".tmp-{}-{name}", std::process::id()));
    // The name is predictable and could be a link to another file, so an existing file is never written to.
    let _ = fs::remove_file(&temporary);
    let written = File::create_new(&temporary).map_err(Failure::write(path)).and_then(|mut file| {
        fill(&mut file)?;
        file.sync_all().and_then(|()| fs::rename(&temporary, path)).map_err(Failure::write(path))
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_scans_are_theirs() {
        let part = format!(".tmp-7-{}", name(1, 2, true));
        for own in [part, format!(".tmp-1-{MANIFEST}"), format!(".tmp-4194304-{SUMMARY}")] {
            assert!(is_temporary(&own), "{own}");
        }
        for other in [".tmp-notes", ".tmp-", ".tmp-7-", ".tmp-7-letter.txt", ".tmp-x-part-000001-000002.parquet", "x"] {
            assert!(!is_temporary(other), "{other}");
        }
    }

    #[test]
    fn a_name_says_what_a_part_is() {
        for part in [((0, 0), false), ((7, 1_000_000), true)] {
            let ((file, index), last) = part;
            assert_eq!(parse(&name(file, index, last)), Some(part));
        }
        assert_eq!(parse("part-1.parquet"), None);
        assert_eq!(parse(MANIFEST), None);
    }
}
