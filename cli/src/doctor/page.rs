//! Prints the findings: a line for each, and below it the remedy if there is one.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::doctor::finding::{Finding, State};
use crate::doctor::speed::{Expected, MemorySpeed};
use crate::terminal::{self, shown_line, style, wrap};

/// The columns of a mark and of a name, including the spaces after them.
const MARK: usize = 7;
const NAME: usize = 12;

/// The width if that of the terminal is not known.
const WIDTH: usize = 80;

pub(super) fn print(out: &mut impl Write, findings: &[Finding], memory: Option<&MemorySpeed>) -> io::Result<()> {
    let width = terminal::width().unwrap_or(WIDTH);
    let indent = 2 + MARK + NAME;
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    for finding in findings {
        let (mark, of_mark) = match finding.state {
            State::Fine => ("ok", style(AnsiColor::Green)),
            State::Better => ("note", style(AnsiColor::Yellow).bold()),
            State::Fault => ("fault", style(AnsiColor::Red).bold()),
        };
        let said = shown_line(&finding.value);
        let value = wrap(&said, Some(width), indent);
        writeln!(out, "  {of_mark}{mark:MARK$}{of_mark:#}{dim}{:NAME$}{dim:#}{value}", finding.name)?;
        if let Some(cure) = &finding.cure {
            // Not wrapped, so that a command can be pasted.
            writeln!(out, "{:indent$}{bold}{}{bold:#}", "", shown_line(cure))?;
        }
    }
    if let Some(memory) = memory {
        writeln!(out, "\n  The most that memory lets models write, one text at a time:\n")?;
        for Expected { model, format, bytes, tokens_per_second } in &memory.expected() {
            let (size, speed) = (format!("{:.2} GB", bytes / 1e9), rounded(*tokens_per_second));
            writeln!(out, "  {model:>9} {format:8}{size:>9} {dim}a token{dim:#} {speed:>9} tokens/s")?;
        }
        if let Some(cache) = memory.cache_that_helps() {
            let note = format!("Weights in the cache of {} MB may be read faster than that.", cache / 1_000_000);
            writeln!(out, "\n  {dim}{note}{dim:#}")?;
        }
    }
    Ok(())
}

/// Rounds to two digits, since an estimate has no more.
fn rounded(number: f64) -> String {
    let digits = (1.0 - number.max(1e-9).log10().floor()).max(0.0) as usize;
    let unit = 10f64.powf(number.max(1e-9).log10().floor() - 1.0);
    format!("{:.digits$}", (number / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_two_digits() {
        let all = [123.4, 99.6, 12.34, 3.46, 0.123].map(rounded);
        assert_eq!(all, ["120", "100", "12", "3.5", "0.12"]);
    }
}
