//! Splits a long text into chunks that tokenize like the whole.
//!
//! Every common tokenizer starts a new word at a space between two letters, so a cut there changes no token. Some add a
//! space before the text; [`Tokenizer`](crate::Tokenizer) lets them do so for the first chunk only. If a whole chunk
//! has no such position (some scripts use no spaces), the text is cut between two characters, which can change the few
//! tokens around the cut.

use std::io::{self, Read};

/// The maximum number of bytes of a chunk.
const CHUNK: usize = 64 << 10;

/// The reason why a text could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The reader failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The bytes are not UTF-8.
    #[error("byte {offset} is not valid UTF-8: is it a text file? Convert it first, for example with `iconv -t utf-8`")]
    NotUtf8 {
        /// The number of valid bytes before it.
        offset: u64,
    },
    /// The tokenizer refuses the text.
    #[error(
        "the model's tokenizer cannot read this text: {fault}; its file must have a token for what it does not know"
    )]
    NoTokens {
        /// The error of the tokenizer.
        fault: String,
    },
}

impl From<std::str::Utf8Error> for ReadError {
    fn from(error: std::str::Utf8Error) -> Self {
        Self::NotUtf8 { offset: error.valid_up_to() as u64 }
    }
}

/// An iterator over the chunks of a text, whose concatenation is the text. It holds one chunk at a time.
pub struct Chunks<R> {
    reader: R,
    /// Bytes that have been read but not returned yet.
    rest: Vec<u8>,
    /// The position of `rest` in the text.
    offset: u64,
    ended: bool,
}

impl<R: Read> Chunks<R> {
    /// Creates an iterator over the chunks of what `reader` returns.
    pub fn new(reader: R) -> Self {
        Self { reader, rest: Vec::new(), offset: 0, ended: false }
    }

    fn next_chunk(&mut self) -> Result<Option<String>, ReadError> {
        while !self.ended && self.rest.len() < CHUNK {
            let missing = (CHUNK - self.rest.len()) as u64;
            self.ended = self.reader.by_ref().take(missing).read_to_end(&mut self.rest)? == 0;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let valid = match std::str::from_utf8(&self.rest) {
            Ok(text) => text,
            // A character may continue in bytes that have not been read yet.
            Err(error) if error.error_len().is_none() && !self.ended && error.valid_up_to() > 0 => {
                std::str::from_utf8(&self.rest[..error.valid_up_to()]).expect("checked up to here")
            }
            Err(error) => return Err(ReadError::NotUtf8 { offset: self.offset + error.valid_up_to() as u64 }),
        };
        let end = if self.ended { valid.len() } else { cut(valid) };
        let chunk = valid[..end].to_owned();
        self.rest.drain(..end);
        self.offset += end as u64;
        Ok(Some(chunk))
    }
}

impl<R: Read> Iterator for Chunks<R> {
    type Item = Result<String, ReadError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk().transpose()
    }
}

/// The last position that no token can cross, or the end of the text if there is none.
fn cut(text: &str) -> usize {
    let bytes = text.as_bytes();
    (1..bytes.len().saturating_sub(1))
        .rev()
        .find(|&i| bytes[i] == b' ' && bytes[i - 1].is_ascii_alphabetic() && bytes[i + 1].is_ascii_alphabetic())
        .unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns its bytes a few at a time.
    struct Slow<'a>(&'a [u8], usize);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(out.len()).min(self.0.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn pieces_join_to_the_text_and_are_cut_at_words() {
        let text = "the rain in Spain -- stays\n\nmainly ; in  the plain été ".repeat(9000);
        let chunks: Vec<String> = Chunks::new(Slow(text.as_bytes(), 1000)).map(Result::unwrap).collect();
        assert_eq!(chunks.concat(), text);
        assert!(chunks.len() > 5);
        for pair in chunks.windows(2) {
            assert!(pair[0].ends_with(|c: char| c.is_ascii_alphabetic()) && pair[1].starts_with(' '));
            assert!(pair[0].len() <= CHUNK);
        }
    }

    #[test]
    fn a_text_without_spaces_is_cut_between_characters() {
        let text = "春夏秋冬".repeat(50_000);
        let chunks: Vec<String> = Chunks::new(text.as_bytes()).map(Result::unwrap).collect();
        assert_eq!(chunks.concat(), text);
    }

    #[test]
    fn the_first_bad_byte_is_named() {
        for (good, bad) in [("", &b"\xff"[..]), ("abc", b"\xe2\x82"), (&"word ".repeat(30_000), b"\x80x")] {
            let bytes = [good.as_bytes(), bad].concat();
            let error = Chunks::new(&bytes[..]).find_map(Result::err).unwrap();
            assert!(matches!(error, ReadError::NotUtf8 { offset } if offset == good.len() as u64), "{error}");
        }
        assert_eq!(Chunks::new(&b""[..]).count(), 0);
    }
}
