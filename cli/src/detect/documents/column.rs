//! A column of strings in a Parquet file, as the `parquet` library reads it. A damaged file can make the library panic,
//! and a small one can make it allocate gigabytes, so that only the [`child`](super::child) reads columns.

use std::fs::File;

use parquet::basic::{Compression, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use super::document::of_record;

/// The bytes that the rows of a file may take, in addition to [`MOST_RATIO`] times its length.
const MOST_UNPACKED: u64 = 256 << 20;
const MOST_RATIO: u64 = 1000;

/// The bytes that a row costs in addition to its text. Rows without a text may take no bytes in the file.
const ROW: u64 = 256;

/// The rows of a file, restricted to two columns.
pub(super) struct Column {
    rows: RowIter<'static>,
    /// The bytes that the next rows may take.
    left: u64,
    /// Whether there was an error, after which nothing must be read.
    ended: bool,
    /// The number of rows that the file declares.
    pub(super) length: u64,
    text: String,
    id: String,
}

/// One row.
pub(super) struct Cell {
    /// The value of the id column.
    pub(super) id: Option<Value>,
    pub(super) text: Result<String, String>,
}

impl Column {
    /// Opens the column `text` of a file of `size` bytes, and the column `id` if it exists.
    ///
    /// # Errors
    /// If it is not a Parquet file, or has no readable column of strings with that name.
    pub(super) fn open(file: File, size: u64, text: &str, id: &str) -> Result<Self, String> {
        let bad = |error: ParquetError| format!("it cannot be read as Parquet: {error}");
        let reader = SerializedFileReader::new(file).map_err(bad)?;
        let metadata = reader.metadata();
        let schema = metadata.file_metadata().schema();
        let columns = schema.get_fields();
        let Some(field) = columns.iter().find(|field| field.name() == text) else {
            let names: Vec<&str> = columns.iter().map(|field| field.name()).collect();
            return Err(format!("there is no column {text:?}, only {}: choose one with --column", names.join(", ")));
        };
        if !field.is_primitive() || field.get_physical_type() != Physical::BYTE_ARRAY {
            return Err(format!("the column {text:?} does not hold strings"));
        }
        let wanted = |name: &str, primitive: bool| name == text || (name == id && primitive);
        for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
            if matches!(chunk.column_path().parts(), [name] if wanted(name, true)) {
                readable(chunk)?;
            }
        }
        let kept = columns.iter().filter(|field| wanted(field.name(), field.is_primitive())).cloned().collect();
        let projection = Type::group_type_builder(schema.name()).with_fields(kept).build().map_err(bad)?;
        let length = metadata.file_metadata().num_rows().max(0) as u64;
        let rows = RowIter::from_file_into(Box::new(reader)).project(Some(projection)).map_err(bad)?;
        // One at a time, since strings with shared prefixes grow when they are unpacked.
        let rows = rows.with_batch_size(1);
        let left = MOST_UNPACKED.saturating_add(size.saturating_mul(MOST_RATIO));
        Ok(Self { rows, left, ended: false, length, text: text.into(), id: id.into() })
    }

    /// The cells of a row.
    ///
    /// # Errors
    /// If the rows of the file take too many bytes.
    fn cell(&mut self, row: &Row) -> Result<Cell, String> {
        let id = (self.id != self.text).then(|| row_field(row, &self.id)).flatten().and_then(id);
        let text = string(row_field(row, &self.text), &self.text);
        // A text that many rows share is in the file only once.
        let bytes = ROW + text.as_ref().map_or(0, |text| text.len() as u64);
        let Some(left) = self.left.checked_sub(bytes) else {
            return Err("the file is damaged: it unpacks to far more than it could hold: that is not text".into());
        };
        self.left = left;
        Ok(Cell { id, text: text.and_then(of_record) })
    }
}

/// Yields rows up to the first error.
impl Iterator for Column {
    type Item = Result<Cell, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.rows.next()?.map_err(|error| format!("the file is damaged: {error}"));
        let cell = row.and_then(|row| self.cell(&row));
        self.ended = cell.is_err();
        Some(cell)
    }
}

fn readable(chunk: &ColumnChunkMetaData) -> Result<(), String> {
    let codec = match chunk.compression() {
        Compression::BROTLI(_) => "Brotli",
        Compression::LZO => "LZO",
        _ => return Ok(()),
    };
    Err(format!(
        "the column {:?} is compressed with {codec}, which is not supported: write the file with zstd, snappy, gzip, \
         lz4 or no compression",
        chunk.column_path().string()
    ))
}

fn row_field<'r>(row: &'r Row, column: &str) -> Option<&'r Field> {
    row.get_column_iter().find(|(name, _)| *name == column).map(|(_, field)| field)
}

fn id(field: &Field) -> Option<Value> {
    match field {
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
    }
}

fn string(field: Option<&Field>, column: &str) -> Result<String, String> {
    match field {
        Some(Field::Str(text)) => Ok(text.clone()),
        Some(Field::Bytes(bytes)) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(format!("byte {} is not valid UTF-8", error.valid_up_to())),
        },
        Some(Field::Null) | None => Err(format!("the column {column:?} is empty here")),
        Some(_) => Err(format!("the column {column:?} does not hold strings")),
    }
}
