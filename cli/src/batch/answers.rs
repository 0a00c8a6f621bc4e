//! The file of answers: a line for each prompt, in the order in which answers finish. Lines are only appended. A last
//! line that was cut short when the program ended is removed; all whole lines are kept.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use verdigris::label::LabelMetadata;
use verdigris::{Evidence, Written};

use super::prompts::{BatchPrompt, Id};
use crate::error::Failure;
use crate::generate::TextFields;
use crate::proof::Proof;

const FORMAT: &str = "verdigris-batch-1";

#[derive(Serialize)]
struct AnswerLine<'a> {
    format: &'static str,
    line: usize,
    id: &'a Id,
    digest: &'a str,
    #[serde(flatten)]
    names: Names<'a>,
    #[serde(flatten)]
    what: What<'a>,
}

/// The names of an answer outside the file.
#[derive(Default, Serialize)]
pub(super) struct Names<'a> {
    /// The id in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ledger_id: Option<&'a str>,
    /// The field `AIGC`.
    #[serde(flatten)]
    pub(super) label: Option<&'a LabelMetadata>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    Text {
        #[serde(flatten)]
        text: Box<TextFields<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        lossy: Option<&'static str>,
        /// The text with its C2PA manifest.
        #[serde(skip_serializing_if = "Option::is_none")]
        signed: Option<String>,
        /// The reason why it has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        c2pa_error: Option<String>,
    },
    Error {
        error: String,
    },
}

/// An answer that is already in the file.
#[derive(Deserialize)]
struct There {
    format: String,
    line: usize,
    #[serde(default)]
    id: Id,
    /// The digest of the prompt and the options; `None` in files of older versions.
    digest: Option<String>,
    /// The id of the key that a text was marked with.
    key_id: Option<String>,
    seed: Option<u64>,
    complete: Option<bool>,
    #[serde(default)]
    closed: bool,
    error: Option<Value>,
    c2pa_error: Option<Value>,
}

pub(super) struct Answers {
    path: PathBuf,
    file: File,
    /// The answers already in the file, by the line of their prompt.
    there: BTreeMap<usize, There>,
    /// The length of all whole lines, in bytes.
    whole: u64,
    /// Whether this run created the file. If it has not begun to write, the file is removed on drop.
    is_new: bool,
    has_begun: bool,
}

