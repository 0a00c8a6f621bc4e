//! Which key wrote a text, if any did.

use pyo3::prelude::*;

use crate::argument::Text;
use crate::error;
use crate::keys::Keys;
use crate::look;
use crate::pool;
use crate::tokenizer::tokenizer;

/// A key that a text may have been written with; its p-value pays for all that were tried.
#[pyclass(frozen, get_all, module = "verdigris")]
pub(crate) struct Candidate {
    /// All that it is, as a phrase.
    candidate: String,
    /// The key's id.
    key_id: String,
    /// Its dialect.
    dialect: &'static str,
    /// The vocabulary size that was tried.
    vocabulary_size: usize,
    /// The green share that was tried; `None` where the dialect has none.
    gamma: Option<f64>,
    /// Tokens that were counted.
    scored: u64,
    /// By how many standard deviations their score is above the expected one.
    z: f64,
    /// How often the best of all candidates would look as good in an unmarked text, at most.
    p: f64,
    /// The logarithm of `p` to base 10.
    log10_p: f64,
    /// Whether `p` is at or under the level.
    marked: bool,
}

#[pymethods]
impl Candidate {
    fn __repr__(&self) -> String {
        format!("Candidate({:?}, p={:.3e}, z={:.2})", self.candidate, self.p, self.z)
    }
}

/// Tries keys with their own vocabulary sizes and green shares, and others; the best candidates come first. Other
/// systems do not say which vocabulary size they split: the tokenizer's, the model's, or the width of the logits.
#[pyfunction]
#[pyo3(signature = (text, keys, tokenizer=None, *, vocabulary_sizes=Vec::new(), gammas=Vec::new(), repeats="context",
                    level=None))]
#[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
pub(crate) fn identify(
    py: Python<'_>,
    text: Text,
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
    let found = pool::work(py, || reader.identify(&candidates, &text, repeats))?.map_err(error::detect)?;
    let candidate = |finding: &verdigris_detector::Finding| {
        let evidence = &finding.evidence;
        let (_, key) = &candidates[finding.candidate];
        Candidate {
            candidate: finding.label.clone(),
            key_id: key.id().into(),
            dialect: key.dialect().name(),
            vocabulary_size: key.vocabulary().size(),
            gamma: key.dialect().gamma(),
            scored: evidence.scored,
            z: evidence.z,
            p: evidence.p(),
            log10_p: evidence.ln_p_corrected() / std::f64::consts::LN_10,
            marked: evidence.ln_p_corrected() <= level.ln(),
        }
    };
    Ok(found.iter().map(candidate).collect())
}
