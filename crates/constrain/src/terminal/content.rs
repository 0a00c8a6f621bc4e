//! The contents of JSON strings, independent of how they are escaped.

/// The content of a string, as a walk over its UTF-8 bytes.
///
/// # Contract
/// `next` leads only to states from which some content can be completed. States are below [`STATES`].
pub(crate) trait Content {
    /// The state before any byte.
    fn start(&self) -> u32;
    /// The state after one more byte, if any content continues with it.
    fn next(&self, state: u32, byte: u8) -> Option<u32>;
    /// Whether the content is complete.
    fn accepts(&self, state: u32) -> bool;
    /// The fewest bytes, as written, that complete the content.
    fn to_end(&self, state: u32) -> u64;
    /// The number of characters that may come next, whichever they are.
    fn free(&self, state: u32) -> Option<u32>;
}

/// The upper limit of states of contents, exclusive.
pub(crate) const STATES: u32 = 1 << 28;

/// Whether a control character has an escape of one letter.
pub(super) fn has_short_escape(control: u8) -> bool {
    matches!(control, 0x08 | 0x09 | 0x0a | 0x0c | 0x0d)
}

/// The number of bytes that a byte of a content takes when written.
pub(crate) fn written(byte: u8) -> u64 {
    match byte {
        b'"' | b'\\' => 2,
        0..0x20 if has_short_escape(byte) => 2,
        0..0x20 => 6,
        _ => 1,
    }
}
