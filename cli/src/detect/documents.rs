//! Texts out of files, folders, JSON lines and Parquet, one after the other.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use verdigris::text::ReadError;

use crate::error::Failure;

/// No text of a batch is longer than this.
pub(crate) const MAX_TEXT: u64 = 16 << 20;

/// A text with a name, or why it could not be had.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: Result<String, String>,
}

/// Where texts come from.
pub(crate) enum Source {
    Text(PathBuf),
    JsonLines(PathBuf),
    Parquet(PathBuf),
}

/// The sources that some paths name: files as they are, folders with all text files in them, in order of their names.
pub(crate) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            walk(path, &mut found, 0)?;
            if found.len() == before {
                return Err(Failure::Usage(format!(
                    "{} holds no .txt, .md, .text, .jsonl or .parquet file",
                    path.display()
                )));
            }
        } else {
            found.push(path.clone());
        }
    }
    Ok(found.into_iter().map(Source::of).collect())
}

/// Files with texts in a folder and the folders in it.
fn walk(folder: &Path, found: &mut Vec<PathBuf>, depth: usize) -> Result<(), Failure> {
    let open = |source| Failure::Open { path: folder.into(), source };
    if depth > 64 {
        return Err(open(std::io::Error::other("folders are nested more than 64 deep")));
    }
    let entries = folder.read_dir().map_err(open)?.collect::<Result<Vec<_>, _>>().map_err(open)?;
    let mut paths: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // A link could lead in a circle.
        if path.is_dir() && !path.is_symlink() && !hidden {
            walk(&path, found, depth + 1)?;
        } else if !hidden && ["txt", "md", "text", "jsonl", "ndjson", "parquet"].contains(&&*extension(&path)) {
            found.push(path);
        }
    }
    Ok(())
}

fn extension(path: &Path) -> String {
    path.extension().and_then(|kind| kind.to_str()).unwrap_or_default().to_ascii_lowercase()
}

impl Source {
    pub(super) fn of(path: PathBuf) -> Self {
        match &*extension(&path) {
            "jsonl" | "ndjson" => Self::JsonLines(path),
            "parquet" => Self::Parquet(path),
            _ => Self::Text(path),
        }
    }

    /// Its texts. A fault of one text is that text's; a fault of the file ends it with one more faulty document.
    pub(crate) fn documents(self, column: &str) -> Box<dyn Iterator<Item = Document>> {
        match self {
            Self::Text(path) => Box::new(std::iter::once_with(move || {
                let text = read(&path).map_err(|error| error.to_string());
                Document { name: path.display().to_string(), text }
            })),
            Self::JsonLines(path) => match File::open(&path) {
                Ok(file) => Box::new(json_lines(path, BufReader::new(file), column.to_owned())),
                Err(error) => Box::new(std::iter::once(faulty(path.display().to_string(), &error))),
            },
            Self::Parquet(path) => match parquet(&path, column) {
                Ok(documents) => documents,
                Err(error) => Box::new(std::iter::once(faulty(path.display().to_string(), &error))),
            },
        }
    }
}

fn faulty(name: String, fault: &dyn std::fmt::Display) -> Document {
    Document { name, text: Err(fault.to_string()) }
}

fn read(path: &Path) -> Result<String, std::io::Error> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_TEXT + 1).read_to_end(&mut text)?;
    utf8(text).map_err(std::io::Error::other)
}

fn utf8(text: Vec<u8>) -> Result<String, String> {
    if text.len() as u64 > MAX_TEXT {
        return Err(format!("it is longer than {} MiB: detect it by itself", MAX_TEXT >> 20));
    }
    String::from_utf8(text).map_err(|error| ReadError::from(error.utf8_error()).to_string())
}

fn json_lines(path: PathBuf, mut lines: impl BufRead, column: String) -> impl Iterator<Item = Document> {
    let (mut number, mut ended) = (0u64, false);
    std::iter::from_fn(move || {
        while !ended {
            number += 1;
            let name = format!("{}:{number}", path.display());
            let mut line = Vec::new();
            // Room for what escapes take; a line that is longer cannot be passed over in bounded memory.
            match lines.by_ref().take(6 * MAX_TEXT).read_until(b'\n', &mut line) {
                Ok(0) => ended = true,
                Ok(n) if n as u64 == 6 * MAX_TEXT && line.last() != Some(&b'\n') => {
                    ended = true;
                    return Some(faulty(name, &format!("the line is longer than {} MiB", (6 * MAX_TEXT) >> 20)));
                }
                Ok(_) if line.iter().all(u8::is_ascii_whitespace) => {}
                Ok(_) => return Some(Document { name, text: json_text(&line, &column) }),
                Err(error) => {
                    ended = true;
                    return Some(faulty(name, &error));
                }
            }
        }
        None
    })
}

fn json_text(line: &[u8], column: &str) -> Result<String, String> {
    let mut value: serde_json::Value = serde_json::from_slice(line)
        .map_err(|error| format!("the line is not JSON (column {}): {error}", error.column()))?;
    let kind = |value: &serde_json::Value| match value {
        serde_json::Value::Null => "null",
        serde_json::Value::Bool(_) => "true or false",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a string",
        serde_json::Value::Array(_) => "an array",
        serde_json::Value::Object(_) => "an object",
    };
    let Some(object) = value.as_object_mut() else {
        return Err(format!("the line is {}, not an object", kind(&value)));
    };
    match object.get_mut(column).map(serde_json::Value::take) {
        Some(serde_json::Value::String(text)) => utf8(text.into_bytes()),
        Some(other) => Err(format!("the field {column:?} is {}, not a string", kind(&other))),
        None => Err(format!("there is no field {column:?}: name it with --column")),
    }
}

/// The texts of one column.
fn parquet(path: &Path, column: &str) -> Result<Box<dyn Iterator<Item = Document>>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let bad = |error: parquet::errors::ParquetError| format!("it does not read as Parquet: {error}");
    let reader = SerializedFileReader::new(file).map_err(bad)?;
    let schema = reader.metadata().file_metadata().schema();
    let fields = schema.get_fields();
    let Some(field) = fields.iter().find(|field| field.name() == column) else {
        let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
        return Err(format!("there is no column {column:?}, but {}: name one with --column", names.join(", ")));
    };
    let projection = Type::group_type_builder(schema.name()).with_fields(vec![field.clone()]).build().map_err(bad)?;
    let rows = reader.into_iter().project(Some(projection)).map_err(bad)?;
    let (path, column) = (path.display().to_string(), column.to_owned());
    let mut ended = false;
    Ok(Box::new(rows.zip(1u64..).map_while(move |(row, number)| {
        if ended {
            return None;
        }
        let name = format!("{path}:{number}");
        Some(match row {
            Ok(row) => Document { name, text: cell(&row, &column) },
            Err(error) => {
                ended = true;
                faulty(name, &format!("the file is damaged: {error}"))
            }
        })
    })))
}

fn cell(row: &Row, column: &str) -> Result<String, String> {
    match row.get_column_iter().next() {
        Some((_, Field::Str(text))) => utf8(text.clone().into_bytes()),
        Some((_, Field::Bytes(bytes))) => utf8(bytes.data().to_vec()),
        Some((_, Field::Null)) | None => Err(format!("the column {column:?} is empty here")),
        Some(_) => Err(format!("the column {column:?} does not hold strings")),
    }
}
