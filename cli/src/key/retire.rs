//! `verdigris key retire`: ends the days on which a ring writes with a key.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use verdigris::Key;
use verdigris::models::whole_file;
use verdigris::watermark::{KeyError, Period};

use super::days::{days, today};
use crate::error::Failure;
use crate::terminal::shown_line;

/// End the days on which a ring writes with a key
#[derive(Args)]
#[command(after_help = "\
A server uses the key until it reads its ring again: reload it, or send it SIGHUP. Keep the file, since without it the \
texts that it marked are not found. If its secret has leaked, a mark of it proves nothing.

Examples:
  verdigris key retire ring/old.key                       from now on
  verdigris key retire ring/old.key --until 2027-01-31")]
pub(crate) struct Retire {
    /// The key file, which is replaced
    file: PathBuf,
    /// The last day on which a ring writes with the key [default: yesterday]
    #[arg(long, value_name = "DAY")]
    until: Option<String>,
}

impl Retire {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let key = Key::load(&self.file)?;
        let until = match &self.until {
            Some(day) => day.clone(),
            None => today().yesterday().unwrap_or(jiff::civil::Date::MIN).to_string(),
        };
        let only_last = Period::new(None, Some(&until)).map_err(KeyError::from)?;
        let (before, name) = (key.period(), shown_line(&self.file.display().to_string()).into_owned());
        if let Some(last) = before.until().filter(|&last| Some(last) <= only_last.until()) {
            return Err(Failure::Usage(format!("{name} ends on {last} already: a key cannot be made to last longer")));
        }
        // A key that would begin later never writes.
        let first = before.from().map(|day| day.to_string());
        let key = key.with_period(Period::new(first.as_deref(), Some(&until)).unwrap_or(only_last));
        replace(&key, &self.file)?;
        writeln!(anstream::stdout(), "{name} retired: {} ({})", shown_line(key.id()), days(key.period()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Replaces a key file by that of another key, with its owner and mode. If anything fails, it is unchanged.
fn replace(key: &Key, file: &Path) -> Result<(), Failure> {
    let fault = |source: io::Error| Failure::Write { path: file.into(), source };
    let path = file.canonicalize().map_err(fault)?;
    let folder = tempfile::Builder::new()
        .prefix(whole_file::TEMPORARY.0)
        .suffix(whole_file::TEMPORARY.1)
        .tempdir_in(whole_file::folder(&path))
        .map_err(fault)?;
    let new = folder.path().join("key");
    key.save(&new)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, chown};
        let (old, made) = (fs::metadata(&path).map_err(fault)?, fs::metadata(&new).map_err(fault)?);
        if (old.uid(), old.gid()) != (made.uid(), made.gid()) {
            chown(&new, Some(old.uid()), Some(old.gid())).map_err(fault)?;
        }
        // A container may read it by its group.
        fs::set_permissions(&new, old.permissions()).map_err(fault)?;
    }
    fs::rename(&new, &path).map_err(fault)
}
