//! How a text is looked at: the options of `verdigris detect`.

use pyo3::prelude::*;
use verdigris_detector::watermark::DEFAULT_LEVEL;
use verdigris_detector::{Look, Repeats};

use crate::error;

/// How a text is looked at, and when it is called marked.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) look: Look,
    pub(crate) level: f64,
}

impl Options {
    pub(crate) fn new(
        level: Option<f64>,
        repeats: &str,
        windows: bool,
        repair: bool,
        offsets: usize,
        form: bool,
    ) -> PyResult<Self> {
        let level = self::level(level)?;
        if !(1..=64).contains(&offsets) {
            return Err(error::argument(format!("offsets is {offsets}, but must be 1 to 64")));
        }
        let passages = windows.then_some(level);
        let look =
            Look { repeats: self::repeats(repeats)?, normalize: repair, offsets, tokens: form, course: 0, passages };
        Ok(Self { look, level })
    }
}

/// The p-value at which a text is called marked.
pub(crate) fn level(given: Option<f64>) -> PyResult<f64> {
    match given.unwrap_or(DEFAULT_LEVEL) {
        level if level > 0.0 && level < 1.0 => Ok(level),
        level => Err(error::argument(format!("level is {level}, but must be above 0 and below 1"))),
    }
}

/// What counts as the same evidence again.
pub(crate) fn repeats(name: &str) -> PyResult<Repeats> {
    match name {
        "context" => Ok(Repeats::Context),
        "draw" => Ok(Repeats::Observation),
        "nothing" => Ok(Repeats::Nothing),
        other => Err(error::argument(format!("repeats is {other:?}, but must be context, draw or nothing"))),
    }
}
