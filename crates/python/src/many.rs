//! Detection in many texts, with results as Arrow.

use std::sync::Arc;

use arrow_array::{Array, StructArray};
use arrow_schema::Field;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use pyo3_arrow::ffi::{to_array_pycapsules, to_schema_pycapsule};
use rayon::prelude::*;
use verdigris_detector::VerdictRow;
use verdigris_detector::arrow::{verdict_columns, verdict_fields};

use crate::constraint::Constraint;
use crate::detection::{Detection, Judge};
use crate::error::BadText;
use crate::look::look;
use crate::pool;
use crate::text_column::{TextColumn, View};

/// The number of texts judged between checks for signals, such as Ctrl-C.
const BATCH: usize = 4096;

/// The results for many texts, in their order: a sequence, and a table for Arrow readers (`pyarrow.table(found)`,
/// `polars.from_arrow(found)`).
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Detections(Vec<DetectionResult>);

/// The result for one text: `None` if it is missing, and the error if it cannot be judged.
type DetectionResult = Option<Result<Box<Detection>, String>>;

impl Detections {
    fn table(&self) -> StructArray {
        let row = |found: &DetectionResult| match found {
            None => VerdictRow::Missing,
            Some(Ok(detection)) => VerdictRow::Judged(Box::new(detection.verdict.clone())),
            Some(Err(fault)) => VerdictRow::Fault(fault.clone()),
        };
        let rows: Vec<VerdictRow<'_>> = self.0.iter().map(row).collect();
        let (fields, columns) = (verdict_fields(), verdict_columns(&rows));
        StructArray::new(fields, columns, None)
    }
}

#[pymethods]
impl Detections {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// The result for a text: a `Detection`, or `None` for a missing text. Raises `BadText` if it could not be judged.
    fn __getitem__(&self, index: isize) -> PyResult<Option<Detection>> {
        let place = if index < 0 { index + self.0.len() as isize } else { index };
        let found = usize::try_from(place).ok().and_then(|place| self.0.get(place));
        match found.ok_or_else(|| PyIndexError::new_err(format!("there are {} texts", self.0.len())))? {
            None => Ok(None),
            Some(Ok(detection)) => Ok(Some((**detection).clone())),
            Some(Err(fault)) => Err(BadText::new_err(fault.clone())),
        }
    }

    /// The errors of texts that could not be judged, by their indices.
    #[getter]
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let faults = PyDict::new(py);
        for (place, found) in self.0.iter().enumerate() {
            if let Some(Err(fault)) = found {
                faults.set_item(place, fault)?;
            }
        }
        Ok(faults)
    }

    /// The schema of the table, for Arrow readers.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, Self(Vec::new()).table().data_type().clone())?)
    }

    /// The table, for Arrow readers.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let table = py.detach(|| self.table());
        let field = Arc::new(Field::new("", table.data_type().clone(), false));
        Ok(to_array_pycapsules(py, field, &table, requested_schema)?)
    }

    fn __repr__(&self) -> String {
        let marked = self.0.iter().filter(|found| matches!(found, Some(Ok(one)) if one.verdict.marked)).count();
        format!("Detections({} texts, {marked} marked)", self.0.len())
    }
}

/// Judges many texts like `detect`, on all cores. Texts are a list of strings, or anything that exports strings as
/// Arrow (a column of pyarrow, polars or DuckDB). A text may be missing, and one that cannot be judged does not stop
/// the others.
#[pyfunction]
#[pyo3(signature = (texts, key, tokenizer=None, *, level=None, repeats="context", windows=false, repair=true, offsets=1,
                    constraint=None))]
#[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
pub(crate) fn detect_many(
    py: Python<'_>,
    texts: &Bound<'_, PyAny>,
    key: &Bound<'_, PyAny>,
    tokenizer: Option<&Bound<'_, PyAny>>,
    level: Option<f64>,
    repeats: &str,
    windows: bool,
    repair: bool,
    offsets: usize,
    constraint: Option<&Bound<'_, Constraint>>,
) -> PyResult<Detections> {
    let look = look(level, repeats, windows, repair, offsets)?;
    let judge = Judge::new(py, key, tokenizer, constraint, look)?;
    let texts = TextColumn::of(texts)?;
    let views = texts.views();
    let one = |text: &Option<View<'_>>| -> DetectionResult {
        let judge = |text| {
            let judged = judge.judge(text).map(Box::new);
            judged.map_err(|fault| Python::attach(|py| fault.value(py).to_string()))
        };
        Some(text.as_ref()?.as_ref().map_err(String::clone).and_then(|text| judge(text)))
    };
    let mut found = Vec::with_capacity(views.len());
    for batch in views.chunks(BATCH) {
        pool::work(py, || found.par_extend(batch.par_iter().map(one)))?;
        py.check_signals()?;
    }
    Ok(Detections(found))
}
