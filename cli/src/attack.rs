//! `verdigris attack`: do to a text what others may do to it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use verdigris::watermark::attack::Attack;

use crate::error::Failure;

/// Attack a text, to see what its mark stands
#[derive(Args)]
#[command(after_help = "\
The same text, strength and seed give the same result. docs/watermark.md has the table of what is left of a mark after
each attack; `verdigris bench robustness` makes it.

Examples:
  verdigris attack deletion tale.txt --strength 0.2 | verdigris detect --key my.key
  verdigris attack copy-paste tale.txt --strength 0.8 --human letters.txt > mixed.txt")]
pub(crate) struct AttackCommand {
    /// What to do
    #[arg(value_enum)]
    attack: Name,
    /// The text; - for standard input
    file: PathBuf,
    /// How much of it, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    strength: f64,
    /// Another result of the same strength
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Human text: what copy-paste puts around the text, and where substitution takes its words from
    #[arg(long, value_name = "FILE")]
    human: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Take words out
    Deletion,
    /// Exchange neighbouring words
    Swap,
    /// Replace words by others, as frequent as they are
    Substitution,
    /// Mistype words
    Typos,
    /// Replace letters by look-alikes of other scripts
    Homoglyphs,
    /// Put invisible characters into words
    ZeroWidth,
    /// Cut off the end
    Truncation,
    /// Put it, in three pieces, into human text
    CopyPaste,
    /// Change capital and small first letters
    Case,
}

impl From<Name> for Attack {
    fn from(name: Name) -> Self {
        match name {
            Name::Deletion => Self::Deletion,
            Name::Swap => Self::Swap,
            Name::Substitution => Self::Substitution,
            Name::Typos => Self::Typos,
            Name::Homoglyphs => Self::Homoglyphs,
            Name::ZeroWidth => Self::ZeroWidth,
            Name::Truncation => Self::Truncation,
            Name::CopyPaste => Self::CopyPaste,
            Name::Case => Self::Case,
        }
    }
}

impl AttackCommand {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if !(0.0..=1.0).contains(&self.strength) {
            return Err(Failure::Usage(format!("--strength is {}, but must be 0 to 1", self.strength)));
        }
        let human = self.human.as_deref().map(crate::text::read).transpose()?;
        if matches!(self.attack, Name::CopyPaste) && human.as_ref().is_none_or(|human| human.trim().is_empty()) {
            return Err(Failure::Usage("copy-paste needs a text to paste into: --human FILE".into()));
        }
        let text = crate::text::read(&self.file)?;
        let attacked = Attack::from(self.attack).apply(&text, self.strength, self.seed, &human.unwrap_or_default());
        std::io::Write::write_all(&mut std::io::stdout(), attacked.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
