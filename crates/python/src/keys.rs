//! Key arguments: a key, a ring, or several of either.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use verdigris_detector::{Key as Inner, Reader};

use crate::argument::type_name;
use crate::error;
use crate::key::Key;
use crate::ring::Ring;

/// Keys for detection.
pub(crate) struct Keys {
    /// Distinct keys: p-values are corrected for the number of keys, so duplicates would weaken them.
    pub(crate) keys: Vec<Arc<Inner>>,
    /// The files of rings that are not keys for the tokenizer.
    pub(crate) skipped: Vec<String>,
}

impl Keys {
    /// The keys for a tokenizer. A key for another tokenizer is an error, or is skipped if it is in a ring.
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

    /// All keys, for any tokenizer.
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
        // Strings are iterable too, but are not sequences of keys.
        Ok(each) if !given.is_instance_of::<PyString>() && !given.is_instance_of::<PyBytes>() => each.collect(),
        _ => as_key(given).map(|_| Vec::new()),
    }
}

/// A single key.
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
