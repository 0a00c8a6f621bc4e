//! Sets of bytes, such as those that may come next.

/// Whether a set has a byte.
#[inline]
pub(crate) fn has_byte(set: &[u64; 4], byte: u8) -> bool {
    set[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
}