impl Answers {
    /// Opens a file of answers, or creates one. With `anew` its contents are ignored, and the first new answer, or
    /// [`Self::begin`], removes them.
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
                "{} is not a regular file, so answers cannot be resumed in it: give the name of a file, and read it \
                 when it is complete",
                path.display()
            )));
        }
        // Two processes would answer every prompt twice.
        if file.try_lock().is_err() {
            return Err(Failure::Usage(format!("{} is being written by another process", path.display())));
        }
        let (there, whole) = if anew { Default::default() } else { whole_lines(&file, path)? };
        Ok(Self { path: path.into(), file, there, whole, is_new, has_begun: false })
    }

    /// Truncates the file to the answers that are kept, once. Nothing in it is lost before.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let cut = self.file.set_len(self.whole).and_then(|()| self.file.seek(SeekFrom::Start(self.whole)));
        cut.map(drop).map_err(|source| Failure::Write { path: self.path.clone(), source })
    }

    pub(super) fn len(&self) -> usize {
        self.there.len()
    }

    /// Whether a prompt has an answer.
    ///
    /// # Errors
    /// If the answer to its line belongs to a prompt with another id.
    pub(super) fn has(&self, asked: &BatchPrompt) -> Result<bool, Failure> {
        match self.there.get(&asked.line) {
            Some(There { id, .. }) if *id != asked.id => {
                Err(self.of_another(&format!("line {} had the id {id}, and now has {}", asked.line, asked.id)))
            }
            there => Ok(there.is_some()),
        }
    }

    /// Whether the answer to a prompt was made from another line, by another model, or with other options.
    pub(super) fn is_to_another(&self, asked: &BatchPrompt) -> bool {
        let digest = self.there.get(&asked.line).and_then(|there| there.digest.as_ref());
        digest.is_some_and(|digest| *digest != asked.digest)
    }

    /// Refuses to resume if the answers were written with a different key than `key_id` (`None`: without one), or with
    /// different seeds than those that follow from `first_seed`, if given.
    pub(super) fn are_of(&self, key_id: Option<&str>, first_seed: Option<u64>) -> Result<(), Failure> {
        let named = |id: Option<&str>| id.map_or("no key".to_owned(), |id| format!("the key {id}"));
        for (&line, there) in self.there.iter().filter(|(_, there)| there.error.is_none()) {
            if there.key_id.as_deref() != key_id {
                let [was, is] = [there.key_id.as_deref(), key_id].map(named);
                return Err(self.of_another(&format!("line {line} was answered with {was}, not with {is}")));
            }
            let seed = first_seed.map(|first| first.wrapping_add(line as u64 - 1));
            if let (Some(was), Some(is)) = (there.seed, seed)
                && was != is
            {
                return Err(self.of_another(&format!("the answer to line {line} has the seed {was}, not {is}")));
            }
        }
        Ok(())
    }

    /// The numbers of texts that were cut short, that could not be written, and that could not be signed.
    pub(super) fn flawed(&self) -> [usize; 3] {
        let count = |is: fn(&There) -> bool| self.there.values().filter(|there| is(there)).count();
        [
            count(|there| there.complete == Some(false) || there.closed),
            count(|there| there.error.is_some()),
            count(|there| there.c2pa_error.is_some()),
        ]
    }

    pub(super) fn of_another(&self, how: &str) -> Failure {
        Failure::Usage(format!(
            "{} has answers of another command: {how}; give another name, or --force to start over",
            self.path.display()
        ))
    }

    pub(super) fn write(
        &mut self,
        asked: &BatchPrompt,
        written: &Written,
        proof: Option<&Proof<'_>>,
        evidence: Option<&Evidence>,
        names: Names<'_>,
        signed: Option<Result<String, String>>,
    ) -> Result<(), Failure> {
        let text = Box::new(TextFields::new(written, proof, evidence));
        let (signed, c2pa_error) = match signed {
            None => (None, None),
            Some(Ok(signed)) => (Some(signed), None),
            Some(Err(error)) => (None, Some(error)),
        };
        self.put(asked, names, What::Text { text, lossy: written.lossy, signed, c2pa_error })
    }

    pub(super) fn write_error(&mut self, asked: &BatchPrompt, error: &verdigris::Error) -> Result<(), Failure> {
        self.put(asked, Names::default(), What::Error { error: error.to_string() })
    }

    /// Writes a line in one call, so that only the last line of the file can be incomplete.
    fn put(&mut self, asked: &BatchPrompt, names: Names<'_>, what: What<'_>) -> Result<(), Failure> {
        let line = AnswerLine { format: FORMAT, line: asked.line, id: &asked.id, digest: &asked.digest, names, what };
        let mut line = serde_json::to_vec(&line).expect("an answer serialises");
        line.push(b'\n');
        self.begin()?;
        self.file.write_all(&line).map_err(|source| Failure::Write { path: self.path.clone(), source })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if self.is_new && !self.has_begun {
            // A file that cannot be removed stays empty.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Reads the answers in the whole lines of a file. Also returns the length of these lines in bytes.
fn whole_lines(file: &File, path: &Path) -> Result<(BTreeMap<usize, There>, u64), Failure> {
    let (mut there, mut whole, mut bytes) = (BTreeMap::new(), 0, Vec::new());
    let mut file = BufReader::new(file);
    loop {
        bytes.clear();
        let read = file.read_until(b'\n', &mut bytes);
        let length = read.map_err(|source| Failure::Open { path: path.into(), source })?;
        if bytes.last() != Some(&b'\n') {
            // An incomplete line is dropped only if it begins like one of ours.
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
    Failure::Usage(format!("{} is not a file of answers: give another name, or --force to replace it", path.display()))
}
