//! The format of key files: its name, and the size limits.

/// The name of the current format.
pub(super) const FORMAT: &str = "verdigris-key-1";

/// The common prefix of the formats of all versions.
pub(super) const ANY_FORMAT: &[u8] = b"\"verdigris-key-";

/// The maximum size of a key file, in bytes.
pub const MAX_FILE: u64 = 256 << 10;

/// The most bytes of an id, or of a tenant's name.
pub const MAX_NAME: usize = 1000;

/// The most variants of a key. Each costs a detector as much as another key.
pub const MAX_VARIANTS: u8 = 64;
