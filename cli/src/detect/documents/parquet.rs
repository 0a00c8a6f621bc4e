//! Texts in a column of a Parquet file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use indicatif::ProgressBar;
use parquet::basic::{Compression, Type as Physical};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use super::{Document, Fault, Fields, Text, held};
use crate::text;

/// What a column may unpack to, and by how much, before it is taken for a trap.
const MOST_UNPACKED: i64 = 256 << 20;
const MOST_RATIO: i64 = 1000;

/// The texts of one column, named by the numbers of their rows, with what stands in the column of ids.
pub(super) fn rows(
    name: &str,
    path: &Path,
    input: impl Read,
    fields: &Fields,
    bar: ProgressBar,
) -> Result<Box<dyn Iterator<Item = Document>>, String> {
    let file = seekable(path, input).map_err(|error| error.to_string())?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    let bad = |error: parquet::errors::ParquetError| format!("it does not read as Parquet: {error}");
    let reader = SerializedFileReader::new(file).map_err(bad)?;
    let metadata = reader.metadata();
    let schema = metadata.file_metadata().schema();
    let columns = schema.get_fields();
    let column = &fields.text;
    let Some(field) = columns.iter().find(|field| field.name() == *column) else {
        let names: Vec<&str> = columns.iter().map(|field| field.name()).collect();
        return Err(format!("there is no column {column:?}, but {}: name one with --column", names.join(", ")));
    };
    if !field.is_primitive() || field.get_physical_type() != Physical::BYTE_ARRAY {
        return Err(format!("the column {column:?} does not hold strings"));
    }
    let wanted = |name: &str, primitive: bool| name == column || (name == fields.id && primitive);
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        if matches!(chunk.column_path().parts(), [name] if wanted(name, true)) {
            readable(chunk)?;
        }
    }
    let kept = columns.iter().filter(|field| wanted(field.name(), field.is_primitive())).cloned().collect();
    let projection = Type::group_type_builder(schema.name()).with_fields(kept).build().map_err(bad)?;
    let share = size.checked_div(metadata.file_metadata().num_rows().max(0) as u64).unwrap_or(0);
    let rows = reader.into_iter().project(Some(projection)).map_err(bad)?;
    let (name, fields) = (name.to_owned(), fields.clone());
    let mut ended = false;
    Ok(Box::new(rows.zip(1u64..).map_while(move |(row, number)| {
        if ended {
            return None;
        }
        bar.inc(share);
        let name = format!("{name}:{number}");
        Some(match row {
            Ok(row) => document(name, &row, &fields),
            Err(error) => {
                ended = true;
                Document::faulty(name, format!("the file is damaged: {error}"))
            }
        })
    })))
}

/// Parquet is read from its end: what comes through a pipe goes into a file first.
fn seekable(path: &Path, mut input: impl Read) -> io::Result<File> {
    if !text::is_stdin(path) && path.metadata()?.is_file() {
        return File::open(path);
    }
    let mut file = tempfile::tempfile()?;
    io::copy(&mut input, &mut file)?;
    file.rewind()?;
    Ok(file)
}

fn readable(chunk: &ColumnChunkMetaData) -> Result<(), String> {
    let name = chunk.column_path().string();
    let codec = match chunk.compression() {
        Compression::BROTLI(_) => Some("Brotli"),
        Compression::LZO => Some("LZO"),
        _ => None,
    };
    if let Some(codec) = codec {
        return Err(format!(
            "the column {name:?} is compressed with {codec}, which is not supported: write the file with zstd, snappy, gzip, lz4 or nothing"
        ));
    }
    let (packed, unpacked) = (chunk.compressed_size().max(1), chunk.uncompressed_size());
    if unpacked > MOST_UNPACKED && unpacked / packed > MOST_RATIO {
        return Err(format!(
            "{packed} bytes of the column {name:?} would unpack to {} MiB: that is no text",
            unpacked >> 20
        ));
    }
    Ok(())
}

fn document(name: String, row: &Row, fields: &Fields) -> Document {
    let cell = |column: &str| row.get_column_iter().find(|(name, _)| *name == column).map(|(_, field)| field);
    let id = (fields.id != fields.text).then(|| cell(&fields.id)).flatten().and_then(|field| match field {
        Field::Str(id) => Some(Value::from(id.as_str())),
        Field::Byte(id) => Some(Value::from(*id)),
        Field::Short(id) => Some(Value::from(*id)),
        Field::Int(id) => Some(Value::from(*id)),
        Field::Long(id) => Some(Value::from(*id)),
        Field::UByte(id) => Some(Value::from(*id)),
        Field::UShort(id) => Some(Value::from(*id)),
        Field::UInt(id) => Some(Value::from(*id)),
        Field::ULong(id) => Some(Value::from(*id)),
        _ => None,
    });
    let column = &fields.text;
    Document { name, id, text: read(cell(column), column) }
}

fn read(cell: Option<&Field>, column: &str) -> Result<Text, Fault> {
    match cell {
        Some(Field::Str(text)) => held(text.clone()),
        Some(Field::Bytes(bytes)) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => held(text.to_owned()),
            Err(error) => Err(Fault::Text(format!("byte {} is not valid UTF-8", error.valid_up_to()))),
        },
        Some(Field::Null) | None => Err(Fault::Text(format!("the column {column:?} is empty here"))),
        Some(_) => Err(Fault::Text(format!("the column {column:?} does not hold strings"))),
    }
}
