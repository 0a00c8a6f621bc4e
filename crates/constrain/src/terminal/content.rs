//! What stands in a JSON string, apart from how it is written there.

/// What stands in a string, as a walk over its UTF-8 bytes.
///
/// # Contract
/// `next` leads only to states from which some content can be completed. States are below [`STATES`].
pub(crate) trait Content {
    /// The state before any byte.
    fn start(&self) -> u32;
    /// The state after one more byte, if a content can go on so.
    fn next(&self, state: u32, byte: u8) -> Option<u32>;
    /// Whether the content is whole.
    fn accepts(&self, state: u32) -> bool;
    /// The fewest bytes, as written, that make the content whole.
    fn to_end(&self, state: u32) -> u64;
    /// Up to how many characters, whichever they are, may come next.
    fn free(&self, state: u32) -> Option<u32>;
}

/// States of contents are smaller.
pub(crate) const STATES: u32 = 1 << 28;

/// Whether a control character has an escape of one letter.
pub(super) fn has_short_escape(control: u8) -> bool {
    matches!(control, 0x08 | 0x09 | 0x0a | 0x0c | 0x0d)
}

/// How many bytes a byte of a content takes where it is written.
pub(crate) fn written(byte: u8) -> u64 {
    match byte {
        b'"' | b'\\' => 2,
        0..0x20 if has_short_escape(byte) => 2,
        0..0x20 => 6,
        _ => 1,
    }
}
