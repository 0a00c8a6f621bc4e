//! Properties of bytes in UTF-8.

/// Whether a byte is the first one of a character.
pub(crate) fn begins_character(byte: u8) -> bool {
    byte & 0xc0 != 0x80
}
