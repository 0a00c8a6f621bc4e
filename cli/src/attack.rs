//! `verdigris attack`: attacks a text, to test how robust its mark is.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use verdigris::watermark::attack::Attack;

use crate::error::Failure;
use crate::{report, text};

/// Attack a text, to test how robust its mark is
#[derive(Args)]
#[command(after_help = "\
The same text, strength and seed give the same result. docs/watermark.md has a table of how much of a mark is left \
after each attack; `verdigris bench robustness` produces it.

Examples:
  verdigris attack deletion tale.txt | verdigris detect --key my.key
  verdigris attack copy-paste tale.txt --strength 0.8 \\
      --human letters.txt > mixed.txt")]
pub(crate) struct AttackCommand {
    /// The attack
    #[arg(value_parser = attacks())]
    attack: Attack,
    /// The text; - for standard input
    file: PathBuf,
    /// The share of the text that the attack affects, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    strength: f64,
    /// The random seed: another seed gives another result of the same strength
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Human text that copy-paste puts around the text, and that substitution takes its words from
    #[arg(long, value_name = "FILE")]
    human: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-attack-1";

/// Parses an attack by its name.
fn attacks() -> impl TypedValueParser<Value = Attack> {
    let values = Attack::ALL.map(|(_, name, what)| PossibleValue::new(name).help(what));
    PossibleValuesParser::new(values).map(|given| {
        let (attack, ..) = Attack::ALL.into_iter().find(|(_, name, _)| *name == given).expect("one of these");
        attack
    })
}

impl AttackCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if !(0.0..=1.0).contains(&self.strength) {
            return Err(Failure::Usage(format!("--strength is {}, but must be 0 to 1", self.strength)));
        }
        let (_, attack, _) = Attack::ALL.into_iter().find(|(attack, ..)| *attack == self.attack).expect("of all");
        if self.human.is_some() && !matches!(self.attack, Attack::CopyPaste | Attack::Substitution) {
            let message = format!("--human is for copy-paste and substitution, not for {attack}: leave it out");
            return Err(Failure::Usage(message));
        }
        let human = self.human.as_deref().map(text::read).transpose()?;
        if self.attack == Attack::CopyPaste && human.as_ref().is_none_or(|human| human.trim().is_empty()) {
            return Err(Failure::Usage("copy-paste needs a text to paste into: --human FILE".into()));
        }
        let name = text::name(&self.file);
        let text = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(FORMAT, &name, &failure),
            text => text?,
        };
        let attacked = self.attack.apply(&text, self.strength, self.seed, &human.unwrap_or_default());
        if self.json {
            return report::print_json(&serde_json::json!({
                "format": FORMAT, "name": name, "attack": attack, "strength": self.strength, "seed": self.seed,
                "text": attacked,
            }));
        }
        std::io::stdout().write_all(attacked.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
