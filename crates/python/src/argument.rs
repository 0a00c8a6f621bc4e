//! Arguments with their own error messages: texts, tokens and arrays of numbers.

use std::ops::Deref;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyString;
use verdigris_logits::TokenId;

use crate::error::{self, BadText};

/// A text: a string that can be encoded as UTF-8.
pub(crate) struct TextArgument(PyBackedStr);

impl Deref for TextArgument {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for TextArgument {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if !given.is_instance_of::<PyString>() {
            return Err(error::wrong_type(given.py(), format!("a text is a str, not {}", type_name(&given))));
        }
        given.extract().map(Self).map_err(|_| {
            BadText::new_err(
                "the text has half of a surrogate pair, which is not a character: decode it from its bytes",
            )
        })
    }
}

/// A token given by the caller, or `None` for an integer that cannot be a token id.
pub(crate) struct Token(pub(crate) Option<TokenId>);

impl<'a, 'py> FromPyObject<'a, 'py> for Token {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match given.extract::<i128>() {
            Ok(token) => Ok(Self(token.try_into().ok())),
            Err(_) => {
                Err(error::wrong_type(given.py(), format!("a token is a whole number, not {}", type_name(&given))))
            }
        }
    }
}

/// The caller's memory, as an array of numbers of one kind.
pub(crate) fn array<T: Element>(given: &Bound<'_, PyAny>, what: &str, kind: &str) -> PyResult<PyBuffer<T>> {
    let wrong = || format!("{what} are an array of {kind}, such as numpy's, not {}", described(given));
    let array: PyBuffer<T> = PyBuffer::get(given).map_err(|_| error::wrong_type(given.py(), wrong()))?;
    // PEP 3118: the first character of a format may be the order of bytes.
    let other = if cfg!(target_endian = "little") { &b">!"[..] } else { b"<" };
    match array.format().to_bytes().first().is_some_and(|order| other.contains(order)) {
        true => Err(error::wrong_type(given.py(), wrong())),
        false => Ok(array),
    }
}

/// The type of a value, with its `dtype` if it has one.
fn described(given: &Bound<'_, PyAny>) -> String {
    let kind = given.getattr_opt("dtype").ok().flatten().map_or_else(String::new, |kind| format!(" of {kind}"));
    type_name(given) + &kind
}

/// The name of a value's type.
pub(crate) fn type_name(given: &Bound<'_, PyAny>) -> String {
    given.get_type().qualname().map_or_else(|_| "a value of another type".into(), |name| name.to_string())
}

/// Writes numbers to the caller's memory.
pub(crate) fn write<T: Element + Copy>(py: Python<'_>, into: &PyBuffer<T>, numbers: &[T]) -> PyResult<()> {
    if into.readonly() {
        return Err(error::argument("the array is read-only: give a writable one"));
    }
    into.copy_from_slice(py, numbers)
}
