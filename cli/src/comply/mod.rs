//! `verdigris comply`: compares the configuration of a server with what the EU's Code of Practice asks of text.

mod checks;
mod page;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, FromArgMatches};
use serde::Serialize;

use crate::comply::checks::Check;
use crate::error::Failure;
use crate::report::print_json;
use crate::serve::{Serve, settings};

/// Compare a server's options with the EU's Code of Practice on marking generated text
#[derive(Args)]
#[command(after_help = "\
Reads the options that verdigris serve --config FILE would have, and its keys, and starts nothing. A check is met, \
missing, advised, or yours: something that no program can do for you. docs/compliance.md has all measures with their \
sources. It does not replace legal advice.

Exit status: 0, 1 if a check is missing, or 2 if the options or keys cannot be read.

Examples:
  verdigris comply --config serve.toml
  verdigris comply --config serve.toml --markdown > report.md
  verdigris comply --config serve.toml --json")]
pub(crate) struct Comply {
    /// The options of the server, as verdigris serve --print-config prints them
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Print a report in Markdown, to keep or to send
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All checks.
#[derive(Serialize)]
struct Report {
    format: &'static str,
    program: &'static str,
    time: String,
    #[serde(serialize_with = "crate::report::lossy")]
    config: PathBuf,
    /// Whether a check is missing.
    missing: bool,
    checks: Vec<Check>,
}

impl Comply {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let now = jiff::Timestamp::now();
        let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
        let checks = checks::all(&self.serve()?, today)?;
        let report = Report {
            format: "verdigris-comply-1",
            program: concat!("Verdigris ", env!("CARGO_PKG_VERSION")),
            time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            config: self.config,
            missing: checks.iter().any(Check::is_missing),
            checks,
        };
        match (self.json, self.markdown) {
            (true, _) => _ = print_json(&report)?,
            (_, true) => page::markdown(&mut anstream::stdout(), &report)?,
            _ => page::print(&mut anstream::stdout(), &report)?,
        }
        Ok(ExitCode::from(u8::from(report.missing)))
    }

    /// The options of the server.
    fn serve(&self) -> Result<Serve, Failure> {
        let commands = crate::commands();
        let arguments: Vec<OsString> =
            vec!["verdigris".into(), "serve".into(), "--config".into(), self.config.clone().into()];
        let all = settings::complete(arguments, &commands)?;
        let line = |error: clap::Error| {
            let line = error.to_string().lines().next().unwrap_or_default().to_owned();
            Failure::Usage(format!("{}: {}", self.config.display(), line.trim_start_matches("error: ")))
        };
        let matches = commands.try_get_matches_from(all).map_err(line)?;
        let (_, matches) = matches.subcommand().expect("the arguments name one");
        Serve::from_arg_matches(matches).map_err(line)
    }
}
