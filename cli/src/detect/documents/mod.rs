//! Reads texts from files, folders, pipes, JSON and Parquet, one at a time.

#[cfg(feature = "parquet")]
mod child;
#[cfg(feature = "parquet")]
mod column;
mod document;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
mod passed;

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::ProgressBar;

#[cfg(feature = "parquet")]
pub(crate) use self::child::{READ_PARQUET, read_parquet};
use self::document::MAX_TEXT;
pub(crate) use self::document::{Document, DocumentError, DocumentText, Fields};
use self::json::Records;
use self::passed::{KINDS, Passed};
use crate::error::Failure;
use crate::text::{self, Decoder};

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One text
    Text,
    /// A JSON object or string with a text on each line
    Jsonl,
    /// One array of such objects or strings, or one object
    Json,
    /// A column of texts
    Parquet,
}

impl Format {
    /// The format of a file, by its name and the records that it begins with.
    fn of(path: &Path, records: Option<Records>, fields: &Fields) -> Self {
        match (&*extension(path), records) {
            ("jsonl" | "ndjson", _) => Self::Jsonl,
            ("parquet", _) => Self::Parquet,
            (_, Some(Records::Array)) => Self::Json,
            (_, Some(Records::One)) if fields.named => Self::Json,
            _ => Self::Text,
        }
    }
}

/// The records of a file whose name says that it is JSON. Any JSON, one object included, may also be a text itself,
/// such as one written under a schema.
fn records(path: &Path, fields: &Fields) -> Option<Records> {
    // What is read from a pipe would be lost.
    if extension(path) != "json" || !path.metadata().is_ok_and(|about| about.is_file()) {
        return None;
    }
    let input = text::open(path).ok()?;
    Records::of(BufReader::with_capacity(64 << 10, Decoder::new(input)), fields)
}

/// A source of texts.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    /// Whether it was named, rather than found in a folder.
    named: bool,
    /// Whether no format was given, so that its name decides.
    by_name: bool,
    /// The records that it begins with, if its name does not say whether it has any.
    records: Option<Records>,
}

/// The sources at some paths: files and standard input, in `format` if it is given, and all text files in folders, in
/// the order of their names. Also returns a sentence about the entries of folders that are skipped.
pub(crate) fn sources(
    paths: &[PathBuf],
    format: Option<Format>,
    fields: &Fields,
) -> Result<(Vec<Source>, Option<String>), Failure> {
    let (mut found, mut passed) = (Vec::new(), Passed::default());
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            walk(path, fields, &mut found, &mut passed, 0)?;
            if found.len() == before {
                let kinds = KINDS.map(|kind| format!(".{kind}")).join(", ");
                let passed = passed.sentence().map_or(String::new(), |passed| format!("; {passed}"));
                return Err(Failure::Usage(format!("{} holds no {kinds} file{passed}", path.display())));
            }
        } else {
            found.push(Source::new(path.clone(), format, true, fields));
        }
    }
    if found.iter().filter(|source| text::is_stdin(&source.path)).count() > 1 {
        return Err(Failure::Usage("- is given twice, but standard input can only be read once".into()));
    }
    Ok((found, passed.sentence()))
}

/// Finds the text files in a folder and its subfolders.
fn walk(
    folder: &Path,
    fields: &Fields,
    found: &mut Vec<Source>,
    passed: &mut Passed,
    depth: usize,
) -> Result<(), Failure> {
    let open = |source| Failure::Open { path: folder.into(), source };
    if depth > 64 {
        return Err(open(io::Error::other("folders are nested more than 64 deep")));
    }
    let entries = folder.read_dir().map_err(open)?.collect::<Result<Vec<_>, _>>().map_err(open)?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // Links to folders could form a cycle.
        let is_folder = path.is_dir();
        if hidden {
            passed.hidden += 1;
        } else if is_folder && path.is_symlink() {
            passed.links += 1;
        } else if is_folder {
            walk(&path, fields, found, passed, depth + 1)?;
        } else if KINDS.contains(&&*extension(&path)) {
            found.push(Source::new(path, None, false, fields));
        } else {
            passed.add(&extension(&path));
        }
    }
    Ok(())
}

