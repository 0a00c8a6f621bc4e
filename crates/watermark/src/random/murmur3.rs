//! MurmurHash3 (Appleby, x86, 32 bits, seed 0) of 32-bit words.

/// The hash of a sequence of words.
#[inline]
pub(crate) fn hash(words: impl IntoIterator<Item = u32>) -> u32 {
    let (mut state, mut length) = (0u32, 0u32);
    for word in words {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        state = (state ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
        length += 4;
    }
    state ^= length;
    state = (state ^ state >> 16).wrapping_mul(0x85eb_ca6b);
    state = (state ^ state >> 13).wrapping_mul(0xc2b2_ae35);
    state ^ state >> 16
}

#[cfg(test)]
mod tests {
    /// Published known answers: the empty input, and `"test"` and `"aaaa"` under seed 0.
    #[test]
    fn known_answers() {
        assert_eq!(super::hash([]), 0);
        assert_eq!(super::hash([u32::from_le_bytes(*b"test")]), 0xba6b_d213);
    }
}
