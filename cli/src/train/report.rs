//! Prints the summary of a run, for people or for machines.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::error::Failure;

/// Prints a summary, as one JSON object or with `print`.
pub(super) fn report<S: Serialize>(
    json: bool,
    summary: &S,
    print: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<ExitCode, Failure> {
    let mut out = anstream::stdout();
    match json {
        true => writeln!(out, "{}", serde_json::to_string(summary).expect("a summary serialises"))?,
        false => print(&mut out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
