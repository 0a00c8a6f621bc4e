//! Identification of the key that wrote a text.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use verdigris_detector::Candidate as Inner;

use crate::argument::TextArgument;
use crate::error;
use crate::fields::{self, Absent};
use crate::keys::Keys;
use crate::look;
use crate::pool;
use crate::tokenizer::tokenizer;

/// A key that a text may have been written with, with a p-value that is corrected for all candidates. Attributes are
/// the fields of `verdigris identify --json`.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Candidate(Inner);

const ABSENT: [(&str, Absent); 6] = [
    ("tenant", Absent::None),
    ("gamma", Absent::None),
    ("repairs", Absent::Empty),
    ("z", Absent::NotANumber),
    ("forged", Absent::False),
    ("public", Absent::False),
];

#[pymethods]
impl Candidate {
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        fields::attribute(py, "Candidate", &fields::of(&self.0), &ABSENT, name)
    }

    fn __dir__(&self) -> Vec<String> {
        fields::names(&fields::of(&self.0), &ABSENT, &["to_dict"])
    }

    /// The fields as in `verdigris identify --json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        fields::dict(py, &fields::of(&self.0))
    }

    fn __repr__(&self) -> String {
        format!("Candidate({:?}, p={:.3e}, z={:.2})", self.0.candidate, self.0.p, self.0.z)
    }
}

/// Tries keys with their own vocabulary sizes and green shares and with the given ones. Returns candidates, the best
/// first. Other systems do not document which vocabulary size they use: the tokenizer's, the model's, or the width of
/// the logits. Our own keys do not depend on it, so no other size is tried for them.
#[pyfunction]
#[pyo3(signature = (text, keys, tokenizer=None, *, vocabulary_sizes=Vec::new(), gammas=Vec::new(), repeats="context",
                    level=None))]
#[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
pub(crate) fn identify(
    py: Python<'_>,
    text: TextArgument,
    keys: &Bound<'_, PyAny>,
    tokenizer: Option<&Bound<'_, PyAny>>,
    vocabulary_sizes: Vec<usize>,
    gammas: Vec<f64>,
    repeats: &str,
    level: Option<f64>,
) -> PyResult<Vec<Candidate>> {
    let (level, repeats) = (look::level(level)?, look::repeats(repeats)?);
    if let Some(share) = gammas.iter().find(|&&share| !(share > 0.0 && share < 1.0)) {
        return Err(error::argument(format!("gammas has {share}, but a green share is above 0 and below 1")));
    }
    let reader = self::tokenizer(py, tokenizer)?.get().reader();
    let mut candidates = Vec::new();
    for key in Keys::all(keys)? {
        candidates.extend(verdigris_detector::candidates(&key, &vocabulary_sizes, &gammas).map_err(error::key)?);
    }
    let found = pool::work(py, || reader.identify(&candidates, &text, repeats, level))?.map_err(error::detect)?;
    Ok(found.into_iter().map(Candidate).collect())
}
