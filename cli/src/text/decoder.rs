//! A file's bytes as UTF-8, in bounded memory.

use std::io::{self, Read};

use super::sniff::{Coding, sniff};

/// The number of bytes that are read at once.
const CHUNK: u64 = 64 << 10;

/// Reads a text in UTF-8 or UTF-16 as UTF-8 without a byte order mark. Anything else is an error that says what it is.
pub(crate) struct Decoder<R> {
    reader: R,
    /// Whether bytes in UTF-8 are passed on unchecked.
    unchecked: bool,
    coding: Option<Coding>,
    /// Bytes that are not decoded yet: at the end of a chunk, a part of a character.
    raw: Vec<u8>,
    /// The offset of `raw` in the file.
    offset: u64,
    ended: bool,
    /// Decoded bytes; those before `given` were returned.
    text: Vec<u8>,
    given: usize,
}

impl<R: Read> Decoder<R> {
    pub(crate) fn new(reader: R) -> Self {
        let (raw, text) = (Vec::new(), Vec::new());
        Self { reader, unchecked: false, coding: None, raw, offset: 0, ended: false, text, given: 0 }
    }

    /// For lines that are judged one by one: bytes that are not UTF-8 are the fault of their line alone.
    pub(crate) fn unchecked(reader: R) -> Self {
        Self { unchecked: true, ..Self::new(reader) }
    }

    /// Decodes the next chunk; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let missing = CHUNK - self.raw.len() as u64;
        let read = self.reader.by_ref().take(missing).read_to_end(&mut self.raw)?;
        self.ended = (read as u64) < missing;
        let coding = match self.coding {
            Some(coding) => coding,
            None => {
                let (coding, mark) = sniff(&self.raw).map_err(invalid)?;
                self.raw.drain(..mark);
                self.offset = mark as u64;
                *self.coding.insert(coding)
            }
        };
        self.text.clear();
        self.given = 0;
        let used = match coding {
            Coding::Utf8 => self.utf8()?,
            Coding::Utf16 { big_endian } => self.utf16(big_endian)?,
        };
        self.raw.drain(..used);
        self.offset += used as u64;
        Ok(true)
    }

    /// Decodes UTF-8, and returns the number of bytes used.
    fn utf8(&mut self) -> io::Result<usize> {
        let mut used = self.raw.len();
        if !self.unchecked {
            if let Err(error) = std::str::from_utf8(&self.raw) {
                used = error.valid_up_to();
                // The last character may continue in bytes that are not read yet.
                if error.error_len().is_some() || self.ended {
                    return Err(self.not("valid UTF-8", used));
                }
            }
            if let Some(at) = self.raw[..used].iter().position(|&byte| byte == 0) {
                return Err(invalid(format!("byte {} is zero: it is not a text file", self.offset + at as u64)));
            }
        }
        self.text.extend_from_slice(&self.raw[..used]);
        Ok(used)
    }

    fn utf16(&mut self, big_endian: bool) -> io::Result<usize> {
        let unit = |pair: &[u8]| match big_endian {
            true => u16::from_be_bytes([pair[0], pair[1]]),
            false => u16::from_le_bytes([pair[0], pair[1]]),
        };
        let units: Vec<u16> = self.raw.chunks_exact(2).map(unit).collect();
        let (mut used, mut text) = (0, String::new());
        for (at, unit) in char::decode_utf16(units.iter().copied()).scan(0, |at, unit| {
            let here = *at;
            *at += unit.as_ref().map_or(2, |c| 2 * c.len_utf16());
            Some((here, unit))
        }) {
            match unit {
                Ok('\0') => return Err(invalid(format!("byte {} is zero: it is not a text", self.offset + at as u64))),
                Ok(c) => {
                    text.push(c);
                    used = at + 2 * c.len_utf16();
                }
                // The second half may be in bytes that are not read yet.
                Err(_) if at + 2 == 2 * units.len() && !self.ended => break,
                Err(_) => return Err(self.not("valid UTF-16", at)),
            }
        }
        if self.ended && used < self.raw.len() {
            return Err(self.not("valid UTF-16", used));
        }
        self.text.extend_from_slice(text.as_bytes());
        Ok(used)
    }

    fn not(&self, what: &str, at: usize) -> io::Error {
        let at = self.offset + at as u64;
        invalid(format!(
            "byte {at} is not {what}: is it a text file? Convert other encodings first, for example with `iconv -f \
             WINDOWS-1252 -t UTF-8 FILE`"
        ))
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() {
            if !self.fill()? {
                return Ok(0);
            }
        }
        let count = into.len().min(self.text.len() - self.given);
        into[..count].copy_from_slice(&self.text[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Slow<'a>(&'a [u8], usize);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(out.len()).min(self.0.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn decode(bytes: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        let read = Decoder::new(Slow(bytes, 1001)).read_to_string(&mut text);
        read.map(|_| text).map_err(|error| error.to_string())
    }

    /// Longer than a chunk, so that characters lie across its ends.
    #[test]
    fn every_coding_gives_the_same_text() {
        let text = "a na\u{ef}ve \u{1F600} caf\u{e9} \u{6625}\r\n".repeat(9000);
        let units = |order: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(order).collect() };
        let little = [&b"\xff\xfe"[..], &units(u16::to_le_bytes)].concat();
        let big = [&b"\xfe\xff"[..], &units(u16::to_be_bytes)].concat();
        let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
        for bytes in [text.as_bytes(), &marked, &little, &big] {
            assert!(decode(bytes).unwrap() == text);
        }
        assert_eq!(decode(b"").unwrap(), "");
    }

    #[test]
    fn the_first_bad_byte_is_named() {
        for before in [0, 70_000] {
            let text = "x".repeat(before);
            for (mark, bytes, at) in
                [(&b""[..], &b"ab\xff"[..], 2), (b"\xef\xbb\xbf", b"ab\xe2\x82", 5), (b"", b"abc\0d", 3)]
            {
                let error = decode(&[mark, text.as_bytes(), bytes].concat()).unwrap_err();
                assert!(error.starts_with(&format!("byte {} is ", at + before)), "{error}");
            }
            let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            for (bytes, at) in [(&b"a\0\0\xd8b\0"[..], 4), (b"a\0\0\xd8", 4), (b"a\0b", 4), (b"a\0\0\0", 4)] {
                let error = decode(&[&b"\xff\xfe"[..], &wide, bytes].concat()).unwrap_err();
                assert!(error.starts_with(&format!("byte {} is ", at + 2 * before)), "{error}");
            }
        }
    }

    #[test]
    fn unchecked_lines_keep_their_faults() {
        let mut bytes = Vec::new();
        Decoder::unchecked(&b"\xef\xbb\xbfa\n\xff\n"[..]).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"a\n\xff\n");
    }
}
