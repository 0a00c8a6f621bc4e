//! The format of key files: its name, and how long a file may be.

/// What a file says that it is.
pub(super) const FORMAT: &str = "verdigris-key-1";

/// What the formats of all versions begin with.
pub(super) const ANY_FORMAT: &[u8] = b"\"verdigris-key-";

/// No key file is longer than this, in bytes.
pub const MAX_FILE: u64 = 256 << 10;
