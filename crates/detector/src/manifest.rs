//! C2PA manifests in a text, which are not part of its content and are removed before tokens are read.
//!
//! The C2PA specification (version 2.4) lets a text carry a signed manifest in two ways. Unstructured text (A.8) ends
//! with a wrapper of invisible characters: U+FEFF, then variation selectors, each of which encodes one byte; the first
//! eight bytes are `C2PATXT\0`. Structured text (A.9) has a block in a comment or in its front matter: a reference
//! between two delimiter lines. To a tokenizer either is thousands of unmarked tokens.
//!
//! Removing a manifest does not validate it. A damaged wrapper is removed like any other, since it is invisible. Of a
//! block, only the parts that cannot be content are removed: the delimiters, a reference without spaces, and the
//! comment signs around them. Words between or next to the delimiters are text.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

/// U+FEFF in UTF-8, which begins a wrapper.
const MARKER: &[u8] = "\u{FEFF}".as_bytes();
/// The bytes that the first variation selectors of a wrapper encode.
const MAGIC: &[u8] = b"C2PATXT\0";
const BEGIN: &[u8] = b"-----BEGIN C2PA MANIFEST-----";
const END: &[u8] = b"-----END C2PA MANIFEST-----";
/// The lines that open and close front matter.
const FENCES: [&[u8]; 2] = [b"---\n", b"+++\n"];

/// The most bytes of comment signs, with white space, on one side of a block, and the most bytes of white space on one
/// side of a reference.
const SIGNS: usize = 16;
/// The most bytes at the end of the input that may be the start of a manifest: a fence, comment signs and most of
/// `BEGIN`.
const BEFORE: usize = 64;
/// The number of bytes after a block that are examined: comment signs and a fence.
const AFTER: usize = 64;
/// A longer manifest, in bytes of the text, is left in the text, so that a stream is read in bounded memory.
const LONGEST: usize = 16 << 20;

/// A text without its manifests.
#[derive(Clone, Debug)]
pub struct Unwrapped<'t> {
    /// The remaining text.
    pub text: Cow<'t, str>,
    /// The removed byte ranges of the original text, in order.
    pub manifests: Vec<Range<usize>>,
    /// For each of them the byte of the remaining text at which it was, and the total length up to and including it.
    anchors: Vec<(usize, usize)>,
}

impl<'t> Unwrapped<'t> {
    /// Removes the manifests of a text.
    ///
    /// ```
    /// use verdigris_detector::Unwrapped;
    ///
    /// let text = "# -----BEGIN C2PA MANIFEST----- https://example.com/a.c2pa -----END C2PA MANIFEST-----\nA text.";
    /// let unwrapped = Unwrapped::new(text);
    /// assert_eq!((&*unwrapped.text, &unwrapped.manifests[..]), ("A text.", &[0..87][..]));
    /// ```
    pub fn new(text: &'t str) -> Self {
        let mut manifests: Vec<Range<usize>> = Vec::new();
        let mut from = 0;
        while let Next::Manifest(found) = next(text.as_bytes(), from, Around::ALL) {
            from = found.end;
            manifests.push(found);
        }
        if manifests.is_empty() {
            return Self { text: Cow::Borrowed(text), manifests, anchors: Vec::new() };
        }
        let (mut left, mut anchors, mut from) = (String::with_capacity(text.len()), Vec::new(), 0);
        for manifest in &manifests {
            left.push_str(&text[from..manifest.start]);
            from = manifest.end;
            anchors.push((left.len(), from - left.len()));
        }
        left.push_str(&text[from..]);
        Self { text: Cow::Owned(left), manifests, anchors }
    }

    /// Returns the bytes of the original text for bytes of the remaining text.
    pub fn origin(&self, range: Range<usize>) -> Range<usize> {
        let before = |count: usize| count.checked_sub(1).map_or(0, |last| self.anchors[last].1);
        // A manifest at an edge of the range is not part of it.
        let start = range.start + before(self.anchors.partition_point(|&(here, _)| here <= range.start));
        let end = range.end + before(self.anchors.partition_point(|&(here, _)| here < range.end));
        start..end.max(start)
    }
}

/// Reads a stream of text without its manifests, in bounded memory. The result is the same as that of [`Unwrapped`].
pub struct Unwrapping<R> {
    reader: R,
    /// Bytes that were read and not yet passed on.
    held: Vec<u8>,
    /// The number of its first bytes that are known to be text.
    text: usize,
    /// The number of its first bytes that were returned.
    given: usize,
    around: Around,
}

