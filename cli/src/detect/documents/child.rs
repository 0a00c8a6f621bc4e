//! The child process that reads a Parquet file for the program.
//!
//! The `parquet` library allocates what a file says before it reads the data, recurses as deep as its schema, and has
//! assertions that damaged files violate. In a process of its own, with limits on memory and time, none of these ends
//! the program or takes its memory.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::column::{Cell, Column};

/// The first argument of the child. Two more follow: the column of the texts and that of the ids. The file is its
/// standard input.
pub(crate) const READ_PARQUET: &str = "read-parquet";

/// The most memory of the child, in bytes.
pub(super) const MEMORY: u64 = 1 << 30;

/// The most processor time of the child for a file of `size` bytes, in seconds: more than any text of the length that
/// such a file may have needs.
pub(super) fn seconds(size: u64) -> u64 {
    4 + (size >> 15)
}

/// The head of a record: a line of JSON. The bytes of a text or of a reason follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) kind: Kind,
    /// The id of the row.
    pub(super) id: Option<Value>,
    /// The bytes of the file that the row takes on average.
    pub(super) share: u64,
    /// The number of bytes that follow.
    length: usize,
}

/// The kind of a record, and of the bytes after its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// The text of a row.
    Text,
    /// The reason why a row has no text.
    NoText,
    /// The reason why the file cannot be read from a row on. No record follows.
    Damaged,
    /// The reason why the file cannot be read. No record follows.
    Refused,
}

/// Writes the rows of the Parquet file that is the standard input to standard output, as records. The status says
/// whether they are all there.
pub(crate) fn read_parquet(text: &str, id: &str) -> ExitCode {
    // The status is enough: a panic is a fault of the file.
    std::panic::set_hook(Box::new(|_| {}));
    match write_rows(text, id, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The parent has closed the pipe.
        Err(_) => ExitCode::FAILURE,
    }
}

fn write_rows(text: &str, id: &str, out: &mut impl Write) -> io::Result<()> {
    let file = standard_input()?;
    let size = file.metadata()?.len();
    limit(size);
    let column = match Column::open(file, size, text, id) {
        Ok(column) => column,
        Err(fault) => return write_record(out, Kind::Refused, None, 0, &fault),
    };
    let share = size.checked_div(column.length).unwrap_or(0);
    for cell in column {
        match cell {
            Ok(Cell { id, text: Ok(text) }) => write_record(out, Kind::Text, id, share, &text)?,
            Ok(Cell { id, text: Err(fault) }) => write_record(out, Kind::NoText, id, share, &fault)?,
            Err(fault) => write_record(out, Kind::Damaged, None, share, &fault)?,
        }
    }
    Ok(())
}

/// Standard input, which is a file.
fn standard_input() -> io::Result<File> {
    #[cfg(unix)]
    let input = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    #[cfg(windows)]
    let input = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned()?;
    Ok(input.into())
}

/// Limits the memory and the processor time of this process, which leaves no core dump when it exceeds them.
#[cfg(unix)]
fn limit(size: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    for (resource, most) in [(Resource::As, MEMORY), (Resource::Cpu, seconds(size)), (Resource::Core, 0)] {
        let Rlimit { current, maximum } = getrlimit(resource);
        let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
        // Linux never refuses a lower limit. Other systems may refuse one of memory, and the file is read without it.
        _ = setrlimit(resource, Rlimit { current: lower(current), maximum: lower(maximum) });
    }
}

/// Other systems have no such limits: there a process of its own only saves the program from panics and overflows.
#[cfg(not(unix))]
fn limit(_size: u64) {}

/// Writes a record at once, so that it is not lost if the next row ends the process.
fn write_record(out: &mut impl Write, kind: Kind, id: Option<Value>, share: u64, text: &str) -> io::Result<()> {
    let mut record = serde_json::to_vec(&Head { kind, id, share, length: text.len() })?;
    record.push(b'\n');
    record.extend_from_slice(text.as_bytes());
    out.write_all(&record)?;
    out.flush()
}

/// Reads the next record; `None` at the end.
///
/// # Errors
/// If the record is cut short.
pub(super) fn read_record(input: &mut impl BufRead) -> io::Result<Option<(Head, String)>> {
    let mut head = Vec::new();
    if input.read_until(b'\n', &mut head)? == 0 {
        return Ok(None);
    }
    let head: Head = serde_json::from_slice(&head)?;
    let mut text = vec![0; head.length];
    input.read_exact(&mut text)?;
    Ok(Some((head, String::from_utf8(text).map_err(io::Error::other)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written_or_not_at_all() {
        let records = [
            (Kind::Text, Some(Value::from(7)), 3, "a \"dark\"\nnight\n"),
            (Kind::NoText, Some("x\ny".into()), 3, "none"),
        ];
        let mut bytes = Vec::new();
        for (kind, id, share, text) in records.clone() {
            write_record(&mut bytes, kind, id, share, text).unwrap();
        }
        let mut input = &bytes[..];
        let mut ends = vec![0];
        for (kind, id, share, text) in records {
            let (head, read) = read_record(&mut input).unwrap().unwrap();
            assert_eq!((head.kind, head.id, head.share, &*read), (kind, id, share, text));
            ends.push(bytes.len() - input.len());
        }
        assert!(read_record(&mut input).unwrap().is_none());
        for end in 0..bytes.len() {
            let start = *ends.iter().rfind(|&&start| start <= end).unwrap();
            // At the end of a record there is none; within one, an error.
            let ended = read_record(&mut &bytes[start..end]).map(|record| record.is_none());
            assert_eq!(ended.ok(), (start == end).then_some(true), "{start}..{end}");
        }
    }
}
