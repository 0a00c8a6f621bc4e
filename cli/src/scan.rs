//! `verdigris scan`: runs a separate program on data lakes, since it depends on many libraries and few users need it.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::error::Failure;
use crate::program::Program;

const PROGRAM: Program = Program { name: "verdigris-scan", of: "scan", package: "verdigris-datafusion" };

/// Judge each document of a lake, or ask about it in SQL: Parquet, JSON lines, CSV
#[derive(Args)]
#[command(after_help = "\
This runs a separate program, verdigris-scan, next to this one or on the PATH; `verdigris-scan --help` shows its \
options. `cargo build --release -p verdigris-datafusion` builds it.

Example:
  verdigris scan lake/ --key my.key --output judged.parquet")]
pub(crate) struct Scan {
    /// The arguments of verdigris-scan.
    #[arg(value_name = "INPUT|OPTION", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Scan {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut command = PROGRAM.command();
        command.args(self.arguments);
        PROGRAM.take_over(command)
    }
}
