//! Opens and reads untrusted files of models: regular files only, and only up to a maximum size.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use verdigris_kernels::Mapped;

/// The maximum size of a JSON file or template of a model.
const MOST: u64 = 256 << 20;

/// Opens regular files only, since a pipe would block, and a device may have no end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "it is a folder" } else { "it is a pipe or a device, and not a file" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    File::open(path)
}

/// Reads a whole file into memory.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Some files grow while they are read, and some do not report their length.
    open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST} bytes")));
    }
    Ok(bytes)
}

/// A file of weights as mapped memory, which all users of the file share: adapters of one base are several models on
/// one file.
pub(crate) fn map(path: &Path) -> io::Result<Arc<Mapped>> {
    static MAPPED: Mutex<Vec<(FileId, Weak<Mapped>)>> = Mutex::new(Vec::new());
    let file = open(path)?;
    let Some(id) = FileId::of(&file.metadata()?) else { return Ok(Arc::new(Mapped::new(&file)?)) };
    let mut all = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(_, mapped)| mapped.strong_count() > 0);
    if let Some(mapped) = all.iter().find(|(other, _)| *other == id).and_then(|(_, mapped)| mapped.upgrade()) {
        return Ok(mapped);
    }
    let mapped = Arc::new(Mapped::new(&file)?);
    all.push((id, Arc::downgrade(&mapped)));
    Ok(mapped)
}

/// The identity of a file as long as it is mapped: its device, its inode and its length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self(metadata.dev(), metadata.ino(), metadata.len()))
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }
}

/// Whether a file begins like a GGUF file.
pub(crate) fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"GGUF"
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        fs::write(&path, b"one").unwrap();
        fs::hard_link(&path, folder.path().join("link")).unwrap();
        let first = map(&path).unwrap();
        assert!(Arc::ptr_eq(&first, &map(&folder.path().join("link")).unwrap()));
        // A new file at the same path is another file, even while the first is still mapped.
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"two").unwrap();
        let second = map(&path).unwrap();
        assert_eq!((&first[..], &second[..]), (&b"one"[..], &b"two"[..]));
    }
}
