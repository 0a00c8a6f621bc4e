//! `verdigris models` alone: lists models.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

use crate::error::Failure;
use crate::models::known::{ListedModel, all};
use crate::report::print_json;
use crate::terminal::shown_line;

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-models-1";

#[derive(Serialize)]
struct Output<'m> {
    format: &'static str,
    #[serde(flatten)]
    model: &'m ListedModel,
}

/// Prints all models.
pub(super) fn print(json: bool) -> Result<ExitCode, Failure> {
    let all = all();
    if json {
        for model in &all {
            print_json(&Output { format: FORMAT, model })?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let width = all.iter().map(|model| model.name.chars().count()).max().unwrap_or(0);
    let (dim, mut out) = (anstyle::Style::new().dimmed(), anstream::stdout());
    writeln!(out, "{dim}{:<width$}  {:>8}  {:<11}  path{dim:#}", "name", "size", "format")?;
    for ListedModel { name, bytes, format, path } in &all {
        let path = path.as_ref().map_or("-".into(), |path| path.display().to_string());
        writeln!(out, "{name:<width$}  {:>8}  {format:<11}  {}", size(*bytes), shown_line(&path))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A number of bytes in decimal units, with three digits.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut number, mut unit) = (bytes as f64 / 1e3, 0);
    while number >= 999.5 && unit + 1 < UNITS.len() {
        number /= 1e3;
        unit += 1;
    }
    let digits = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_999, "10.0 kB"),
            (99_960, "100 kB"),
            (999_600, "1.00 MB"),
            (269_060_552, "269 MB"),
            (16_384_000_000, "16.4 GB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
