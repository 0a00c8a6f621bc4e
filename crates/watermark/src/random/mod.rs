//! The generators and hashes of other systems, bit for bit, as far as their watermarks need them.

pub(crate) mod jenkins;
pub(crate) mod mt19937;
pub(crate) mod murmur3;
pub(crate) mod pcg64;

/// The two words of a key, the lower one first.
pub(crate) fn halves(key: u64) -> [u32; 2] {
    [key as u32, (key >> 32) as u32]
}
