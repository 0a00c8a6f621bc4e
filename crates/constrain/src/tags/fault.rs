//! The reason why a structural tag cannot be used.

/// A structural tag that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the structural tag cannot be used: {path}: {fault}")]
pub struct BadTag {
    /// The location, as a JSON pointer in a URI fragment: `#/format/elements/0`.
    pub path: String,
    /// The fault, which names the field or the format.
    pub fault: String,
}

pub(super) type Result<T, E = BadTag> = std::result::Result<T, E>;

/// The error for a fault at a path.
pub(super) fn bad<T>(path: &str, fault: impl Into<String>) -> Result<T> {
    Err(BadTag { path: path.into(), fault: fault.into() })
}
