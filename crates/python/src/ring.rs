//! Rings of keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use verdigris_detector::watermark::KeyError;
use verdigris_detector::watermark::ring::Skipped;
use verdigris_detector::{Key as Inner, KeyRing, Reader};

use crate::error;
use crate::key::Key;

/// The maximum number of ids shown.
const SHOWN: usize = 4;

/// Several keys. Detection tests each of them, and corrects the p-value for their number.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Ring {
    path: Option<PathBuf>,
    keys: Vec<(PathBuf, Arc<Inner>)>,
    skipped: Vec<Skipped>,
}

impl Ring {
    /// The keys for a tokenizer, and the files that are for another one or are not keys.
    pub(crate) fn fitting(&self, reader: &Reader) -> PyResult<(Vec<Arc<Inner>>, Vec<String>)> {
        let (mut keys, mut skipped) = (Vec::new(), self.skipped.clone());
        for (file, key) in &self.keys {
            match reader.fits(key) {
                Ok(()) => keys.push(key.clone()),
                Err(error) => skipped.push(Skipped { file: file.clone(), why: error.to_string() }),
            }
        }
        skipped.sort_by(|a, b| a.file.cmp(&b.file));
        if let (true, Some(first)) = (keys.is_empty(), skipped.first()) {
            let path = self.path.clone().unwrap_or_else(|| "Ring".into());
            return Err(error::key(KeyError::EmptyRing { path, wanted: format!("that can be used; {first}") }));
        }
        Ok((keys, skipped.iter().map(|skipped| skipped.file.display().to_string()).collect()))
    }
}

#[pymethods]
impl Ring {
    /// Makes a ring of the given keys.
    #[new]
    fn new(keys: Vec<Bound<'_, Key>>) -> PyResult<Self> {
        if keys.is_empty() {
            return Err(error::key("there is no key to judge by: give at least one"));
        }
        let keys = keys.iter().map(|key| (PathBuf::from(key.get().0.id()), key.get().0.clone())).collect();
        Ok(Self { path: None, keys, skipped: Vec::new() })
    }

    /// Reads the keys of a folder: its files that end in `.key` or `.json`.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        let ring = KeyRing::load(&path).map_err(error::key)?;
        let files: Vec<PathBuf> = ring.files().map(|(file, _)| file.into()).collect();
        let skipped = ring.skipped().to_vec();
        let keys = files.into_iter().zip(ring.into_keys().into_iter().map(Arc::new)).collect();
        Ok(Self { path: Some(path), keys, skipped })
    }

    /// The files of the folder that are not keys, with the reasons.
    #[getter]
    fn skipped(&self) -> Vec<String> {
        self.skipped.iter().map(ToString::to_string).collect()
    }

    /// The folder; `None` if the ring was made of keys.
    #[getter]
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// All keys.
    #[getter]
    pub(crate) fn keys(&self) -> Vec<Key> {
        self.keys.iter().map(|(_, key)| Key(key.clone())).collect()
    }

    fn __len__(&self) -> usize {
        self.keys.len()
    }

    /// The key with this id. Raises `BadKey`, which lists the existing ids, if there is none.
    fn __getitem__(&self, id: &str) -> PyResult<Key> {
        let found = self.keys.iter().find(|(_, key)| key.id() == id);
        let unknown = || {
            let place = self.path.as_ref().map_or_else(|| "this ring".into(), |path| path.display().to_string());
            let ids: Vec<String> = self.keys.iter().take(SHOWN).map(|(_, key)| format!("{:?}", key.id())).collect();
            let such = if self.keys.len() > ids.len() { " ones such as" } else { "" };
            error::key(format!(
                "there is no key with the id {id:?} in {place}, which has{such} {}: add it, or name one that is there",
                ids.join(", ")
            ))
        };
        found.map(|(_, key)| Key(key.clone())).ok_or_else(unknown)
    }

    fn __repr__(&self) -> String {
        let ids: Vec<&str> = self.keys.iter().take(SHOWN).map(|(_, key)| key.id()).collect();
        let more = if self.keys.len() > ids.len() { ", .." } else { "" };
        format!("Ring({} keys: {}{more})", self.keys.len(), ids.join(", "))
    }
}
