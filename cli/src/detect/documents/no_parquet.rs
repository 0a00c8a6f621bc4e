//! Parquet files in a program that was built without the feature `parquet`.

use std::io::Read;
use std::path::Path;

use indicatif::ProgressBar;

use super::document::{Document, Fields};

/// Returns an error that names the missing feature.
pub(super) fn rows(
    _: &str,
    _: &Path,
    _: impl Read,
    _: &Fields,
    _: ProgressBar,
) -> Result<Box<dyn Iterator<Item = Document>>, String> {
    Err("it is a Parquet file, and this program was built without the feature `parquet`, which reads such files".into())
}
