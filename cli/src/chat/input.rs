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

/// The result of reading a line.
enum Entered {
    Line(String),
    /// Ctrl-C drops a line, and the message that it is part of.
    Dropped,
    End,
}

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
        loop {
            let first = match self.line("> ")? {
                Entered::Line(first) => first,
                Entered::Dropped => continue,
                Entered::End => return Ok(None),
            };
            let Some(rest) = first.trim().strip_prefix(BLOCK) else { return Ok(Some(first)) };
            // The marks may also be around one line.
            if let Some(whole) = rest.strip_suffix(BLOCK) {
                return Ok(Some(format!(" {whole}")));
            }
            match self.block(rest)? {
                Entered::Line(block) => return Ok(Some(block)),
                Entered::Dropped => (),
                Entered::End => return Ok(None),
            }
        }
    }

    /// The message that begins with a line of marks and `rest`. Where that is nothing, a line of marks ends it, so that
    /// other lines may have any marks; otherwise a line that ends with marks does.
    fn block(&mut self, rest: &str) -> Result<Entered, Failure> {
        // A space keeps a first line with a slash from being a command.
        let mut all = format!(" {rest}");
        loop {
            let line = match (self.line("... ")?, &self) {
                (Entered::Line(line), _) => line,
                (Entered::End, Self::Lines(_)) => {
                    let message = format!("the last message has no end: put {BLOCK} into a line of its own after it");
                    return Err(Failure::Usage(message));
                }
                (other, _) => return Ok(other),
            };
            let end = line.trim_end().strip_suffix(BLOCK).filter(|before| !rest.is_empty() || before.trim().is_empty());
            all.push('\n');
            all.push_str(end.unwrap_or(&line));
            if end.is_some() {
                return Ok(Entered::Line(all));
            }
            if all.len() > MOST {
                return Err(Failure::Usage("the message has more than 16 MiB".into()));
            }
        }
    }

    fn line(&mut self, prompt: &str) -> Result<Entered, Failure> {
        match self {
            Self::Terminal(editor) => match editor.readline(prompt) {
                Ok(line) => {
                    // A history that is full drops its oldest line.
                    let _ = editor.add_history_entry(&line);
                    Ok(Entered::Line(line))
                }
                Err(ReadlineError::Interrupted) => Ok(Entered::Dropped),
                Err(ReadlineError::Eof) => Ok(Entered::End),
                Err(fault) => Err(Failure::Usage(format!("the terminal cannot be read: {fault}"))),
            },
            Self::Lines(stdin) => {
                let mut line = String::new();
                let read = stdin.read_line(&mut line);
                let read = read.map_err(|fault| Failure::Usage(format!("standard input cannot be read: {fault}")))?;
                let line = line.strip_suffix('\n').map_or(&*line, |line| line.strip_suffix('\r').unwrap_or(line));
                Ok(if read > 0 { Entered::Line(line.to_owned()) } else { Entered::End })
            }
        }
    }
}
