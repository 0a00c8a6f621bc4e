//! Exceptions, with the messages of Rust's errors.

use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use verdigris_detector::DetectError;

create_exception!(verdigris, Error, PyValueError, "The base class of Verdigris' errors, with a message of one line.");
create_exception!(verdigris, BadKey, Error, "A key, or a ring of keys, that cannot be used.");
create_exception!(verdigris, BadTokenizer, Error, "A tokenizer that cannot be read.");
create_exception!(verdigris, BadText, Error, "A text that cannot be judged.");
create_exception!(verdigris, BadModel, Error, "A model that cannot be loaded, or that failed.");
create_exception!(verdigris, BadConstraint, Error, "A constraint that is invalid, or that no text can satisfy.");

/// An [`Error`] that is also a `TypeError`, for code that catches Python's own.
static WRONG_TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn wrong_type_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let class = WRONG_TYPE.get_or_try_init(py, || {
        let fields = PyDict::new(py);
        fields.set_item("__module__", "verdigris")?;
        fields.set_item("__doc__", "An argument of the wrong type.")?;
        let bases = (py.get_type::<Error>(), py.get_type::<PyTypeError>());
        let class = py.get_type::<PyType>().call1(("WrongType", bases, fields))?;
        PyResult::Ok(class.cast_into::<PyType>()?.unbind())
    })?;
    Ok(class.bind(py))
}

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("BadKey", py.get_type::<BadKey>())?;
    module.add("BadTokenizer", py.get_type::<BadTokenizer>())?;
    module.add("BadText", py.get_type::<BadText>())?;
    module.add("BadModel", py.get_type::<BadModel>())?;
    module.add("BadConstraint", py.get_type::<BadConstraint>())?;
    module.add("WrongType", wrong_type_class(py)?)
}

/// The error for an argument of the wrong type.
pub(crate) fn wrong_type(py: Python<'_>, message: impl Into<String>) -> PyErr {
    let class = wrong_type_class(py);
    class.map_or_else(|fault| fault, |class| PyErr::from_type(class.clone(), message.into()))
}

/// The error for a key.
pub(crate) fn key(error: impl Display) -> PyErr {
    BadKey::new_err(error.to_string())
}

/// The error for a constraint.
pub(crate) fn constraint(error: impl Display) -> PyErr {
    BadConstraint::new_err(error.to_string())
}

/// The error for an argument that is out of range.
pub(crate) fn argument(message: impl Into<String>) -> PyErr {
    Error::new_err(message.into())
}

/// The error for a detection.
pub(crate) fn detect(error: DetectError) -> PyErr {
    match error {
        DetectError::Key(_) | DetectError::NoKey | DetectError::ForeignKey { .. } => key(error),
        error => BadText::new_err(error.to_string()),
    }
}

/// The error for a model or a request.
pub(crate) fn engine(error: verdigris::Error) -> PyErr {
    let words = error.to_string();
    match error {
        verdigris::Error::Model(_) => BadModel::new_err(words),
        verdigris::Error::Key(_) => BadKey::new_err(words),
        verdigris::Error::Detect(fault) => detect(fault),
        verdigris::Error::Regex(_)
        | verdigris::Error::Grammar(_)
        | verdigris::Error::UnknownControl { .. }
        | verdigris::Error::ForeignConstraint
        | verdigris::Error::Choice(_)
        | verdigris::Error::Schema(_)
        | verdigris::Error::OverBudget(_)
        | verdigris::Error::NoRoom(_)
        | verdigris::Error::CutShort { .. } => BadConstraint::new_err(words),
        _ => Error::new_err(words),
    }
}
