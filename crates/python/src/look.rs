//! Options of detection: those of `verdigris detect`.

use pyo3::prelude::*;
use verdigris_detector::{Level, Look, Offsets, Repeats};

use crate::error;

/// The options of detection.
pub(crate) fn look(level: Option<f64>, repeats: &str, windows: bool, repair: bool, offsets: usize) -> PyResult<Look> {
    let offsets = Offsets::new(offsets).map_err(|bad| error::argument(format!("offsets {bad}")))?;
    let (level, repeats) = (self::level(level)?, self::repeats(repeats)?);
    Ok(Look { level, repeats, repair, offsets, passages: windows, ..Look::default() })
}

/// The p-value at which a text is called marked.
pub(crate) fn level(given: Option<f64>) -> PyResult<Level> {
    given.map_or(Ok(Level::DEFAULT), Level::new).map_err(|bad| error::argument(format!("level {bad}")))
}

/// The rule for repeated evidence.
pub(crate) fn repeats(name: &str) -> PyResult<Repeats> {
    match name {
        "context" => Ok(Repeats::Context),
        "draw" => Ok(Repeats::Observation),
        "nothing" => Ok(Repeats::Nothing),
        other => Err(error::argument(format!("repeats is {other:?}, but must be context, draw or nothing"))),
    }
}
