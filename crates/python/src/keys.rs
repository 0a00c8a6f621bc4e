//! What may be given as a key: one, a ring, or some of both.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use verdigris_detector::{Key as Inner, Reader};

use crate::argument::type_name;
use crate::error;
use crate::key::Key;
use crate::ring::Ring;

/// Keys to read with.
pub(crate) struct Keys {
    /// Each once: more keys mean more looks, and p-values that are larger by as much.
    pub(crate) keys: Vec<Arc<Inner>>,
    /// The files of rings that are no keys for the tokenizer.
    pub(crate) skipped: Vec<String>,
}

impl Keys {
    /// Those for a tokenizer. A key for another one is an error; in a ring it is skipped.
    pub(crate) fn fitting(given: &Bound<'_, PyAny>, reader: &Reader) -> PyResult<Self> {
        let (mut keys, mut skipped) = (Vec::new(), Vec::new());
        for given in each(given)? {
            if let Ok(ring) = given.cast::<Ring>() {
                let (theirs, left_out) = ring.get().fitting(reader)?;
                keys.extend(theirs);
                skipped.extend(left_out);
            } else {
                let key = as_key(&given)?.get();
                reader.fits(&key.0).map_err(error::detect)?;
                keys.push(key.0.clone());
            }
        }
        Ok(Self { keys: distinct(keys)?, skipped })
    }

    /// All of them, for whatever tokenizer.
    pub(crate) fn all(given: &Bound<'_, PyAny>) -> PyResult<Vec<Arc<Inner>>> {
        let mut keys = Vec::new();
        for given in each(given)? {
            match given.cast::<Ring>() {
                Ok(ring) => keys.extend(ring.get().keys().into_iter().map(|key| key.0)),
                Err(_) => keys.push(as_key(&given)?.get().0.clone()),
            }
        }
        distinct(keys)
    }
}

fn each<'py>(given: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if given.is_instance_of::<Key>() || given.is_instance_of::<Ring>() {
        return Ok(vec![given.clone()]);
    }
    match given.try_iter() {
        // A text is a sequence too, of keys of one character.
        Ok(each) if !given.is_instance_of::<PyString>() && !given.is_instance_of::<PyBytes>() => each.collect(),
        _ => as_key(given).map(|_| Vec::new()),
    }
}

/// One key.
fn as_key<'a, 'py>(given: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, Key>> {
    given.cast::<Key>().map_err(|_| {
        let found = type_name(given);
        error::wrong_type(given.py(), format!("a key is a Key or a Ring, not {found}: read a file with Key.load(path)"))
    })
}

fn distinct(keys: Vec<Arc<Inner>>) -> PyResult<Vec<Arc<Inner>>> {
    let kept = verdigris_detector::watermark::ring::distinct(keys);
    if kept.is_empty() {
        return Err(error::key("there is no key to judge by: give at least one"));
    }
    Ok(kept)
}
