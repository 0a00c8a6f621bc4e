//! The payload of a mark.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use verdigris_detector::PayloadVerdict;

use crate::argument::TextArgument;
use crate::error;
use crate::fields::{self, Absent};
use crate::key::Key;
use crate::look;
use crate::pool;
use crate::tokenizer::tokenizer;

/// The payload of a text's mark, and how certain it is. Attributes are the fields of `verdigris payload --json`.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Payload(PayloadVerdict);

const ABSENT: [(&str, Absent); 4] =
    [("error", Absent::None), ("payload", Absent::None), ("repairs", Absent::Empty), ("log10_p", Absent::NotANumber)];

#[pymethods]
impl Payload {
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        fields::attribute(py, "Payload", &fields::of(&self.0), &ABSENT, name)
    }

    fn __dir__(&self) -> Vec<String> {
        fields::names(&fields::of(&self.0), &ABSENT, &["to_dict"])
    }

    /// The fields as in `verdigris payload --json`, except the format and the name of the text.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        fields::dict(py, &fields::of(&self.0))
    }

    fn __repr__(&self) -> String {
        let PayloadVerdict { payload, verdict, log10_p, doubt, .. } = &self.0;
        format!("Payload({payload:?}, {:?}, log10_p={log10_p:.1}, doubt={doubt:.1e})", verdict.name())
    }
}

/// Reads the payload of a text's mark. The key must carry payloads.
#[pyfunction]
#[pyo3(signature = (text, key, tokenizer=None, *, level=None))]
pub(crate) fn payload(
    py: Python<'_>,
    text: TextArgument,
    key: &Bound<'_, Key>,
    tokenizer: Option<&Bound<'_, PyAny>>,
    level: Option<f64>,
) -> PyResult<Payload> {
    let level = look::level(level)?;
    let (key, reader) = (&key.get().0, self::tokenizer(py, tokenizer)?.get().reader());
    pool::work(py, || Ok(Payload(reader.payload(key, &text).map_err(error::detect)?.verdict(key, level))))?
}
