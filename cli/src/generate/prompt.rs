//! The source of the prompt.

#[cfg(not(unix))]
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;

use crate::error::Failure;

/// The time that standard input may be silent before a message says that it is awaited.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct PromptOptions {
    /// The text to continue; - reads it from standard input, which is also read without a prompt if it is a pipe or a
    /// file [default: begin a new text]
    prompt: Option<String>,
    /// The same as PROMPT
    #[arg(short = 'p', long = "prompt", value_name = "PROMPT", conflicts_with = "prompt", allow_hyphen_values = true)]
    prompt_option: Option<String>,
    /// Read the prompt from this file. One line end at the end of a file or of standard input is not part of the prompt
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_option"])]
    prompt_file: Option<PathBuf>,
}

impl PromptOptions {
    pub(crate) fn file(&self) -> Option<&Path> {
        self.prompt_file.as_deref().filter(|path| path.as_os_str() != "-")
    }

    pub(crate) fn read(&self, quiet: bool) -> Result<String, Failure> {
        let path = match (self.prompt.as_ref().or(self.prompt_option.as_ref()), &self.prompt_file) {
            (Some(prompt), _) if prompt != "-" => return Ok(prompt.clone()),
            (None, Some(path)) => path,
            (None, None) if !is_fed() => return Ok(String::new()),
            _ => Path::new("-"),
        };
        // Dropped when this function returns, which ends the thread.
        let (_reading, done) = mpsc::channel::<()>();
        if path.as_os_str() == "-" && !quiet {
            std::thread::spawn(move || {
                if done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    crate::terminal::say!(
                        "waiting for the prompt on standard input; for no prompt, end it (Ctrl-D) or add < /dev/null"
                    );
                }
            });
        }
        let mut text = crate::text::read(path)?;
        // Editors and `echo` add a line end, which would be an unintended token.
        if text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        Ok(text)
    }
}

/// Whether standard input is a pipe or a file, rather than a terminal or what programs in the background have, such as
/// `/dev/null`.
fn is_fed() -> bool {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        use std::os::unix::fs::FileTypeExt;
        let Ok(stdin) = std::io::stdin().as_fd().try_clone_to_owned() else { return false };
        let about = std::fs::File::from(stdin).metadata();
        about.is_ok_and(|about| about.is_file() || about.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    !std::io::stdin().is_terminal()
}
