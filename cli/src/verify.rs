//! `verdigris verify`: runs a separate program that judges the manifest of a text and the mark in its words.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::error::Failure;
use crate::program::Program;

/// The program that signs and judges manifests.
pub(crate) const PROGRAM: Program =
    Program { name: "verdigris-c2pa", of: "signing or judging manifests", package: "verdigris-c2pa" };

/// Judge the C2PA manifest of a text and the mark in its words, separately
#[derive(Args)]
#[command(after_help = "\
This runs a separate program, verdigris-c2pa, next to this one or on the PATH; `verdigris-c2pa verify --help` shows \
its options. `cargo build --release -p verdigris-c2pa` builds it.

Example:
  verdigris verify tale.txt --key my.key")]
pub(crate) struct Verify {
    /// The arguments of verdigris-c2pa.
    #[arg(value_name = "FILE|OPTION", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Verify {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut command = PROGRAM.command();
        command.arg("verify").args(self.arguments);
        PROGRAM.take_over(command)
    }
}
