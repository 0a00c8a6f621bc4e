//! Files as memory.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A file whose bytes are read when they are looked at, and that all programs share which map it.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a file. Nobody should write to it while it is mapped: what is read then is what stands there at that
    /// moment, and of a file that is cut short nothing can be read (the program ends with a signal). Model files are
    /// replaced, not written to.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the map is read-only, nothing here writes through it, and it is unmapped when nobody has a slice of
        // it. That the bytes stay what they are is not for this process to promise: whoever writes to the file breaks
        // what `&[u8]` is. It is what every mapped file rests on; what is read here are numbers, which are checked when
        // the file is opened and index nothing afterwards. That is said above.
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
