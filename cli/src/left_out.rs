//! Commands of which this program was built without the feature.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::error::Failure;

/// Not part of this program, which was built without the feature of this name
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LeftOut {
    /// Whatever is asked of it.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

impl LeftOut {
    /// Says which feature brings the command.
    pub(crate) fn run(self, command: &str, feature: &str) -> Result<ExitCode, Failure> {
        Err(Failure::Usage(format!(
            "`verdigris {command}` is not part of this program: build it with `--features {feature}`"
        )))
    }
}
