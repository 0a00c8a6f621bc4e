//! Prompts of several kinds, to measure real models with.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::Failure;

/// A prompt and its kind.
#[derive(Clone, Deserialize)]
pub(super) struct Prompt {
    #[serde(default)]
    pub(super) kind: String,
    pub(super) prompt: String,
}

/// Reads the prompts of a file in JSON Lines, at least one.
pub(super) fn read(path: &Path) -> Result<Vec<Prompt>, Failure> {
    lines(path, "prompt")
}

/// Reads the values of a file in JSON Lines, at least one, each of which is a `what`.
pub(super) fn lines<T: DeserializeOwned>(path: &Path, what: &str) -> Result<Vec<T>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", path.display())))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let values = lines.map(|(i, line)| {
        serde_json::from_str(line)
            .map_err(|error| Failure::Usage(format!("{}, line {}: {error}", path.display(), i + 1)))
    });
    let values = values.collect::<Result<Vec<T>, _>>()?;
    match values.is_empty() {
        true => Err(Failure::Usage(format!("{} has no {what}", path.display()))),
        false => Ok(values),
    }
}
