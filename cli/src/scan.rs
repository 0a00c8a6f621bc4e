//! Whole lakes of texts, which a program of its own looks at: its libraries are many, and few need it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::error::Failure;

/// The program, beside this one or wherever the shell finds it.
const PROGRAM: &str = "verdigris-scan";

/// Judge each document of a lake, or ask about it in SQL: Parquet, JSON lines, CSV
#[derive(Args)]
#[command(after_help = "\
All of it goes to a program of its own, verdigris-scan, beside this one or on the PATH; `verdigris-scan --help` shows \
its options. It is built in crates/datafusion.

Example:
  verdigris scan lake/ --key my.key --output judged.parquet")]
pub(crate) struct Scan {
    /// What verdigris-scan is told.
    #[arg(value_name = "INPUT|OPTION", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Scan {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let name = format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX);
        let beside = std::env::current_exe().ok().map(|program| program.with_file_name(name));
        let program = beside.filter(|program| program.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
        let mut command = Command::new(&program);
        command.args(self.arguments);
        let source = match in_its_place(command) {
            Ok(code) => return Ok(code),
            Err(source) => source,
        };
        Err(match source.kind() {
            io::ErrorKind::NotFound => Failure::Usage(format!(
                "scan is a program of its own, {PROGRAM}, which is neither beside this one nor on the PATH: build it \
                 with `cargo build --release` in crates/datafusion, and copy it to one of these"
            )),
            _ => Failure::Usage(format!("cannot start {}: {source}", program.display())),
        })
    }
}

/// Becomes that program, so that signals reach it.
#[cfg(unix)]
fn in_its_place(mut command: Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(&mut command))
}

#[cfg(not(unix))]
fn in_its_place(mut command: Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
