//! Other programs of the project that this one runs: they depend on many libraries, and few users need them.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::error::Failure;

/// Another program of the project.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// The name of the program, and the task that needs it, for messages.
    pub(crate) name: &'static str,
    pub(crate) of: &'static str,
    /// The package that builds it.
    pub(crate) package: &'static str,
}

impl Program {
    /// A command that runs the program: the one next to this program, or else the one on the PATH.
    pub(crate) fn command(self) -> Command {
        let name = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        let beside = std::env::current_exe().ok().map(|program| program.with_file_name(name));
        Command::new(beside.filter(|program| program.is_file()).unwrap_or_else(|| PathBuf::from(self.name)))
    }

    /// The error if a command of it could not be started.
    pub(crate) fn not_started(self, command: &Command, source: &io::Error) -> Failure {
        let Self { name, of, package } = self;
        Failure::Usage(match source.kind() {
            io::ErrorKind::NotFound => format!(
                "{of} needs a separate program, {name}, which is neither next to this one nor on the PATH: build it \
                 with `cargo build --release -p {package}`, and copy it to one of these"
            ),
            _ => format!("cannot start {}: {source}", command.get_program().display()),
        })
    }

    /// Replaces this process by the program, so that signals reach it.
    pub(crate) fn take_over(self, mut command: Command) -> Result<ExitCode, Failure> {
        in_its_place(&mut command).map_err(|source| self.not_started(&command, &source))
    }
}

#[cfg(unix)]
fn in_its_place(command: &mut Command) -> io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

#[cfg(not(unix))]
fn in_its_place(command: &mut Command) -> io::Result<ExitCode> {
    let status = command.status()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
