//! A file's bytes as UTF-8, in bounded memory.

use std::io::{self, Read};

use encoding_rs::{DecoderResult, UTF_8};

use super::sniff::sniff;

/// The number of bytes that are read at once. Even, so that no unit of UTF-16 lies across two chunks.
const CHUNK: u64 = 64 << 10;

/// Reads a text in UTF-8 or UTF-16 as UTF-8 without a byte order mark. Anything else is an error that says what it is.
pub(crate) struct Decoder<R> {
    reader: R,
    /// Whether bytes in UTF-8 are passed on unchecked.
    unchecked: bool,
    /// The state of decoding, once the first chunk has shown the encoding.
    decoder: Option<encoding_rs::Decoder>,
    /// The last chunk.
    raw: Vec<u8>,
    /// The offset of `raw` in the file.
    offset: u64,
    /// Whether nothing follows `raw`, at the end of the file or after a fault.
    ended: bool,
    /// Decoded bytes; those before `given` were returned.
    text: Vec<u8>,
    given: usize,
}

impl<R: Read> Decoder<R> {
    pub(crate) fn new(reader: R) -> Self {
        let (raw, text) = (Vec::new(), Vec::new());
        Self { reader, unchecked: false, decoder: None, raw, offset: 0, ended: false, text, given: 0 }
    }

    /// For lines that are judged one by one: bytes that are not UTF-8 are the fault of their line alone.
    pub(crate) fn unchecked(reader: R) -> Self {
        Self { unchecked: true, ..Self::new(reader) }
    }

    /// Decodes the next chunk; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(false);
        }
        self.text.clear();
        self.given = 0;
        self.offset += self.raw.len() as u64;
        self.raw.clear();
        let last = (self.reader.by_ref().take(CHUNK).read_to_end(&mut self.raw)? as u64) < CHUNK;
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let (encoding, mark) = sniff(&self.raw).map_err(invalid)?;
                self.raw.drain(..mark);
                self.offset = mark as u64;
                self.decoder.insert(encoding.new_decoder_without_bom_handling())
            }
        };
        let (name, unit) = if decoder.encoding() == UTF_8 { ("UTF-8", 1) } else { ("UTF-16", 2) };
        if self.unchecked && unit == 1 {
            self.text.extend_from_slice(&self.raw);
        } else {
            let room = decoder.max_utf8_buffer_length_without_replacement(self.raw.len());
            self.text.resize(room.expect("three times a chunk at most"), 0);
            let (result, read, written) = decoder.decode_to_utf8_without_replacement(&self.raw, &mut self.text, last);
            let fault = match result {
                DecoderResult::Malformed(length, after) => {
                    let at = self.offset + read as u64 - u64::from(length + after);
                    Some(format!(
                        "byte {at} is not valid {name}: is it a text file? Convert other encodings first, for example \
                         with `iconv -f WINDOWS-1252 -t UTF-8 FILE`"
                    ))
                }
                _ => self.raw.chunks_exact(unit).position(|unit| unit.iter().all(|&byte| byte == 0)).map(|at| {
                    let at = self.offset + (at * unit) as u64;
                    format!("byte {at} is zero: it is not a text file")
                }),
            };
            self.text.truncate(if fault.is_none() { written } else { 0 });
            if let Some(fault) = fault {
                return Err(invalid(fault));
            }
        }
        self.ended = last;
        Ok(true)
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
