//! `verdigris attack`: an older name for `robustness --text`, which earlier scripts use.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris::watermark::attack::Attack as Edit;

use crate::edits::{self, EditSource, check_strength};
use crate::error::Failure;
use crate::{report, text};

/// Print a text after an edit; see robustness
#[derive(Args)]
pub(crate) struct AttackCommand {
    /// The edit
    #[arg(value_parser = edits::edits())]
    edit: Edit,
    /// The text; - for standard input
    file: PathBuf,
    /// The mean share of the text that the edit affects, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    strength: f64,
    #[command(flatten)]
    source: EditSource,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-attack-1";

impl AttackCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        check_strength(self.strength)?;
        let human = self.source.human(&[self.edit])?;
        let name = text::name(&self.file);
        let text = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(FORMAT, &name, &failure),
            text => text?,
        };
        let edited = self.edit.apply(&text, self.strength, self.source.seed, &human);
        if self.json {
            return report::print_json(&serde_json::json!({
                "format": FORMAT, "name": name, "attack": edits::name(self.edit), "strength": self.strength,
                "seed": self.source.seed, "text": edited,
            }));
        }
        std::io::stdout().write_all(edited.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
