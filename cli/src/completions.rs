//! `verdigris completions`: prints the completion script of a shell.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::error::Failure;

/// Print a script with which a shell completes commands and options
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris completions bash > verdigris.bash   then: source verdigris.bash
  verdigris completions zsh > _verdigris        into a folder of $fpath
  verdigris completions fish > verdigris.fish   into ~/.config/fish/completions")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script for the commands of the program.
    pub(crate) fn run(self, mut commands: clap::Command) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut commands, "verdigris", &mut script);
        std::io::stdout().write_all(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}
