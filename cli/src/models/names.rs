//! The names of models, for the completion of shells.

use std::io::Write;
use std::process::ExitCode;

use crate::error::Failure;
use crate::models::known::all;

/// The command that prints the names, one a line.
pub(crate) const NAMES: &str = "verdigris models names";

/// Prints the names.
pub(super) fn print() -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout();
    for model in all() {
        writeln!(out, "{}", model.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
