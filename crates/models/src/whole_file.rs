//! Files that are written completely or not at all.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

/// Lets `fill` write a temporary file in the folder of `path`, and then renames it to `path` atomically, replacing an
/// existing file if `may_replace`. If anything fails, the folder is unchanged. The file has the mode of any new file
/// (0666 less the umask). Two writers never write to one file.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::AlreadyExists`] if there is a file that may not be replaced, even if it
/// was created while `fill` ran; and those of `fill`.
pub fn write_whole<T, E: From<io::Error>>(
    path: &Path,
    may_replace: bool,
    fill: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    write_with_mode(path, may_replace, 0o666, fill)
}

/// Like [`write_whole`], for a file that only its owner may read (mode 0600); replaces an existing file.
///
/// # Errors
/// Those of [`write_whole`].
pub fn write_private<T, E: From<io::Error>>(path: &Path, fill: impl FnOnce(&mut File) -> Result<T, E>) -> Result<T, E> {
    write_with_mode(path, true, 0o600, fill)
}

fn write_with_mode<T, E: From<io::Error>>(
    path: &Path,
    may_replace: bool,
    mode: u32,
    fill: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let (_unfinished, mut file) = temporary(path, mode)?;
    let done = fill(file.as_file_mut())?;
    file.as_file_mut().sync_all()?;
    match may_replace {
        true => file.persist(path),
        false => file.persist_noclobber(path),
    }
    .map_err(|error| error.error)?;
    Ok(done)
}

/// The first and the last characters of the names of temporary files.
pub const TEMPORARY: (&str, &str) = (".verdigris-", ".part");

/// A temporary file with a unique name, which is removed unless it is persisted.
fn temporary(path: &Path, mode: u32) -> io::Result<(Unfinished, NamedTempFile)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    let beginning = Beginning::new();
    let file = builder.tempfile_in(folder(path))?;
    Ok((beginning.begun(file.path()), file))
}

/// All unfinished files and folders of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Held while an unfinished file or folder is created, so that [`discard_unfinished`] sees either both the file and its
/// name or neither.
#[derive(Debug)]
pub struct Beginning(MutexGuard<'static, BTreeSet<PathBuf>>);

impl Beginning {
    /// Waits until no other thread creates one.
    #[must_use]
    pub fn new() -> Self {
        Self(UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers this path, which exists by now, as unfinished.
    pub fn begun(mut self, path: &Path) -> Unfinished {
        self.0.insert(path.to_owned());
        Unfinished(path.to_owned())
    }
}

impl Default for Beginning {
    fn default() -> Self {
        Self::new()
    }
}

/// A file or folder that is not complete yet: until this is dropped, [`discard_unfinished`] removes it.
#[derive(Debug)]
#[must_use]
pub struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        Beginning::new().0.remove(&self.0);
    }
}

/// Removes all unfinished files and folders, for a program that a signal ends. Returns how many were removed. No other
/// can be begun or completed afterwards: threads that try wait for the end of the program.
pub fn discard_unfinished() -> usize {
    let unfinished = Beginning::new();
    let removed = unfinished.discard_below(Path::new(""));
    std::mem::forget(unfinished);
    removed
}

impl Beginning {
    /// Removes the unfinished files and folders in a folder; the empty path is that of all.
    fn discard_below(&self, folder: &Path) -> usize {
        let below = self.0.iter().filter(|path| path.starts_with(folder));
        below.filter(|path| fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)).is_ok()).count()
    }
}

/// The folder that contains a file.
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Like [`write_whole`] with the given bytes; replaces an existing file.
///
/// # Errors
/// Those of the file system.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_whole(path, true, |file| io::Write::write_all(file, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn nothing_is_half_written_and_nothing_is_replaced_unasked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&path, b"one").unwrap();
        let failing = |file: &mut File| {
            file.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        };
        assert_eq!(write_whole::<(), _>(&path, true, failing).unwrap_err().to_string(), "the disk is full");
        let unasked = write_whole(&path, false, |file| file.write_all(b"two")).unwrap_err();
        assert_eq!(unasked.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file stays");
        assert!(replace(&folder.path().join("none/a"), b"").is_err());
    }

    #[test]
    fn what_is_unfinished_can_be_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let discarding = |_: &mut File| {
            let begun = folder.path().join("begun");
            let beginning = Beginning::new();
            fs::create_dir(&begun)?;
            let _begun = beginning.begun(&begun);
            // Other tests have unfinished files too.
            assert_eq!(Beginning::new().discard_below(folder.path()), 2);
            assert_eq!(fs::read_dir(&folder)?.count(), 0);
            Err(io::Error::other("interrupted"))
        };
        assert!(write_whole::<(), _>(&path, true, discarding).is_err());
    }

    /// A signal may come at any moment.
    #[test]
    fn every_file_that_exists_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let write = || {
            for _ in 0..300 {
                write_whole(&path, true, |_| Err::<(), _>(io::Error::other("interrupted"))).unwrap_err();
            }
        };
        std::thread::scope(|scope| {
            let writers = [scope.spawn(write), scope.spawn(write)];
            while writers.iter().any(|writer| !writer.is_finished()) {
                let known = Beginning::new();
                for entry in fs::read_dir(&folder).unwrap() {
                    let there = entry.unwrap().path();
                    assert!(known.0.contains(&there), "{}", there.display());
                }
            }
        });
    }

    #[cfg(unix)]
    #[test]
    fn it_has_the_mode_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [usual, whole] = ["usual", "whole"].map(|name| folder.path().join(name));
        fs::write(&usual, "").unwrap();
        replace(&whole, b"").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&usual), mode(&whole));
        write_private(&whole, |_| Ok::<_, io::Error>(())).unwrap();
        assert_eq!(mode(&whole) & 0o777, 0o600);
    }
}
