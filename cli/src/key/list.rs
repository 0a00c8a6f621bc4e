//! `verdigris key list`: lists the keys of a ring.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use verdigris::{Key, KeyRing};

use super::days::days;
use crate::error::Failure;
use crate::report::print_json;
use crate::terminal::shown_line;

/// List the keys of a ring, but never their secrets
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris key list keys/
  verdigris key list keys/ --json")]
pub(crate) struct List {
    /// The folder of keys
    folder: PathBuf,
    /// Print one JSON object per file
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let ring = KeyRing::load(&self.folder)?;
        if self.json {
            for (file, key) in ring.files() {
                print_json(&serde_json::json!({
                    "file": file.display().to_string(), "id": key.id(), "tenant": key.tenant(),
                    "dialect": key.dialect(), "scheme": key.describe(), "vocabulary": key.vocabulary(),
                    "period": key.period(), "public": key.is_public(),
                }))?;
            }
            for skipped in ring.skipped() {
                let file = skipped.file.display().to_string();
                print_json(&serde_json::json!({"file": file, "skipped": skipped.why}))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = anstream::stdout();
        let header = ["file", "id", "tenant", "writes", "model", "scheme"].map(str::to_owned);
        let rows: Vec<[String; 6]> = ring.files().map(|(file, key)| row(file, key)).collect();
        let mut widths = [0; 6];
        for row in rows.iter().chain([&header]) {
            widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
        }
        let dim = anstyle::Style::new().dimmed();
        let line = |cells: &[String; 6]| {
            let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        writeln!(out, "{dim}{}{dim:#}", line(&header))?;
        for row in &rows {
            writeln!(out, "{}", line(row))?;
        }
        for skipped in ring.skipped() {
            writeln!(out, "{dim}{}{dim:#}", shown_line(&skipped.to_string()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn row(file: &Path, key: &Key) -> [String; 6] {
    let vocabulary = key.vocabulary();
    let named = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let model = vocabulary.model().map_or_else(|| format!("{} tokens", vocabulary.size()), str::to_owned);
    let writes = match key.is_published() {
        true => "never: it is published".into(),
        false if key.period().is_open() => "always".into(),
        false => days(key.period()),
    };
    let file = file.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    // Names given by strangers must not reach the terminal as control sequences.
    [file, named(key.id()), named(key.tenant()), writes, model, key.describe()]
        .map(|cell| shown_line(&cell).into_owned())
}
