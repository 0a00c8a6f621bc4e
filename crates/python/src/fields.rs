//! Serializable values as Python objects, with each field as an attribute.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use serde::Serialize;
use serde_json::{Map, Value};

/// The fields of a value by their names, in order.
pub(crate) type Fields = Map<String, Value>;

/// The fields of a value.
pub(crate) fn of(value: &impl Serialize) -> Fields {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Fields::new(),
    }
}

/// The value of an attribute whose field is omitted in JSON, or null.
#[derive(Clone, Copy)]
pub(crate) enum Absent {
    None,
    Zero,
    Empty,
    NotANumber,
    False,
}

/// An attribute of an object with these fields, of which those in `absent` may be missing.
pub(crate) fn attribute<'py>(
    py: Python<'py>,
    class: &str,
    fields: &Fields,
    absent: &[(&str, Absent)],
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    match (fields.get(name), absent.iter().find(|(other, _)| *other == name)) {
        (None | Some(Value::Null), Some((_, absent))) => Ok(match absent {
            Absent::None => py.None().into_bound(py),
            Absent::Zero => 0u64.into_pyobject(py)?.into_any(),
            Absent::Empty => PyList::empty(py).into_any(),
            Absent::NotANumber => f64::NAN.into_pyobject(py)?.into_any(),
            Absent::False => false.into_pyobject(py)?.to_owned().into_any(),
        }),
        (Some(value), _) => python(py, value),
        (None, None) => Err(PyAttributeError::new_err(format!("'{class}' object has no attribute '{name}'"))),
    }
}

/// The names of all attributes, for `dir`.
pub(crate) fn names(fields: &Fields, absent: &[(&str, Absent)], others: &[&str]) -> Vec<String> {
    let absent = absent.iter().map(|(name, _)| *name);
    let mut names: Vec<String> = fields.keys().map(String::as_str).chain(absent).map(str::to_owned).collect();
    names.extend(others.iter().map(|&name| name.to_owned()));
    names.sort();
    names.dedup();
    names
}

/// The fields as a dictionary.
pub(crate) fn dict<'py>(py: Python<'py>, fields: &Fields) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in fields {
        dict.set_item(name, python(py, value)?)?;
    }
    Ok(dict)
}

/// Converts a value to Python. Arrays in arrays become tuples, such as a repair and its count.
pub(crate) fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(is) => is.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (None, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            (None, None) => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let inner = |value: &Value| match value {
                Value::Array(values) => {
                    let values = values.iter().map(|value| python(py, value)).collect::<PyResult<Vec<_>>>()?;
                    Ok(PyTuple::new(py, values)?.into_any())
                }
                value => python(py, value),
            };
            PyList::new(py, values.iter().map(inner).collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Value::Object(fields) => dict(py, fields)?.into_any(),
    })
}
