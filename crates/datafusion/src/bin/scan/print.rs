//! Rows on standard output.

use std::io::{BufWriter, StdoutLock, Write, stdout};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Float64Type, UInt64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::error::DataFusionError;
use verdigris_detector::Column;

use crate::error::Failure;

/// Prints documents as they are judged.
pub(crate) struct Printer {
    json: bool,
    file: String,
    /// The index of the first column of the verdict.
    verdict: usize,
    /// The file that is being printed, and the number of its rows so far.
    at: (String, u64),
    headed: bool,
}

impl Printer {
    pub(crate) fn new(json: bool, file: &str, verdict: usize) -> Self {
        Self { json, file: file.to_owned(), verdict, at: (String::new(), 0), headed: json }
    }

    pub(crate) fn rows(&mut self, batches: &[RecordBatch]) -> Result<(), Failure> {
        let mut out = BufWriter::new(stdout().lock());
        if self.json {
            json(&mut out, batches)?;
        } else {
            self.table(&mut out, batches)?;
        }
        Ok(out.flush()?)
    }

    /// Prints a line per document: its figures, file and row.
    fn table(&mut self, out: &mut BufWriter<StdoutLock<'_>>, batches: &[RecordBatch]) -> Result<(), Failure> {
        if !std::mem::replace(&mut self.headed, true) {
            writeln!(out, "{:>8}{:>8}{:>9}{:>11}  {:<14} document", "tokens", "scored", "z", "p", "verdict")?;
        }
        for batch in batches {
            let of = |name| batch.column(self.verdict + Column::index(name));
            let (verdict, error) = (of("verdict").as_string::<i32>(), of("error").as_string::<i32>());
            let (p, z) = (of("p").as_primitive::<Float64Type>(), of("z").as_primitive::<Float64Type>());
            let (tokens, scored) =
                (of("tokens").as_primitive::<UInt64Type>(), of("scored").as_primitive::<UInt64Type>());
            let files = batch.column_by_name(&self.file).map(|files| files.as_string::<i32>());
            for row in 0..batch.num_rows() {
                let file = files.map_or("", |files| files.value(row));
                if self.at.0 != file {
                    self.at = (file.to_owned(), 0);
                }
                self.at.1 += 1;
                if p.is_valid(row) {
                    let (tokens, scored, z, p) = (tokens.value(row), scored.value(row), z.value(row), p.value(row));
                    write!(out, "{tokens:>8}{scored:>8}{z:>9.2}{p:>11.1e}")?;
                } else {
                    write!(out, "{:>36}", "")?;
                }
                let verdict = if verdict.is_valid(row) { verdict.value(row) } else { "no text" };
                write!(out, "  {verdict:<14} {}:{}", shown(file), self.at.1)?;
                if p.is_null(row) && error.is_valid(row) {
                    write!(out, ": {}", shown(error.value(row)))?;
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }
}

/// Prints an object per row.
pub(crate) fn json(out: &mut impl Write, batches: &[RecordBatch]) -> Result<(), Failure> {
    let mut writer = LineDelimitedWriter::new(out);
    batches.iter().try_for_each(|batch| writer.write(batch)).and_then(|()| writer.finish()).map_err(failed)
}

/// The error of an output that cannot be written, or of a value that cannot be printed.
fn failed(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, error) => Failure::Output(error),
        error => Failure::Query(DataFusionError::from(error)),
    }
}

/// Replaces control characters, so that the text stays on one line and cannot disturb a terminal.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
