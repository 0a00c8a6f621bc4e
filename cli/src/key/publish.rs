//! `verdigris key publish`: writes the key of the public part of a mark.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris::Key;

use crate::error::Failure;
use crate::terminal::shown_line;

/// Write the public part of a key, with which everyone can look for its mark
#[derive(Args)]
#[command(after_help = "\
For keys made with `key new --public-part`. About half of the tokens of a text belong to the public part, the others to \
the private one. With the published key, anyone can find the public half of the mark, and also forge or remove it. It \
says nothing of the private half, which only the key itself finds, so that forged texts are recognized. docs/security.md \
says what each half proves.

Examples:
  verdigris key new both.key --public-part
  verdigris key publish both.key both.public.key")]
pub(crate) struct Publish {
    /// The key file
    file: PathBuf,
    /// The file to create; it must not exist
    published: PathBuf,
}

impl Publish {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        if self.published.as_os_str() == "-" {
            return Err(Failure::Usage("- is not a name for a key file: give another name".into()));
        }
        let key = Key::load(&self.file)?.published()?;
        key.save(&self.published)?;
        let (file, id) = (self.published.display().to_string(), shown_line(key.id()).into_owned());
        writeln!(anstream::stdout(), "{} made: {id} ({})", shown_line(&file), key.describe())?;
        Ok(ExitCode::SUCCESS)
    }
}
