//! Columns of texts, from lists and Arrow.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;

use crate::argument::{TextArgument, type_name};
use crate::error;

/// Texts, some of which may be missing. Strings are not copied.
pub(crate) enum TextColumn {
    /// A Python list.
    List(Vec<Option<TextArgument>>),
    /// An Arrow column, in chunks of any length. Their bytes are read, since nothing has checked that they are UTF-8.
    Arrow(Vec<ArrayRef>),
}

/// A text, or the reason why its bytes are none.
pub(crate) type View<'a> = Result<&'a str, String>;

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
        let bytes = chunks.iter().map(|chunk| {
            bytes(chunk).ok_or_else(|| {
                let wrong = format!("a column of {} has no texts: give one of strings", chunk.data_type());
                error::wrong_type(given.py(), wrong)
            })
        });
        Ok(Self::Arrow(bytes.collect::<PyResult<_>>()?))
    }

    /// All texts, in order.
    pub(crate) fn views(&self) -> Vec<Option<View<'_>>> {
        match self {
            Self::List(texts) => texts.iter().map(|text| text.as_deref().map(Ok)).collect(),
            Self::Arrow(chunks) => chunks.iter().flat_map(texts).collect(),
        }
    }
}

/// A chunk whose bytes [`texts`] can read; `None` if it does not contain strings.
fn bytes(chunk: &ArrayRef) -> Option<ArrayRef> {
    match chunk.as_string_view_opt() {
        Some(views) => Some(Arc::new(views.clone().to_binary_view())),
        None => {
            (chunk.as_string_opt::<i32>().is_some() || chunk.as_string_opt::<i64>().is_some()).then(|| chunk.clone())
        }
    }
}

/// The texts of a chunk.
fn texts(chunk: &ArrayRef) -> Vec<Option<View<'_>>> {
    let small = || chunk.as_string_opt::<i32>().map(of_strings);
    let large = || chunk.as_string_opt::<i64>().map(of_strings);
    let views = || chunk.as_binary_view_opt().map(|all| all.iter().map(|bytes| bytes.map(text)).collect());
    small().or_else(large).or_else(views).unwrap_or_default()
}

/// The texts of strings, whose values are not looked at as such.
fn of_strings<O: OffsetSizeTrait>(all: &GenericStringArray<O>) -> Vec<Option<View<'_>>> {
    let (offsets, data) = (all.value_offsets(), all.value_data());
    let of = |index: usize| {
        let bytes = data.get(offsets[index].as_usize()..offsets[index + 1].as_usize());
        bytes.ok_or_else(|| "it lies outside of the column".into()).and_then(text)
    };
    (0..all.len()).map(|index| all.is_valid(index).then(|| of(index))).collect()
}

fn text(bytes: &[u8]) -> View<'_> {
    std::str::from_utf8(bytes).map_err(|fault| format!("byte {} is not valid UTF-8", fault.valid_up_to()))
}
