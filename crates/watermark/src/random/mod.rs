//! The generators and hashes of other systems, bit for bit, as far as their watermarks need them.

pub(crate) mod jenkins;
pub(crate) mod mt19937;
pub(crate) mod murmur3;
pub(crate) mod pcg64;
