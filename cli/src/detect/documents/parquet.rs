//! Texts in a column of a Parquet file, which a child process reads ([`child`](super::child)).

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use indicatif::ProgressBar;

use super::child::{Kind, MEMORY, READ_PARQUET, read_record, seconds};
use super::document::{Document, DocumentError, DocumentText, Fields};
use crate::text;

/// The texts of one column, named by row number, with the values of the id column.
pub(super) fn rows(
    name: &str,
    path: &Path,
    input: impl Read,
    fields: &Fields,
    bar: ProgressBar,
) -> Result<Box<dyn Iterator<Item = Document>>, String> {
    let file = seekable(path, input).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let cannot_start = |error: io::Error| format!("the program cannot start itself to read Parquet: {error}");
    let mut reader = Reader::start(file, fields).map_err(cannot_start)?;
    let output = reader.0.stdout.take().expect("it is a pipe");
    let mut output = BufReader::with_capacity(64 << 10, output);
    let name = name.to_owned();
    let (mut number, mut ended) = (0u64, false);
    Ok(Box::new(std::iter::from_fn(move || {
        if ended {
            return None;
        }
        number += 1;
        let row = format!("{name}:{number}");
        let record = read_record(&mut output);
        if let Ok(Some((head, text))) = record {
            bar.inc(head.share);
            return Some(match head.kind {
                Kind::Text => Document { name: row, id: head.id, text: Ok(DocumentText::Whole(text)) },
                Kind::NoText => Document { name: row, id: head.id, text: Err(DocumentError::Text(text)) },
                Kind::Damaged => Document::faulty(row, text),
                Kind::Refused => Document::faulty(name.clone(), text),
            });
        }
        ended = true;
        let whole = record.is_ok() && reader.succeeds();
        (!whole).then(|| Document::faulty(row, broken(size)))
    })))
}

/// The reason why the child that read a file of `size` bytes has ended early.
fn broken(size: u64) -> String {
    format!(
        "the file is damaged, or reading it takes more than {} GiB of memory or {} s of processor time: write it again \
         with smaller pages",
        MEMORY >> 30,
        seconds(size)
    )
}

/// A child that reads a Parquet file. It ends when this is dropped.
struct Reader(Child);

impl Reader {
    /// Starts this program again, with a file as its standard input.
    fn start(file: File, fields: &Fields) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([READ_PARQUET, fields.text.as_str(), fields.id.as_str()]);
        // The message of an allocation that failed is not for the user.
        command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    /// Waits for the end of the child, and returns whether it has read the whole file.
    fn succeeds(&mut self) -> bool {
        self.0.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Makes the input seekable, since Parquet is read from its end: a pipe is first copied to a temporary file.
fn seekable(path: &Path, mut input: impl Read) -> io::Result<File> {
    if !text::is_stdin(path) && path.metadata()?.is_file() {
        return File::open(path);
    }
    let mut file = tempfile::tempfile()?;
    io::copy(&mut input, &mut file)?;
    file.rewind()?;
    Ok(file)
}
