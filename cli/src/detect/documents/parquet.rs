//! Texts in a column of a Parquet file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use indicatif::ProgressBar;

use super::column::{Cell, Column};
use super::document::{Document, Fault, Fields, Text};
use crate::text;

/// The texts of one column, named by row number, with the values of the id column.
pub(super) fn rows(
    name: &str,
    path: &Path,
    input: impl Read,
    fields: &Fields,
    bar: ProgressBar,
) -> Result<Box<dyn Iterator<Item = Document>>, String> {
    let file = seekable(path, input).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let column = Column::open(file, &fields.text, &fields.id)?;
    let share = size.checked_div(column.length).unwrap_or(0);
    let name = name.to_owned();
    Ok(Box::new(column.zip(1u64..).map(move |(cell, number)| {
        bar.inc(share);
        let name = format!("{name}:{number}");
        match cell {
            Ok(Cell { id, text }) => Document { name, id, text: text.map_err(Fault::Text).and_then(Text::of_record) },
            Err(fault) => Document::faulty(name, fault),
        }
    })))
}

/// Makes the input seekable, since Parquet is read from its end: a pipe is first copied to a temporary file.
fn seekable(path: &Path, mut input: impl Read) -> io::Result<File> {
    if !text::is_stdin(path) && path.metadata()?.is_file() {
        return File::open(path);
    }
    let mut file = tempfile::tempfile()?;
    io::copy(&mut input, &mut file)?;
    file.rewind()?;
    Ok(file)
}
