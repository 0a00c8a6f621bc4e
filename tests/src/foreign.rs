//! Schemas of other people with their instances, which are not part of the project.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A schema with instances.
#[derive(Deserialize)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// The schema.
    pub schema: Value,
    /// Values, valid and invalid.
    pub tests: Vec<Instance>,
}

/// A value and whether it obeys the schema.
#[derive(Deserialize)]
pub struct Instance {
    /// Whether it obeys the schema.
    pub valid: bool,
    /// The value.
    pub data: Value,
}

/// The cases of a `.jsonl.zst` file; `None` if there is no such file.
///
/// # Panics
/// If it holds anything else.
pub fn cases(path: &Path) -> Option<Vec<Case>> {
    let bytes = std::fs::read(path).ok()?;
    Some(lines(&zstd::decode_all(&bytes[..]).expect("a whole zstd file")))
}

/// The values of JSON Lines, one per line.
///
/// # Panics
/// If a line is not such a value.
pub fn lines<T: DeserializeOwned>(bytes: &[u8]) -> Vec<T> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("a line of JSON")).collect()
}
