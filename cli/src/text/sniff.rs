//! Recognizes kinds of files by their first bytes.

use encoding_rs::{Encoding, UTF_8};

/// The first bytes of files, the kind of such files, and what to do with them.
const KINDS: &[(&[u8], &str, &str)] = &[
    (b"%PDF-", "a PDF document", "extract its text first, for example with `pdftotext FILE -`"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it first: `gzip -dc FILE | verdigris detect -`"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "unpack it first: `zstd -dc FILE | verdigris detect -`"),
    (b"\xfd7zXZ\0", "compressed with xz", "unpack it first: `xz -dc FILE | verdigris detect -`"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it first"),
    (b"\x7fELF", "a program", "name a text"),
    (b"\x89PNG", "a PNG image", IMAGE),
    (b"\xff\xd8\xff", "a JPEG image", IMAGE),
    (b"GIF8", "a GIF image", IMAGE),
    (b"II*\0", "a TIFF image", IMAGE),
    (b"MM\0*", "a TIFF image", IMAGE),
    (b"\xd0\xcf\x11\xe0", "a document of an office program", OFFICE),
    (b"{\\rtf", "an RTF document", OFFICE),
    (b"PAR1", "a Parquet file", "`verdigris detect --format parquet` reads the texts of a column"),
    (b"GGUF", "a model file", "name a text"),
    (b"\xff\xfe\0\0", "UTF-32", "convert it first: `iconv -f UTF-32 -t UTF-8 FILE`"),
    (b"\0\0\xfe\xff", "UTF-32", "convert it first: `iconv -f UTF-32 -t UTF-8 FILE`"),
];

const IMAGE: &str = "extract its text first, with a program for text recognition";
const OFFICE: &str = "save it as plain text, or extract its text with `pandoc -t plain FILE`";

/// The contents of ZIP archives, by bytes near their beginning.
const ARCHIVES: &[(&[u8], &str)] = &[
    (b"word/", "a Word document"),
    (b"xl/", "an Excel workbook"),
    (b"ppt/", "a PowerPoint presentation"),
    (b"[Content_Types].xml", "a document of an office program"),
    (b"mimetypeapplication/vnd.oasis", "an OpenDocument file"),
    (b"mimetypeapplication/epub", "an e-book"),
];

/// The number of bytes of a file that are examined.
const LOOKED_AT: usize = 4096;

/// The encoding of the text that begins with these bytes, and the length of its byte order mark. If it is not a text,
/// the error says what it is, and what to do.
pub(super) fn sniff(start: &[u8]) -> Result<(&'static Encoding, usize), String> {
    let start = &start[..start.len().min(LOOKED_AT)];
    if let Some((_, what, advice)) = KINDS.iter().find(|(bytes, ..)| start.starts_with(bytes)) {
        return Err(format!("it is {what}: {advice}"));
    }
    if start.starts_with(b"PK\x03\x04") {
        let holds = |bytes: &[u8]| start.windows(bytes.len()).any(|window| window == bytes);
        return Err(match ARCHIVES.iter().find(|(bytes, _)| holds(bytes)) {
            Some((_, what)) => format!("it is {what}: {OFFICE}"),
            None => "it is a ZIP archive: unpack it first".into(),
        });
    }
    if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
        return Err(format!("it is a WebP image: {IMAGE}"));
    }
    // Compressed blocks begin with this number.
    if start.starts_with(b"BZh") && start.get(4..10) == Some(b"1AY&SY") {
        return Err("it is compressed with bzip2: unpack it first: `bzip2 -dc FILE | verdigris detect -`".into());
    }
    if start.get(257..262) == Some(b"ustar") {
        return Err("it is a tar archive: unpack it first".into());
    }
    if let Some(marked) = Encoding::for_bom(start) {
        return Ok(marked);
    }
    match unmarked_utf16(start) {
        Some(name) => Err(format!(
            "it looks like {name} without a byte order mark: convert it first: `iconv -f {name} -t UTF-8 FILE`"
        )),
        None => Ok((UTF_8, 0)),
    }
}

/// Recognizes UTF-16 of a script in which every second byte is zero.
fn unmarked_utf16(start: &[u8]) -> Option<&'static str> {
    let pairs = start.chunks_exact(2);
    let count = pairs.len();
    let (even, odd) =
        pairs.fold((0, 0), |(even, odd), pair| (even + usize::from(pair[0] == 0), odd + usize::from(pair[1] == 0)));
    if count < 4 {
        return None;
    }
    let (most, few) = (|n: usize| 5 * n > 2 * count, |n: usize| 20 * n <= count);
    match (most(even), most(odd)) {
        (false, true) if few(even) => Some("UTF-16LE"),
        (true, false) if few(odd) => Some("UTF-16BE"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{UTF_16BE, UTF_16LE};

    use super::*;

    #[test]
    fn texts_are_told_by_their_marks_and_the_rest_by_what_it_is() {
        assert_eq!(sniff(b""), Ok((UTF_8, 0)));
        assert_eq!(sniff("na\u{ef}ve".as_bytes()), Ok((UTF_8, 0)));
        assert_eq!(sniff(b"\xef\xbb\xbfword"), Ok((UTF_8, 3)));
        assert_eq!(sniff(b"\xff\xfea\0"), Ok((UTF_16LE, 2)));
        assert_eq!(sniff(b"\xfe\xff\0a"), Ok((UTF_16BE, 2)));
        for (start, said) in [
            (&b"%PDF-1.7\n"[..], "a PDF document: extract its text first, for example with `pdftotext"),
            (b"PK\x03\x04\x14\0\x06\0[Content_Types].xml", "a document of an office program: save it as plain text"),
            (b"PK\x03\x04\x14\0\x06\0word/document.xml", "a Word document"),
            (b"PK\x03\x04\x14\0\x06\0notes.txt", "a ZIP archive"),
            (b"\x1f\x8b\x08\0", "gzip"),
            (b"\x28\xb5\x2f\xfd\x04", "zstd"),
            (b"BZh91AY&SY", "bzip2"),
            (b"\x7fELF\x02\x01", "a program"),
            (b"\x89PNG\r\n", "a PNG image"),
            (b"\xff\xd8\xff\xe0", "a JPEG image"),
            (b"RIFF\x01\x02\x03\x04WEBPVP8 ", "a WebP image"),
            (b"PAR1\x15\x04", "--format parquet"),
            (b"\xff\xfe\0\0a\0\0\0", "UTF-32"),
            (b"w\0o\0r\0d\0s\0 \0\x19 ", "UTF-16LE without a byte order mark"),
            (b"\0w\0o\0r\0d\0s\0 \x20\x19", "UTF-16BE without a byte order mark"),
        ] {
            let error = sniff(start).unwrap_err();
            assert!(error.contains(said), "{error:?} should say {said:?}");
        }
        for text in ["BZh is a word here", "GIFs and RIFFs", "PK", "%PDF is how they begin"] {
            assert_eq!(sniff(text.as_bytes()), Ok((UTF_8, 0)), "{text}");
        }
    }
}
