//! Exceptions, with the words of Rust's errors.

use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use verdigris_detector::DetectError;

create_exception!(verdigris, Error, PyValueError, "Anything that Verdigris cannot do; one line that says why.");
create_exception!(verdigris, BadKey, Error, "A key, or a ring of keys, that cannot be used.");
create_exception!(verdigris, BadTokenizer, Error, "A tokenizer that cannot be read.");
create_exception!(verdigris, BadText, Error, "A text that cannot be judged.");
create_exception!(verdigris, BadModel, Error, "A model that cannot be loaded, or that failed.");
create_exception!(verdigris, BadConstraint, Error, "A constraint that is not understood, or that a text cannot obey.");

/// An [`Error`] that is a `TypeError` too, so that code which expects Python's own finds it.
static WRONG_TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn wrong_type_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let class = WRONG_TYPE.get_or_try_init(py, || {
        let fields = PyDict::new(py);
        fields.set_item("__module__", "verdigris")?;
        fields.set_item("__doc__", "An argument of a type that does not fit.")?;
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

/// Of an argument of a type that does not fit.
pub(crate) fn wrong_type(py: Python<'_>, message: impl Into<String>) -> PyErr {
    let class = wrong_type_class(py);
    class.map_or_else(|fault| fault, |class| PyErr::from_type(class.clone(), message.into()))
}

/// Of a key.
pub(crate) fn key(error: impl Display) -> PyErr {
    BadKey::new_err(error.to_string())
}

/// Of a constraint.
pub(crate) fn constraint(error: impl Display) -> PyErr {
    BadConstraint::new_err(error.to_string())
}

/// Of an argument that is out of range.
pub(crate) fn argument(message: impl Into<String>) -> PyErr {
    Error::new_err(message.into())
}

/// Of a judgement.
pub(crate) fn detect(error: DetectError) -> PyErr {
    match error {
        DetectError::Key(_) | DetectError::NoKey | DetectError::ForeignKey { .. } => key(error),
        error => BadText::new_err(error.to_string()),
    }
}

/// Of a model that writes, and of what is asked of it.
pub(crate) fn engine(error: verdigris::Error) -> PyErr {
    let words = error.to_string();
    match error {
        verdigris::Error::Model(_) => BadModel::new_err(words),
        verdigris::Error::Key(_) | verdigris::Error::NoChance { .. } => BadKey::new_err(words),
        verdigris::Error::Detect(fault) => detect(fault),
        verdigris::Error::Regex(_)
        | verdigris::Error::Choice(_)
        | verdigris::Error::Schema(_)
        | verdigris::Error::OverBudget(_)
        | verdigris::Error::NoRoom(_)
        | verdigris::Error::CutShort { .. } => BadConstraint::new_err(words),
        _ => Error::new_err(words),
    }
}
