//! The verdict on a text.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;
use verdigris_detector::{Key as Inner, Look, Reader, Verdict};

use crate::argument::TextArgument;
use crate::constraint::Constraint;
use crate::error;
use crate::fields::{self, Absent, Fields};
use crate::keys::Keys;
use crate::look::look;
use crate::pool;
use crate::tokenizer::tokenizer;

/// The verdict on a text under some keys. Attributes are the fields of `verdigris detect --json`, and `None` for fields
/// that are not set.
#[pyclass(frozen, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct Detection {
    pub(crate) verdict: Verdict<'static>,
    /// Whether the constraint of the text was given.
    has_constraint: bool,
    /// Files of rings that are not keys for the tokenizer.
    skipped_keys: Vec<String>,
}

/// A marked passage of a text.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Passage(Fields);

#[pymethods]
impl Passage {
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let absent = [("repairs", Absent::Empty), ("z", Absent::NotANumber)];
        fields::attribute(py, "Passage", &self.0, &absent, name)
    }

    fn __dir__(&self) -> Vec<String> {
        fields::names(&self.0, &[("repairs", Absent::Empty)], &["to_dict"])
    }

    /// The fields as in `verdigris detect --json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        fields::dict(py, &self.0)
    }

    fn __repr__(&self) -> String {
        let number = |name| self.0.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let (start, end) = (number("start"), number("end"));
        format!("Passage({start}..{end}, z={:.2}, log10_p={:.1})", number("z"), number("log10_p"))
    }
}

/// The attributes that the JSON may omit. Hints, and what only the model can expect, are the program's.
const ABSENT: [(&str, Absent); 15] = [
    ("error", Absent::None),
    ("needed", Absent::None),
    ("green", Absent::None),
    ("z", Absent::NotANumber),
    ("log10_p", Absent::NotANumber),
    ("repairs", Absent::Empty),
    ("skipped", Absent::Zero),
    ("manifests", Absent::Empty),
    ("passages", Absent::None),
    ("forced", Absent::None),
    ("counted", Absent::None),
    ("payload", Absent::None),
    ("doubt", Absent::None),
    ("variants", Absent::None),
    ("public", Absent::False),
];

impl Detection {
    fn fields(&self) -> Fields {
        let mut fields = fields::of(&self.verdict);
        if !self.skipped_keys.is_empty() {
            fields.insert("skipped_keys".into(), self.skipped_keys.clone().into());
        }
        fields
    }
}

#[pymethods]
impl Detection {
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let mut fields = self.fields();
        match (name, fields.get(name)) {
            ("passages", Some(Value::Array(passages))) => {
                let passage = |one: &Value| Passage(one.as_object().cloned().unwrap_or_default());
                return passages.iter().map(passage).collect::<Vec<_>>().into_pyobject(py);
            }
            ("green", _) if self.verdict.colours && !self.has_constraint => {
                fields.insert("green".into(), (self.verdict.score as u64).into());
            }
            ("skipped_keys", None) => return Ok(PyList::empty(py).into_any()),
            _ => {}
        }
        fields::attribute(py, "Detection", &fields, &ABSENT, name)
    }

    fn __dir__(&self) -> Vec<String> {
        fields::names(&self.fields(), &ABSENT, &["skipped_keys", "to_dict"])
    }

    /// The fields as in `verdigris detect --json`, except the format and the name of the text.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        fields::dict(py, &self.fields())
    }

    fn __repr__(&self) -> String {
        let Verdict { verdict, p, z, scored, ref key_id, .. } = self.verdict;
        format!("Detection({:?}, p={p:.3e}, z={z:.2}, scored={scored}, key_id={key_id:?})", verdict.name())
    }
}

/// The tokenizer, keys and options that texts are judged with.
pub(crate) struct Judge {
    reader: Reader,
    keys: Vec<Arc<Inner>>,
    skipped: Vec<String>,
    look: Look,
}

impl Judge {
    pub(crate) fn new(
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        given: Option<&Bound<'_, PyAny>>,
        constraint: Option<&Bound<'_, Constraint>>,
        look: Look,
    ) -> PyResult<Self> {
        let mut reader = tokenizer(py, given)?.get().reader();
        if let Some(constraint) = constraint {
            reader = constraint.get().of_reader(reader);
        }
        let Keys { keys, skipped } = Keys::fitting(key, &reader)?;
        Ok(Self { reader, keys, skipped, look })
    }

    /// Judges a text.
    pub(crate) fn judge(&self, text: &str) -> PyResult<Detection> {
        let keys: Vec<&Inner> = self.keys.iter().map(|key| &**key).collect();
        let judgement = self.reader.judge(&keys, text, &self.look).map_err(error::detect)?;
        Ok(Detection {
            verdict: judgement.verdict().into_owned(),
            has_constraint: judgement.has_constraint,
            skipped_keys: self.skipped.clone(),
        })
    }
}

/// Judges a text under a key, a `Ring`, or several of them; the p-value is corrected for the number of keys. The
/// tokenizer is that of the model that wrote the text: a `Tokenizer`, its path, one of `transformers`, or `None` for
/// that of `tale`. `constraint` is the constraint that the text was written under: only tokens that it left a choice
/// about are counted.
#[pyfunction]
#[pyo3(signature = (text, key, tokenizer=None, *, level=None, repeats="context", windows=false, repair=true, offsets=1,
                    constraint=None))]
#[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
pub(crate) fn detect(
    py: Python<'_>,
    text: TextArgument,
    key: &Bound<'_, PyAny>,
    tokenizer: Option<&Bound<'_, PyAny>>,
    level: Option<f64>,
    repeats: &str,
    windows: bool,
    repair: bool,
    offsets: usize,
    constraint: Option<&Bound<'_, Constraint>>,
) -> PyResult<Detection> {
    let look = look(level, repeats, windows, repair, offsets)?;
    let judge = Judge::new(py, key, tokenizer, constraint, look)?;
    pool::work(py, || judge.judge(&text))?
}
