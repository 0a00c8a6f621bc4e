//! The file of answers: a line for each prompt, in the order in which they end. It is only ever gone on with, and a
//! line that was cut by an end of the program is taken away, so every whole line stays.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use verdigris::{Evidence, Written};

use super::prompts::Asked;
use crate::error::Failure;
use crate::generate::TextFields;

const FORMAT: &str = "verdigris-batch-1";

#[derive(Serialize)]
struct Line<'a> {
    format: &'static str,
    line: usize,
    id: &'a Value,
    digest: &'a str,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    Text {
        #[serde(flatten)]
        text: TextFields<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lossy: Option<&'static str>,
    },
    Error {
        error: String,
    },
}

/// What is known of an answer that is there.
#[derive(Deserialize)]
struct There {
    format: String,
    line: usize,
    #[serde(default)]
    id: Value,
    /// Of the prompt and the options; files of older versions have none.
    digest: Option<String>,
    /// Of a text, by what it was marked.
    key_id: Option<String>,
    seed: Option<u64>,
    complete: Option<bool>,
    #[serde(default)]
    closed: bool,
    error: Option<Value>,
}

pub(super) struct Answers {
    path: PathBuf,
    file: File,
    /// The answers that are there, by the line of their prompt.
    there: BTreeMap<usize, There>,
    /// Bytes of whole lines.
    whole: u64,
    /// Whether the file was not there, and nothing has begun: then it goes with whatever keeps that from beginning.
    is_new: bool,
}

impl Answers {
    /// Opens a file of answers, or makes one; with `anew` nothing of it is gone on with.
    pub(super) fn open(path: &Path, anew: bool) -> Result<Self, Failure> {
        let fault = |source| Failure::Write { path: path.into(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (options.open(path), false),
            file => (file, true),
        };
        let file = file.map_err(fault)?;
        if !file.metadata().map_err(fault)?.is_file() {
            return Err(Failure::Usage(format!(
                "{} is no file that answers can be gone on with in: give the name of a file, and read it when it is \
                 whole",
                path.display()
            )));
        }
        // Two of them would answer everything twice.
        if file.try_lock().is_err() {
            return Err(Failure::Usage(format!("{} is being written by another process", path.display())));
        }
        let (there, whole) = if anew { Default::default() } else { whole_lines(&file, path)? };
        Ok(Self { path: path.into(), file, there, whole, is_new })
    }

    /// Takes away what is gone on without. Until then nothing is given up.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        self.is_new = false;
        let cut = self.file.set_len(self.whole).and_then(|()| self.file.seek(SeekFrom::Start(self.whole)));
        cut.map(drop).map_err(|source| Failure::Write { path: self.path.clone(), source })
    }

    pub(super) fn len(&self) -> usize {
        self.there.len()
    }

    /// Whether a prompt has its answer.
    ///
    /// # Errors
    /// Where the answer is one to another prompt.
    pub(super) fn has(&self, asked: &Asked) -> Result<bool, Failure> {
        match self.there.get(&asked.line) {
            Some(There { id, .. }) if *id != asked.id => {
                Err(self.of_another(&format!("line {} was {id} and is {}", asked.line, asked.id)))
            }
            there => Ok(there.is_some()),
        }
    }

    /// Whether the answer to a prompt is one to another line, or by another model or with other options.
    pub(super) fn is_to_another(&self, asked: &Asked) -> bool {
        let digest = self.there.get(&asked.line).and_then(|there| there.digest.as_ref());
        digest.is_some_and(|digest| *digest != asked.digest)
    }

    /// Refuses to go on beside answers that were marked by another key, or by none where there is one now; and those of
    /// other seeds, where the seed of the first line is told.
    pub(super) fn are_of(&self, key_id: Option<&str>, first_seed: Option<u64>) -> Result<(), Failure> {
        let named = |id: Option<&str>| id.map_or("no key".to_owned(), |id| format!("the key {id}"));
        for (&line, there) in self.there.iter().filter(|(_, there)| there.error.is_none()) {
            if there.key_id.as_deref() != key_id {
                let [was, is] = [there.key_id.as_deref(), key_id].map(named);
                return Err(self.of_another(&format!("that to line {line} was written with {was}, and now it is {is}")));
            }
            let seed = first_seed.map(|first| first.wrapping_add(line as u64 - 1));
            if let (Some(was), Some(is)) = (there.seed, seed)
                && was != is
            {
                return Err(self.of_another(&format!("that to line {line} has the seed {was}, and would have {is}")));
            }
        }
        Ok(())
    }

    /// How many texts were cut short, and how many could not be written.
    pub(super) fn flawed(&self) -> [usize; 2] {
        let count = |is: fn(&There) -> bool| self.there.values().filter(|there| is(there)).count();
        [count(|there| there.complete == Some(false) || there.closed), count(|there| there.error.is_some())]
    }

    pub(super) fn of_another(&self, how: &str) -> Failure {
        Failure::Usage(format!(
            "{} has answers of another command: {how}; give another name, or --force to begin anew",
            self.path.display()
        ))
    }

    pub(super) fn write(
        &mut self,
        asked: &Asked,
        written: &Written,
        key_id: Option<&str>,
        evidence: Option<&Evidence>,
    ) -> Result<(), Failure> {
        let text = TextFields::new(written, key_id, evidence);
        self.put(asked, What::Text { text, lossy: written.lossy })
    }

    pub(super) fn write_error(&mut self, asked: &Asked, error: &verdigris::Error) -> Result<(), Failure> {
        self.put(asked, What::Error { error: error.to_string() })
    }

    /// A line in one call, so that it is there whole or cut at the end of the file.
    fn put(&mut self, asked: &Asked, what: What<'_>) -> Result<(), Failure> {
        let line = Line { format: FORMAT, line: asked.line, id: &asked.id, digest: &asked.digest, what };
        let mut line = serde_json::to_vec(&line).expect("an answer serialises");
        line.push(b'\n');
        self.file.write_all(&line).map_err(|source| Failure::Write { path: self.path.clone(), source })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if self.is_new {
            // What cannot be taken away is empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What the whole lines of a file answer, and how many bytes they are.
fn whole_lines(file: &File, path: &Path) -> Result<(BTreeMap<usize, There>, u64), Failure> {
    let (mut there, mut whole, mut bytes) = (BTreeMap::new(), 0, Vec::new());
    let mut file = BufReader::new(file);
    loop {
        bytes.clear();
        let read = file.read_until(b'\n', &mut bytes);
        let length = read.map_err(|source| Failure::Open { path: path.into(), source })?;
        if bytes.last() != Some(&b'\n') {
            // What is no line of ours is not thrown away as a cut one.
            let begun = &bytes[..bytes.len().min(b"{\"format\":".len())];
            if !b"{\"format\":".starts_with(begun) {
                return Err(foreign(path));
            }
            return Ok((there, whole));
        }
        let answer: There = serde_json::from_slice(&bytes).map_err(|_| foreign(path))?;
        if answer.format != FORMAT {
            return Err(foreign(path));
        }
        there.insert(answer.line, answer);
        whole += length as u64;
    }
}

fn foreign(path: &Path) -> Failure {
    Failure::Usage(format!("{} is no file of answers: give another name, or --force to replace it", path.display()))
}