/// The position of a piece of text within the whole text.
#[derive(Clone, Copy)]
struct Around {
    /// The piece begins the text.
    first: bool,
    /// The piece begins a line.
    line: bool,
    /// The piece ends the text.
    last: bool,
}

impl Around {
    const ALL: Self = Self { first: true, line: true, last: true };
}

impl<R: Read> Unwrapping<R> {
    /// Creates a reader of the text without manifests.
    pub fn new(reader: R) -> Self {
        let around = Around { last: false, ..Around::ALL };
        Self { reader, held: Vec::new(), text: 0, given: 0, around }
    }

    /// Drops the first `count` held bytes, which are text or a manifest.
    fn pass(&mut self, count: usize) {
        if count > 0 {
            let line = self.held[count - 1] == b'\n';
            self.around = Around { first: false, line, ..self.around };
            self.held.drain(..count);
        }
    }

    /// Reads until there is text to return, or until the end.
    fn advance(&mut self) -> io::Result<()> {
        const PIECE: usize = 64 << 10;
        let given = std::mem::take(&mut self.given);
        self.pass(given);
        while self.text == 0 && !(self.around.last && self.held.is_empty()) {
            let wanted = match next(&self.held, 0, self.around) {
                Next::Manifest(found) if found.start == 0 => {
                    self.pass(found.end);
                    0
                }
                // The text before it is returned first; then the manifest is found again.
                Next::Manifest(found) => {
                    self.text = found.start;
                    0
                }
                Next::Text(count) if count > 0 => {
                    self.text = count;
                    0
                }
                // At least as many bytes as are held, so that a long piece is not scanned many times.
                Next::Text(_) => PIECE.max(self.held.len()),
            };
            if wanted > 0 && !self.around.last {
                let read = self.reader.by_ref().take(wanted as u64).read_to_end(&mut self.held)?;
                self.around.last = read < wanted;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Unwrapping<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text {
            self.text = 0;
            self.advance()?;
        }
        let count = out.len().min(self.text - self.given);
        out[..count].copy_from_slice(&self.held[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// The next part of a text.
#[derive(Debug, PartialEq)]
enum Next {
    /// A manifest, with all text before it.
    Manifest(Range<usize>),
    /// No manifest begins before this byte.
    Text(usize),
}

/// The kind of a possible beginning of a manifest.
enum Candidate {
    No,
    /// A manifest.
    Whole(Range<usize>),
    /// Undecided until more bytes after this one are read.
    Open(usize),
}

/// Finds the first manifest at or after `from`.
fn next(bytes: &[u8], from: usize, around: Around) -> Next {
    let decided = |candidate| match candidate {
        Candidate::Whole(found) if found.len() <= LONGEST => Some(Next::Manifest(found)),
        Candidate::Open(start) if bytes.len() - start <= LONGEST + AFTER => Some(Next::Text(start)),
        _ => None,
    };
    // Readers of files remove a first U+FEFF as a byte order mark, so a wrapper at the beginning may lack it.
    let bare = if from == 0 && around.first { decided(wrapper(bytes, 0, 0, around)) } else { None };
    if let Some(next) = bare {
        return next;
    }
    let mut at = from;
    while let Some(found) = bytes[at..].iter().position(|&byte| byte == MARKER[0] || byte == BEGIN[0]) {
        at += found;
        let candidate = match bytes[at] == MARKER[0] {
            true if bytes[at..].starts_with(MARKER) => wrapper(bytes, at, MARKER.len(), around),
            false if bytes[at..].starts_with(BEGIN) => block(bytes, from, at, around),
            _ => Candidate::No,
        };
        if let Some(next) = decided(candidate) {
            return next;
        }
        at += 1;
    }
    Next::Text(if around.last { bytes.len() } else { bytes.len().saturating_sub(BEFORE).max(from) })
}

/// Examines the possible wrapper at byte `at`, whose marker has `marker` bytes.
fn wrapper(bytes: &[u8], at: usize, marker: usize, around: Around) -> Candidate {
    let (mut end, mut count) = (at + marker, 0);
    while let Some(selector) = selector(&bytes[end..]) {
        if count < MAGIC.len() && MAGIC[count] != selector.0 {
            return Candidate::No;
        }
        count += 1;
        end += selector.1;
    }
    // A character may be cut off.
    if !around.last && bytes.len() - end < 4 {
        return Candidate::Open(at);
    }
    if count < MAGIC.len() { Candidate::No } else { Candidate::Whole(at..end) }
}

/// Returns the byte that a variation selector encodes, and the selector's own length in UTF-8.
fn selector(bytes: &[u8]) -> Option<(u8, usize)> {
    match *bytes {
        // U+FE00 to U+FE0F.
        [0xEF, 0xB8, low @ 0x80..=0x8F, ..] => Some((low - 0x80, 3)),
        // U+E0100 to U+E01EF, which encode the bytes from 16.
        [0xF3, 0xA0, high @ 0x84..=0x87, low @ 0x80..=0xBF, ..] => {
            let value = (usize::from(high - 0x84) << 6) + usize::from(low - 0x80) + 16;
            u8::try_from(value).ok().map(|value| (value, 4))
        }
        _ => None,
    }
}

/// Examines the possible block whose first delimiter begins at `at`. The block begins with the delimiter's line, not
/// before `from`.
fn block(bytes: &[u8], from: usize, at: usize, around: Around) -> Candidate {
    let near = from.max(at.saturating_sub(SIGNS + 1));
    let line = match bytes[near..at].iter().rposition(|&byte| byte == b'\n') {
        Some(before) => near + before + 1,
        None if near == from && from.checked_sub(1).map_or(around.line, |before| bytes[before] == b'\n') => from,
        None => return Candidate::No,
    };
    if !is_signs(&bytes[line..at]) {
        return Candidate::No;
    }
    let fence = FENCES.iter().find(|fence| around.first && bytes[..line] == ***fence);
    let spaces = |at: usize| bytes[at..].iter().take(SIGNS).take_while(|byte| byte.is_ascii_whitespace()).count();
    let reference = at + BEGIN.len() + spaces(at + BEGIN.len());
    let length = bytes[reference..].iter().take_while(|byte| byte.is_ascii_graphic()).count();
    let end = reference + length + spaces(reference + length);
    let after = end + END.len();
    if !around.last && bytes.len() < after + AFTER && END.starts_with(&bytes[end..bytes.len().min(after)]) {
        return Candidate::Open(if fence.is_some() { 0 } else { line });
    }
    if length == 0 || !bytes[end..].starts_with(END) {
        return Candidate::No;
    }
    let rest = &bytes[after..];
    let signs = rest.iter().take(SIGNS + 1).position(|&byte| byte == b'\n');
    if !is_signs(&rest[..signs.unwrap_or(rest.len())]) {
        return Candidate::No;
    }
    let found = line..after + signs.map_or(rest.len(), |signs| signs + 1);
    // Front matter that contains nothing else was added for the manifest.
    match fence {
        Some(fence) if bytes[found.end..].starts_with(fence) => Candidate::Whole(0..found.end + fence.len()),
        _ => Candidate::Whole(found),
    }
}

/// Whether these bytes may be comment signs.
fn is_signs(bytes: &[u8]) -> bool {
    bytes.len() <= SIGNS && bytes.iter().all(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use c2pa_structured_text::{ManifestRef, embed_front_matter, embed_manifest, embed_manifest_at_end};
    use c2pa_unstructured_text::{vs, wrapper};

    use super::*;

    const TEXT: &str =
        "The captain came on deck \u{2764}\u{FE0F}, -- and\n---\nna\u{ef}ve \u{FEFF}sailors\u{FF0C} too.\n";

    fn left(text: &str) -> String {
        let whole = Unwrapped::new(text);
        // A stream that arrives in small pieces gives the same text.
        for size in [1, 7, 1000].into_iter().filter(|size| text.len() / size < 1 << 20) {
            let mut streamed = Vec::new();
            Unwrapping::new(Slow(text.as_bytes(), size)).read_to_end(&mut streamed).unwrap();
            assert_eq!(std::str::from_utf8(&streamed).unwrap(), whole.text, "{size}");
        }
        whole.text.into_owned()
    }

    struct Slow<'a>(&'a [u8], usize);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(out.len()).min(self.0.len());
            out[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    /// Bytes of all values that a manifest may contain.
    fn payload(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * 7 + i / 256) as u8).collect()
    }

    #[test]
    fn wrappers_that_another_library_writes_are_left_out() {
        for length in [0, 1, 300, 40_000] {
            let text = wrapper::embed(TEXT, &payload(length)).unwrap();
            assert_eq!(left(&text), TEXT);
            let [manifest] = &Unwrapped::new(&text).manifests[..] else { panic!("there is one") };
            assert_eq!(*manifest, TEXT.len()..text.len());
            let padded = wrapper::encode_padded(&payload(length)).unwrap();
            assert_eq!(left(&format!("{padded}{TEXT}{padded}{TEXT}")), TEXT.repeat(2));
        }
    }

    #[test]
    fn blocks_that_another_library_writes_are_left_out() {
        let long = payload(50_000);
        for manifest in [ManifestRef::Url("https://example.com/a.c2pa"), ManifestRef::Embedded(&long)] {
            let again = || match manifest {
                ManifestRef::Url(url) => ManifestRef::Url(url),
                ManifestRef::Embedded(bytes) => ManifestRef::Embedded(bytes),
            };
            for (prefix, suffix) in [("#", None), ("//", None), ("<!--", Some("-->")), ("/*", Some("*/")), ("--", None)]
            {
                assert_eq!(left(&embed_manifest(TEXT, again(), prefix, suffix)), TEXT);
                assert_eq!(left(&embed_manifest_at_end(TEXT, again(), prefix, suffix)), TEXT);
            }
            assert_eq!(left(&embed_front_matter(TEXT, again(), "---")), TEXT);
            assert_eq!(left(&embed_front_matter(TEXT, again(), "+++")), TEXT);
            let titled = "---\ntitle: a\n---\nA text.\n";
            assert_eq!(left(&embed_front_matter(titled, again(), "---")), titled);
            assert_eq!(
                left(&embed_manifest(TEXT, again(), "#", None).replace('\n', "\r\n")),
                TEXT.replace('\n', "\r\n")
            );
        }
    }

    #[test]
    fn a_damaged_wrapper_is_left_out_and_what_has_no_magic_is_left_alone() {
        let wrapped = wrapper::embed(TEXT, &payload(100)).unwrap();
        let short: String = wrapped.chars().take(wrapped.chars().count() - 20).collect();
        assert_eq!(left(&short), TEXT);
        let mut framed = b"C2PATXT\0".to_vec();
        assert_eq!(left(&format!("{TEXT}\u{FEFF}{}", vs::encode_run(&framed))), TEXT);
        // Without the marker only at the beginning, where it is taken for a byte order mark.
        assert_eq!(left(&format!("{}{TEXT}", vs::encode_run(&framed))), TEXT);
        framed[7] = 1;
        for other in [vs::encode_run(&framed), vs::encode_run(b"C2PATXT"), "\u{FE0F}".into()] {
            let text = format!("{TEXT}\u{FEFF}{other} more");
            assert_eq!(left(&text), text);
        }
    }

    /// Text that people can read cannot be hidden in a block.
    #[test]
    fn words_in_a_block_or_beside_it_are_text() {
        let (begin, end) = ("-----BEGIN C2PA MANIFEST-----", "-----END C2PA MANIFEST-----");
        for text in [
            format!("# {begin} the whole of a text {end}\n"),
            format!("{begin}\n{TEXT}{end}\n"),
            format!("Words {begin} urn:a {end}\n"),
            format!("# {begin} urn:a {end} words\n"),
            format!("# {begin} {end}\n"),
            format!("# {begin} urn:a\n"),
            format!("# {begin}"),
            format!("# {end}\n# {begin} urn:a"),
            format!("{begin} {begin} urn:a {end}"),
            format!("# {begin} na\u{ef}ve {end}\n"),
            format!("{} {begin} urn:a {end}\n", "#".repeat(40)),
        ] {
            assert_eq!(left(&text), text);
        }
    }

    #[test]
    fn bytes_know_where_they_were() {
        let wrapped = format!("ab{}cd{}", wrapper::encode(b"one").unwrap(), wrapper::encode(b"two").unwrap());
        let text = embed_manifest(&wrapped, ManifestRef::Url("urn:a"), "#", None);
        let unwrapped = Unwrapped::new(&text);
        assert_eq!((&*unwrapped.text, unwrapped.manifests.len()), ("abcd", 3));
        for (range, there) in [(0..1, "a"), (0..2, "ab"), (1..2, "b"), (2..4, "cd"), (3..4, "d")] {
            assert_eq!(&text[unwrapped.origin(range)], there);
        }
        assert_eq!(text[unwrapped.origin(1..3)].chars().filter(|&c| c.is_ascii()).collect::<String>(), "bc");
        assert_eq!(unwrapped.origin(4..4), text.len()..text.len());
    }

    /// A manifest that is too long for a stream is left in any text, and reading takes time linear in its length.
    #[test]
    fn endless_manifests_are_text() {
        let endless = wrapper::encode(&vec![200; LONGEST / 4]).unwrap();
        assert!(endless.len() > LONGEST);
        assert!(left(&endless) == endless);
        let armour = "#-----BEGIN C2PA MANIFEST----- ".repeat(20_000);
        assert!(left(&armour) == armour);
        let reference = format!("-----BEGIN C2PA MANIFEST-----\n{}", "a".repeat(LONGEST + 1000));
        assert!(left(&reference) == reference);
    }
}
