//! `verdigris man`: prints manual pages, made from the same descriptions as `--help`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::Failure;

/// Print a manual page
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris man > verdigris.1                   the program's
  verdigris man key new > verdigris-key-new.1   a command's; man -l reads it
  verdigris man --all man1                      all pages, into this folder")]
pub(crate) struct Man {
    /// The command whose page to print [default: the program]
    command: Vec<String>,
    /// Write the pages of the program and of all commands into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    all: Option<PathBuf>,
}

impl Man {
    /// Prints the page of one of the commands of the program.
    pub(crate) fn run(self, mut all: clap::Command) -> Result<ExitCode, Failure> {
        if let Some(folder) = self.all {
            let written = std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(all, &folder));
            written.map_err(|source| Failure::Write { path: folder, source })?;
            return Ok(ExitCode::SUCCESS);
        }
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