fn extension(path: &Path) -> String {
    path.extension().and_then(|kind| kind.to_str()).unwrap_or_default().to_ascii_lowercase()
}

impl Source {
    fn new(path: PathBuf, format: Option<Format>, named: bool, fields: &Fields) -> Self {
        let by_name = format.is_none();
        let records = if by_name { records(&path, fields) } else { None };
        let format = format.unwrap_or_else(|| Format::of(&path, records, fields));
        Self { path, format, named, by_name, records }
    }

    /// A note on a file that, by its name, is judged together with its markup.
    pub(crate) fn markup(&self, fields: &Fields) -> Option<String> {
        if self.format != Format::Text || !self.by_name || text::is_stdin(&self.path) {
            return None;
        }
        let (name, field) = (text::name(&self.path), &fields.text);
        match &*extension(&self.path) {
            "json" if self.records.is_some() => Some(format!(
                "{name} is judged as one text, with its JSON syntax: --format json judges its field {field:?} \
                 only"
            )),
            "csv" | "tsv" => Some(format!(
                "{name} is judged as one text, with its separators: `verdigris scan` judges the texts of a column"
            )),
            "html" | "htm" | "xhtml" => Some(format!(
                "{name} is judged as one text, with its markup: `pandoc -t plain FILE | verdigris detect` judges \
                 its words"
            )),
            _ => None,
        }
    }

    /// The size in bytes, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        let about = fs::metadata(&self.path).ok()?;
        (about.is_file() && !text::is_stdin(&self.path)).then_some(about.len())
    }

    /// Reads the texts, with progress on `bar`. A fault in one text affects that text only; a fault in the file ends it
    /// with one more faulty document. With `cut`, a long text is cut short.
    pub(crate) fn documents(self, fields: &Fields, cut: bool, bar: &ProgressBar) -> Box<dyn Iterator<Item = Document>> {
        let name = text::name(&self.path);
        let one = |document| Box::new(std::iter::once(document));
        // A pipe that happens to be in a folder may never get any data.
        if !self.named && self.path.metadata().is_ok_and(|about| !about.is_file()) {
            return one(Document::faulty(name, "it is a pipe or a device, which is read only if it is named"));
        }
        let input = match text::open(&self.path) {
            Ok(input) => input,
            Err(error) => return one(Document { name, id: None, text: Err(DocumentError::Open(error)) }),
        };
        let bar = bar.clone();
        match self.format {
            Format::Text => one(Document { name, id: None, text: read(bar.wrap_read(input), cut) }),
            Format::Jsonl => {
                let input = BufReader::with_capacity(64 << 10, Decoder::unchecked(bar.wrap_read(input)));
                Box::new(json::lines(name, input, fields.clone()))
            }
            Format::Json => {
                let input = BufReader::with_capacity(64 << 10, Decoder::new(bar.wrap_read(input)));
                Box::new(json::array(name, input, fields.clone()))
            }
            Format::Parquet => match parquet::rows(&name, &self.path, input, fields, bar) {
                Ok(documents) => documents,
                Err(error) => one(Document::faulty(name, error)),
            },
        }
    }
}

fn read(input: impl Read + Send + 'static, cut: bool) -> Result<DocumentText, DocumentError> {
    let fault = |error: io::Error| DocumentError::Text(error.to_string());
    let mut input = Decoder::new(input);
    let mut start = Vec::new();
    input.by_ref().take(MAX_TEXT + 1).read_to_end(&mut start).map_err(fault)?;
    if start.len() as u64 > MAX_TEXT && !cut {
        return Ok(DocumentText::Long(Box::new(Cursor::new(start).chain(input))));
    }
    start.truncate(MAX_TEXT as usize);
    String::from_utf8(start).map(DocumentText::Whole).or_else(|error| {
        // Only the last character of a text that was cut short: the decoder gives whole ones.
        let valid = error.utf8_error().valid_up_to();
        let mut start = error.into_bytes();
        start.truncate(valid);
        Ok(DocumentText::Whole(String::from_utf8(start).expect("checked up to here")))
    })
}
