//! The file of prompts: JSON Lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use verdigris::{Message, Prompt};

use crate::error::Failure;
use crate::request::RequestOptions;

/// The longest line of a file of prompts, in bytes.
const LONGEST: u64 = 16 << 20;

/// The id of a prompt: any JSON, which is returned as it was given; `null` if there is none.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Id(Option<Box<RawValue>>);

impl Id {
    fn text(&self) -> &str {
        self.0.as_deref().map_or("null", RawValue::get)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        let values = || [self, other].map(|id| serde_json::from_str::<Value>(id.text()).ok());
        self.text() == other.text() || matches!(values(), [Some(a), Some(b)] if a == b)
    }
}

/// A line of the file.
pub(super) struct BatchPrompt {
    /// The line number, from 1; blank lines count.
    pub(super) line: usize,
    pub(super) id: Id,
    pub(super) prompt: Prompt,
    /// The digest of the line and the options, which an answer must match.
    pub(super) digest: String,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct PromptLine {
    #[serde(default)]
    id: Id,
    prompt: Option<String>,
    messages: Option<Vec<PromptMessage>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct PromptMessage {
    role: String,
    content: String,
}

/// Iterates over the prompts of a file.
pub(super) struct Prompts<'o> {
    path: &'o Path,
    options: &'o RequestOptions,
    /// The digest of all options that answers depend on.
    begun: &'o Sha256,
    file: BufReader<File>,
    line: usize,
    bytes: Vec<u8>,
}

impl<'o> Prompts<'o> {
    pub(super) fn open(path: &'o Path, options: &'o RequestOptions, begun: &'o Sha256) -> Result<Self, Failure> {
        let open = |source| Failure::Open { path: path.into(), source };
        let file = File::open(path).map_err(open)?;
        let kind = file.metadata().map_err(open)?;
        if kind.is_dir() {
            return Err(open(std::io::Error::other("it is a folder")));
        }
        if !kind.is_file() {
            let why = "it is a pipe or a device, but prompts are read more than once: write them to a file first";
            return Err(open(std::io::Error::other(why)));
        }
        Ok(Self { path, options, begun, file: BufReader::new(file), line: 0, bytes: Vec::new() })
    }

    fn fault(&self, what: impl std::fmt::Display) -> Failure {
        Failure::Usage(format!("{}, line {}: {what}", self.path.display(), self.line))
    }

    /// The next line that is not blank.
    fn read(&mut self) -> Result<Option<BatchPrompt>, Failure> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let read = self.file.by_ref().take(LONGEST + 1).read_until(b'\n', &mut self.bytes);
            match read.map_err(|error| self.fault(error))? {
                0 => return Ok(None),
                length if length as u64 > LONGEST => {
                    return Err(self.fault(format!("it is longer than {} MiB", LONGEST >> 20)));
                }
                _ if self.bytes.trim_ascii().is_empty() => (),
                _ => break,
            }
        }
        let is_wanted = "a line is an object such as {\"id\": 7, \"prompt\": \"The captain\"}";
        let PromptLine { id, prompt, messages } = serde_json::from_slice(&self.bytes)
            .map_err(|error| self.fault(format!("{} in column {}; {is_wanted}", cause(&error), error.column())))?;
        let prompt = match (prompt, messages) {
            (Some(prompt), None) => self.options.prompt(&prompt),
            (None, Some(said)) => {
                let system = self.options.system.iter().map(Message::system);
                let said = said.into_iter().map(|PromptMessage { role, content }| Message::new(role, content));
                system.chain(said).collect::<Vec<_>>().into()
            }
            _ => return Err(self.fault("it needs either \"prompt\", a text, or \"messages\", a conversation")),
        };
        let digest = self.begun.clone().chain_update(self.bytes.trim_ascii()).finalize();
        let digest = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(BatchPrompt { line: self.line, id, prompt, digest }))
    }
}

/// The message of an error without its position: the library is given one line, so it always reports line 1.
fn cause(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.split(" at line ").next().unwrap_or(&said).to_owned()
}

impl Iterator for Prompts<'_> {
    type Item = Result<BatchPrompt, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
