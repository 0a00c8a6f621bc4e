//! Commands whose feature this program was built without.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::error::Failure;

/// Not part of this program, which was built without the feature of this name
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LeftOut {
    /// All arguments.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

impl LeftOut {
    /// Fails with a message that names the feature of the command.
    pub(crate) fn run(self, command: &str, feature: &str) -> Result<ExitCode, Failure> {
        Err(Failure::Usage(format!(
            "`verdigris {command}` is not part of this program: build it with `--features {feature}`"
        )))
    }
}
