//! Schemas outside of a document that its references may lead to.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json::exact::parse_schema;

/// The maximum number of files, and the maximum size of one in bytes.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 16 << 20;

/// Schemas that references out of a document may lead to; nothing else is ever fetched.
///
/// A reference leads to the schema whose `$id` is its URI; or, if there is none, to the one whose name is the path of
/// the URI: `https://example.com/types/address.json` to `types/address.json`.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    schemas: Vec<(String, Value)>,
}

/// A folder of schemas that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the folder of schemas cannot be used: {}: {fault}", path.display())]
pub struct BadRegistry {
    /// The file or folder.
    pub path: PathBuf,
    /// The fault.
    pub fault: String,
}

impl Registry {
    /// Reads all files of a folder and its subfolders whose names end in `.json`. Links are not followed.
    ///
    /// # Errors
    /// The folder or a file in it cannot be read, a file is not a schema or too large, or there are too many.
    pub fn folder(folder: impl AsRef<Path>) -> Result<Self, BadRegistry> {
        let folder = folder.as_ref();
        let bad = |path: &Path, fault: String| BadRegistry { path: path.to_owned(), fault };
        let mut registry = Self::default();
        let mut open = vec![folder.to_owned()];
        while let Some(at) = open.pop() {
            let entries = std::fs::read_dir(&at).map_err(|error| bad(&at, error.to_string()))?;
            for entry in entries {
                let entry = entry.map_err(|error| bad(&at, error.to_string()))?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(|error| bad(&at, error.to_string()))?);
                if kind.is_dir() {
                    open.push(path);
                } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "json") {
                    let size = entry.metadata().map_err(|error| bad(&path, error.to_string()))?.len();
                    if size > MAX_BYTES || registry.schemas.len() == MAX_FILES {
                        let fault = format!("more than {MAX_FILES} files, or one of more than {} MiB", MAX_BYTES >> 20);
                        return Err(bad(&path, fault));
                    }
                    let bytes = std::fs::read(&path).map_err(|error| bad(&path, error.to_string()))?;
                    let schema = parse_schema(&bytes).map_err(|error| bad(&path, error.to_string()))?;
                    let parts = path.strip_prefix(folder).expect("it is below the folder").components();
                    let name: Vec<_> = parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
                    registry.insert(name.join("/"), schema);
                }
            }
        }
        registry.schemas.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(registry)
    }

    /// Adds a schema under a name.
    pub fn insert(&mut self, name: impl Into<String>, schema: Value) {
        self.schemas.push((name.into(), schema));
    }

    pub(crate) fn schemas(&self) -> impl Iterator<Item = &Value> {
        self.schemas.iter().map(|(_, schema)| schema)
    }

    /// The schema for a URI without a fragment.
    pub(crate) fn find(&self, uri: &str) -> Option<&Value> {
        let id = |schema: &Value| {
            let id = schema.get("$id").or_else(|| schema.get("id")).and_then(Value::as_str)?;
            Some(id.trim_end_matches('#').to_owned())
        };
        let path = uri.split_once("://").map_or(uri, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
        let by_id = self.schemas.iter().find(|(_, schema)| id(schema).is_some_and(|id| id == uri));
        let by_name = || self.schemas.iter().find(|(name, _)| name == path);
        by_id.or_else(by_name).map(|(_, schema)| schema)
    }
}
