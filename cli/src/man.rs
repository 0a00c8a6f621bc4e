//! `verdigris man`: prints manual pages, made from the same descriptions as `--help`.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;

use crate::error::Failure;

/// Print a manual page
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris man > verdigris.1                   the program's
  verdigris man key new > verdigris-key-new.1   a command's; man -l reads it")]
pub(crate) struct Man {
    /// The command whose page to print [default: the program]
    command: Vec<String>,
}

impl Man {
    /// Prints the page of one of the commands of the program.
    pub(crate) fn run(self, mut all: clap::Command) -> Result<ExitCode, Failure> {
        // Gives subcommands their full names.
        all.build();
        let mut command = &all;
        for name in &self.command {
            command = command.find_subcommand(name).ok_or_else(|| {
                let path = self.command.join(" ");
                Failure::Usage(format!("there is no command {path:?}: verdigris --help lists them"))
            })?;
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page)?;
        std::io::stdout().write_all(&page)?;
        Ok(ExitCode::SUCCESS)
    }
}
