//! Columns of texts, from lists and Arrow.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;

use crate::argument::{TextArgument, type_name};
use crate::error;

/// Texts, some of which may be missing. Strings are not copied.
pub(crate) enum TextColumn {
    /// A Python list.
    List(Vec<Option<TextArgument>>),
    /// An Arrow column, in chunks of any length.
    Arrow(Vec<ArrayRef>),
}

impl TextColumn {
    /// Reads a list of strings, or anything that exports strings as Arrow.
    pub(crate) fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let gives = |method| given.hasattr(method);
        if !gives("__arrow_c_array__")? && !gives("__arrow_c_stream__")? {
            if given.is_instance_of::<pyo3::types::PyString>() {
                return Err(error::wrong_type(given.py(), "this is one text: give a list of texts, or call detect"));
            }
            let Ok(texts) = given.try_iter() else {
                let found = type_name(given);
                return Err(error::wrong_type(given.py(), format!("texts are a list of str or a column, not {found}")));
            };
            let texts = texts.map(|text| text?.extract::<Option<TextArgument>>());
            return Ok(Self::List(texts.collect::<PyResult<_>>()?));
        }
        let (chunks, _) = given.extract::<AnyArray>()?.into_chunked_array()?.into_inner();
        if let Some(other) = chunks.iter().find(|chunk| column(chunk).is_none()) {
            let found = other.data_type();
            let wrong = format!("a column of {found} has no texts: give one of strings");
            return Err(error::wrong_type(given.py(), wrong));
        }
        Ok(Self::Arrow(chunks))
    }

    /// All texts, in order.
    pub(crate) fn views(&self) -> Vec<Option<&str>> {
        match self {
            Self::List(texts) => texts.iter().map(|text| text.as_deref()).collect(),
            Self::Arrow(chunks) => chunks.iter().flat_map(|chunk| column(chunk).unwrap_or_default()).collect(),
        }
    }
}

/// The texts of a chunk; `None` if it does not contain strings.
fn column(chunk: &ArrayRef) -> Option<Vec<Option<&str>>> {
    let small = || chunk.as_string_opt::<i32>().map(|texts| texts.iter().collect());
    let large = || chunk.as_string_opt::<i64>().map(|texts| texts.iter().collect());
    let views = || chunk.as_string_view_opt().map(|texts| texts.iter().collect());
    small().or_else(large).or_else(views)
}
