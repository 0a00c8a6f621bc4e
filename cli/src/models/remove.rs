//! `verdigris models remove`: removes a model from the cache.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use verdigris::models::hub::Access;

use crate::error::Failure;
use crate::models::known::hub_name;
use crate::models::list::size;
use crate::terminal::shown_line;

/// Remove a model of the hub from the cache, with all its files and revisions
#[derive(Args)]
#[command(after_help = "\
On a terminal it asks first; elsewhere it needs --yes. Other programs for the hub share the cache, and fetch the model \
again when they need it.

Example:
  verdigris models remove HuggingFaceTB/SmolLM2-135M-Instruct --yes")]
pub(super) struct Remove {
    /// The model: owner/name
    name: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Remove {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (access, name) = (Access::from_env(), hub_name(&self.name)?);
        let fault = |fault: verdigris::models::hub::NotRemoved| Failure::Usage(fault.to_string());
        let (folder, bytes) = access.folder_of(&name).map_err(fault)?;
        let shown = folder.display().to_string();
        let mut out = std::io::stdout();
        if !self.yes {
            if !std::io::stdin().is_terminal() || !out.is_terminal() {
                let why = format!("{shown} ({}) would be removed: to do it, give --yes", size(bytes));
                return Err(Failure::Usage(why));
            }
            write!(out, "Remove {} ({})? [y/N] ", shown_line(&shown), size(bytes))?;
            out.flush()?;
            let mut answer = String::new();
            std::io::stdin().lock().read_line(&mut answer)?;
            if !matches!(&*answer.trim().to_ascii_lowercase(), "y" | "yes") {
                writeln!(out, "nothing was removed")?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        let (_, bytes) = access.remove(&name).map_err(fault)?;
        writeln!(out, "removed {} ({})", shown_line(&shown), size(bytes))?;
        Ok(ExitCode::SUCCESS)
    }
}
