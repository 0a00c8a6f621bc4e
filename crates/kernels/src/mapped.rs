//! Memory-mapped files.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A memory-mapped file: its bytes are loaded on first access and shared with other programs that map it.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a file. The file should not be written to while it is mapped: a read returns the bytes that the file holds
    /// at that moment, and a read past the end of a truncated file ends the program with a signal. Model files are
    /// replaced, not written to.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the map is read-only, nothing here writes through it, and it is unmapped only when no slice of it is
        // left. This process cannot ensure that the bytes stay unchanged: another program that writes to the file
        // breaks the guarantees of `&[u8]`. Every use of a mapped file relies on that not happening, as documented
        // above. The bytes read here are numbers that are checked when the file is opened and index nothing afterwards.
        unsafe { memmap2::Mmap::map(file) }.map(Self)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
