//! The number that a mark carries.

use pyo3::prelude::*;

use crate::argument::Text;
use crate::detection::repairs;
use crate::error;
use crate::key::Key;
use crate::look;
use crate::pool;
use crate::tokenizer::tokenizer;

/// The number that a text's mark carries, and how sure that is.
#[pyclass(frozen, get_all, module = "verdigris")]
pub(crate) struct Payload {
    /// The number; `None` where no mark was found.
    payload: Option<u32>,
    /// The number that would fit best, be there a mark or not.
    best: u32,
    /// Whether there is a mark.
    marked: bool,
    /// `marked`, `not marked` or `too short`.
    verdict: &'static str,
    /// Tokens that were counted.
    scored: u64,
    /// How many of them are green under the best number.
    green: u64,
    /// The logarithm to base 10 of the p-value that there is a number at all.
    log10_p: f64,
    /// The chance that another number was written, given that there is one.
    doubt: f64,
    /// What was repaired, and how often, if the repaired text is the one that was read.
    repairs: Vec<(&'static str, usize)>,
}

#[pymethods]
impl Payload {
    fn __repr__(&self) -> String {
        format!(
            "Payload({:?}, {:?}, log10_p={:.1}, doubt={:.1e})",
            self.payload, self.verdict, self.log10_p, self.doubt
        )
    }
}

/// Reads the number that a text's mark carries. The key must be one that carries numbers.
#[pyfunction]
#[pyo3(signature = (text, key, tokenizer=None, *, level=None))]
pub(crate) fn payload(
    py: Python<'_>,
    text: Text,
    key: &Bound<'_, Key>,
    tokenizer: Option<&Bound<'_, PyAny>>,
    level: Option<f64>,
) -> PyResult<Payload> {
    let level = look::level(level)?;
    let (key, reader) = (&key.get().0, self::tokenizer(py, tokenizer)?.get().reader());
    pool::work(py, || {
        let found = reader.payload(key, &text).map_err(error::detect)?;
        let (read, ln_p) = (found.read, found.evidence.ln_p_corrected());
        let marked = ln_p <= level.ln();
        let short = !marked && found.evidence.verdict(level).is_err();
        Ok(Payload {
            payload: marked.then_some(read.payload),
            best: read.payload,
            marked,
            verdict: if marked {
                "marked"
            } else if short {
                "too short"
            } else {
                "not marked"
            },
            scored: read.scored,
            green: read.green,
            log10_p: ln_p / std::f64::consts::LN_10,
            repairs: repairs(&found.repairs),
            doubt: read.doubt,
        })
    })?
}
