//! Lines from a terminal, which can be edited, or from standard input.

use std::io::{BufRead, StdinLock};

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

use crate::error::Failure;

/// The line that begins and ends a message of several lines.
const BLOCK: &str = "\"\"\"";

/// The most bytes of a message.
const MOST: usize = 16 << 20;

/// The source of lines.
pub(super) enum Input {
    Terminal(Box<Editor<(), MemHistory>>),
    Lines(StdinLock<'static>),
}

impl Input {
    pub(super) fn new(is_terminal: bool) -> Result<Self, Failure> {
        if !is_terminal {
            return Ok(Self::Lines(std::io::stdin().lock()));
        }
        let fault = |fault: ReadlineError| Failure::Usage(format!("the terminal cannot be read: {fault}"));
        let editor = Editor::with_history(Config::default(), MemHistory::new()).map_err(fault)?;
        Ok(Self::Terminal(Box::new(editor)))
    }

    /// The next message or command; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<String>, Failure> {
        let Some(first) = self.line("> ")? else { return Ok(None) };
        let Some(rest) = first.trim().strip_prefix(BLOCK) else { return Ok(Some(first)) };
        // The marks may also be around one line.
        if let Some(whole) = rest.strip_suffix(BLOCK) {
            return Ok(Some(format!(" {whole}")));
        }
        // A space keeps a first line with a slash from being a command.
        let mut all = format!(" {rest}");
        while let Some(line) = self.line("... ")? {
            let end = line.trim_end().strip_suffix(BLOCK);
            all.push('\n');
            all.push_str(end.unwrap_or(&line));
            if end.is_some() {
                break;
            }
            if all.len() > MOST {
                return Err(Failure::Usage("the message has more than 16 MiB".into()));
            }
        }
        Ok(Some(all))
    }

    fn line(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        match self {
            Self::Terminal(editor) => loop {
                match editor.readline(prompt) {
                    Ok(line) => {
                        // A history that is full drops its oldest line.
                        let _ = editor.add_history_entry(&line);
                        return Ok(Some(line));
                    }
                    // Ctrl-C drops the line.
                    Err(ReadlineError::Interrupted) => (),
                    Err(ReadlineError::Eof) => return Ok(None),
                    Err(fault) => return Err(Failure::Usage(format!("the terminal cannot be read: {fault}"))),
                }
            },
            Self::Lines(stdin) => {
                let mut line = String::new();
                let read = stdin.read_line(&mut line);
                let read = read.map_err(|fault| Failure::Usage(format!("standard input cannot be read: {fault}")))?;
                let line = line.strip_suffix('\n').map_or(&*line, |line| line.strip_suffix('\r').unwrap_or(line));
                Ok((read > 0).then(|| line.to_owned()))
            }
        }
    }
}
