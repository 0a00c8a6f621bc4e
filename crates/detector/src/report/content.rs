//! The hash of a text, by which a report names it.

use std::io::{self, Read};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The SHA-256 and the length of a text as UTF-8, without a byte order mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The hash, in hexadecimal digits.
    pub sha256: String,
    /// The number of bytes.
    pub bytes: u64,
}

impl Content {
    /// Hashes a text.
    pub fn of(text: &str) -> Self {
        Self { sha256: HEXLOWER.encode(&Sha256::digest(text)), bytes: text.len() as u64 }
    }
}

/// Hashes a text while it is read.
pub struct Hashing<R> {
    reader: R,
    hash: Sha256,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    /// Creates a reader of the same text.
    pub fn new(reader: R) -> Self {
        Self { reader, hash: Sha256::new(), bytes: 0 }
    }

    /// Reads what is left, and returns the hash of the whole text.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn content(mut self) -> io::Result<Content> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(Content { sha256: HEXLOWER.encode(&self.hash.finalize()), bytes: self.bytes })
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        self.hash.update(&into[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first value is an example of FIPS 180-2.
    #[test]
    fn a_text_that_is_read_has_the_hash_of_the_whole() {
        let abc = Content::of("abc");
        assert_eq!(abc.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let long = "The captain. ".repeat(10_000);
        let mut hashing = Hashing::new(long.as_bytes());
        let mut start = [0; 1000];
        hashing.read_exact(&mut start).unwrap();
        assert_eq!(hashing.content().unwrap(), Content::of(&long));
        assert_eq!(Content::of(&long).bytes, 130_000);
    }
}
