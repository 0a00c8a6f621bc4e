//! Texts out of files, folders, pipes, JSON and Parquet, one after the other.

#[cfg(feature = "parquet")]
mod column;
mod document;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::ProgressBar;

use self::document::MAX_TEXT;
pub(crate) use self::document::{Document, Fault, Fields, Text};
use crate::error::Failure;
use crate::text::{self, Decoder};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One text
    Text,
    /// A JSON object or string with a text on each line
    Jsonl,
    /// One array of such objects or strings
    Json,
    /// A column of texts
    Parquet,
}

impl Format {
    /// By a file's name; by its beginning where the name leaves it open.
    fn of(path: &Path, fields: &Fields) -> Self {
        match &*extension(path) {
            "jsonl" | "ndjson" => Self::Jsonl,
            "parquet" => Self::Parquet,
            "json" if holds_records(path, fields) => Self::Json,
            _ => Self::Text,
        }
    }
}

/// Whether a file is an array whose first element is a record with a text. Any other JSON may be a text itself, one
/// that was written under a schema.
fn holds_records(path: &Path, fields: &Fields) -> bool {
    // What is read of a pipe would be gone.
    if !path.metadata().is_ok_and(|about| about.is_file()) {
        return false;
    }
    let Ok((input, _)) = text::open(path) else { return false };
    json::is_array_of_records(BufReader::with_capacity(64 << 10, Decoder::new(input)), fields)
}

/// Where texts come from.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    /// Whether it was named, and not found in a folder.
    named: bool,
}

/// The sources that some paths name: files and standard input as they are, in `format` where it is given, and folders
/// with all files of texts in them, in order of their names.
pub(crate) fn sources(paths: &[PathBuf], format: Option<Format>, fields: &Fields) -> Result<Vec<Source>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            walk(path, fields, &mut found, 0)?;
            if found.len() == before {
                return Err(Failure::Usage(format!(
                    "{} holds no .txt, .md, .text, .jsonl or .parquet file",
                    path.display()
                )));
            }
        } else {
            let format = format.unwrap_or_else(|| Format::of(path, fields));
            found.push(Source { format, path: path.clone(), named: true });
        }
    }
    if found.iter().filter(|source| text::is_stdin(&source.path)).count() > 1 {
        return Err(Failure::Usage("- is given twice, but standard input can be read once".into()));
    }
    Ok(found)
}

/// Files with texts in a folder and the folders in it.
fn walk(folder: &Path, fields: &Fields, found: &mut Vec<Source>, depth: usize) -> Result<(), Failure> {
    let open = |source| Failure::Open { path: folder.into(), source };
    if depth > 64 {
        return Err(open(io::Error::other("folders are nested more than 64 deep")));
    }
    let entries = folder.read_dir().map_err(open)?.collect::<Result<Vec<_>, _>>().map_err(open)?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // A link could lead in a circle.
        if path.is_dir() && !path.is_symlink() && !hidden {
            walk(&path, fields, found, depth + 1)?;
        } else if !hidden && ["txt", "md", "text", "jsonl", "ndjson", "parquet"].contains(&&*extension(&path)) {
            found.push(Source { format: Format::of(&path, fields), path, named: false });
        }
    }
    Ok(())
}

fn extension(path: &Path) -> String {
    path.extension().and_then(|kind| kind.to_str()).unwrap_or_default().to_ascii_lowercase()
}

impl Source {
    /// Its size, where that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        let about = fs::metadata(&self.path).ok()?;
        (about.is_file() && !text::is_stdin(&self.path)).then_some(about.len())
    }

    /// Its texts; `bar` is told of what was read. A fault of one text is that text's; a fault of the file ends it with
    /// one more faulty document. With `cut` a long text is its beginning.
    pub(crate) fn documents(self, fields: &Fields, cut: bool, bar: &ProgressBar) -> Box<dyn Iterator<Item = Document>> {
        let name = text::name(&self.path);
        let one = |document| Box::new(std::iter::once(document));
        // Nobody may ever write into a pipe that happens to lie there.
        if !self.named && self.path.metadata().is_ok_and(|about| !about.is_file()) {
            return one(Document::faulty(name, "it is not a file, but a pipe or a device: those are read when named"));
        }
        let input = match text::open(&self.path) {
            Ok((input, _)) => input,
            Err(error) => return one(Document { name, id: None, text: Err(Fault::Open(error)) }),
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

fn read(input: impl Read + Send + 'static, cut: bool) -> Result<Text, Fault> {
    let fault = |error: io::Error| Fault::Text(error.to_string());
    let mut input = Decoder::new(input);
    let mut start = Vec::new();
    input.by_ref().take(MAX_TEXT + 1).read_to_end(&mut start).map_err(fault)?;
    if start.len() as u64 > MAX_TEXT && !cut {
        return Ok(Text::Long(Box::new(Cursor::new(start).chain(input))));
    }
    start.truncate(MAX_TEXT as usize);
    String::from_utf8(start).map(Text::Whole).or_else(|error| {
        // The last character of a text that was cut, for the decoder gives whole ones.
        let valid = error.utf8_error().valid_up_to();
        let mut start = error.into_bytes();
        start.truncate(valid);
        Ok(Text::Whole(String::from_utf8(start).expect("checked up to here")))
    })
}
