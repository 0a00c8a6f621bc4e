//! Sets of bytes.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Bytes([u64; 4]);

impl Bytes {
    /// The bytes for which a condition holds.
    pub(super) fn of(holds: impl Fn(u8) -> bool) -> Self {
        let mut bytes = Self::default();
        for byte in (0..=255).filter(|&byte| holds(byte)) {
            bytes.0[usize::from(byte) / 64] |= 1 << (byte % 64);
        }
        bytes
    }

    pub(super) fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

impl From<[u64; 4]> for Bytes {
    fn from(words: [u64; 4]) -> Self {
        Self(words)
    }
}
