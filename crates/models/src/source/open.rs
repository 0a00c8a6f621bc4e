//! A model's files, whoever made them: opened only where they are files, and read only as far as such files go.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use verdigris_kernels::Mapped;

/// No JSON file or template of a model is longer than this.
const MOST: u64 = 256 << 20;

/// Opens a file. What is none is not opened: a pipe would be waited for, and a device may have no end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "it is a folder" } else { "it is a pipe or a device, and not a file" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    File::open(path)
}

/// All of a file that is read into memory.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Some files grow while they are read, and some say nothing of their length.
    open(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST} bytes")));
    }
    Ok(bytes)
}

/// A file of weights as memory.
pub(crate) fn map(path: &Path) -> io::Result<Mapped> {
    Mapped::new(&open(path)?)
}

/// Whether a file begins as GGUF files do.
pub(crate) fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"GGUF"
}
