//! Prints the checks.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use crate::comply::Report;
use crate::comply::checks::State;
use crate::terminal::{self, shown_line, style, wrap};

/// The columns of a state and of a measure, including the spaces after them.
const STATE: usize = 9;
const MEASURE: usize = 7;

/// The width if that of the terminal is not known.
const WIDTH: usize = 80;

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missing => "missing",
            Self::Advised => "advised",
            Self::Yours => "yours",
        }
    }
}

/// A line for each check, and below it the remedy if there is one.
pub(super) fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let width = terminal::width().unwrap_or(WIDTH);
    let indent = 2 + STATE + MEASURE;
    let bold = Style::new().bold();
    for check in &report.checks {
        let of_state = match check.state {
            State::Met => style(AnsiColor::Green),
            State::Missing => style(AnsiColor::Red).bold(),
            State::Advised => style(AnsiColor::Yellow).bold(),
            State::Yours => bold,
        };
        let said = format!("{}: {}", check.subject, check.value);
        let said = shown_line(&said);
        let value = wrap(&said, Some(width), indent);
        writeln!(out, "  {of_state}{:STATE$}{of_state:#}{:MEASURE$}{value}", check.state.name(), check.measure)?;
        if let Some(cure) = &check.cure {
            writeln!(out, "{:indent$}{bold}{}{bold:#}", "", shown_line(cure))?;
        }
    }
    Ok(())
}

/// A table in Markdown.
pub(super) fn markdown(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let cell = |text: &str| shown_line(text).replace('|', "\\|");
    writeln!(out, "# Marking of generated text\n")?;
    writeln!(out, "{}, {}, options {}\n", report.program, report.time, cell(&report.config.display().to_string()))?;
    writeln!(out, "| measure | subject | state | finding | remedy |\n|---|---|---|---|---|")?;
    for check in &report.checks {
        let cure = check.cure.as_deref().map(|cure| format!("`{}`", cell(cure))).unwrap_or_default();
        let (state, value) = (check.state.name(), cell(&check.value));
        writeln!(out, "| {} | {} | {state} | {value} | {cure} |", check.measure, check.subject)?;
    }
    Ok(())
}
