//! `verdigris models`: the models on this machine.

mod known;
mod list;
mod names;
#[cfg(feature = "hub")]
mod remove;

pub(crate) use names::NAMES;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::Failure;
use crate::models::known::{all, hub_name};

/// List, fetch and remove models of the Hugging Face hub; alone, it lists those on this machine
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
The cache is that of other programs for the hub: ~/.cache/huggingface/hub, or hub in the folder of HF_HOME. A command \
with --model NAME fetches the model itself, if it is not there.

Examples:
  verdigris models
  verdigris models --json
  verdigris models fetch HuggingFaceTB/SmolLM2-135M-Instruct
  verdigris models fetch Qwen/Qwen3-0.6B-GGUF:Qwen3-0.6B-Q8_0.gguf
  verdigris models remove HuggingFaceTB/SmolLM2-135M-Instruct"
)]
pub(crate) struct Models {
    #[command(subcommand)]
    command: Option<ModelsCommand>,
    /// Print one JSON object per model
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum ModelsCommand {
    Fetch(Fetch),
    #[cfg(feature = "hub")]
    Remove(remove::Remove),
    /// Print the names of models, for the completion of shells
    #[command(hide = true)]
    Names,
}

/// Fetch a model of the hub into the cache, unless it is there, and print its path
#[derive(Args)]
#[command(after_help = "\
HF_TOKEN, or the token that `hf auth login` has stored, gives access to gated models.

Example:
  verdigris models fetch HuggingFaceTB/SmolLM2-135M-Instruct")]
struct Fetch {
    /// The model: owner/name, owner/name@revision, or owner/name:file.gguf
    name: String,
}

impl Models {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            None => list::print(self.json),
            Some(ModelsCommand::Names) => names::print(),
            Some(ModelsCommand::Fetch(fetch)) => fetch.run(),
            #[cfg(feature = "hub")]
            Some(ModelsCommand::Remove(remove)) => remove.run(),
        }
    }
}

impl Fetch {
    fn run(self) -> Result<ExitCode, Failure> {
        hub_name(&self.name)?;
        if Path::new(&self.name).exists() {
            return Err(Failure::Usage(format!("{} is a path here: change to another folder to fetch it", self.name)));
        }
        // The name of a model begins with its owner's.
        if let Some(owner) = Path::new(&self.name).parent().filter(|owner| owner.exists()) {
            let owner = owner.display();
            let message =
                format!("{owner} is a path here, so {} is one too: change to another folder to fetch it", self.name);
            return Err(Failure::Usage(message));
        }
        crate::model::find(Path::new(&self.name))?;
        if let Some(path) = all().into_iter().find(|model| model.name == self.name).and_then(|model| model.path) {
            writeln!(std::io::stdout(), "{}", path.display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
