//! A column of strings in an untrusted Parquet file.

mod budget;
mod delta;
mod guarded;
mod header;
mod schema;
mod thrift;
mod varint;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parquet::basic::{Compression, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::Value;

use budget::{Budget, MOST_RATIO, MOST_UNPACKED};

/// The bytes that a row costs in addition to its text. Rows without a text may take no bytes in the file.
const ROW: u64 = 256;

/// The rows of a file, restricted to two columns.
pub(crate) struct Column {
    rows: RowIter<'static>,
    budget: Arc<Budget>,
    /// Whether there was an error, after which nothing must be read.
    ended: bool,
    /// The number of rows that the file declares.
    pub(crate) length: u64,
    text: String,
    id: String,
}

/// One row.
pub(crate) struct Cell {
    /// The value of the id column.
    pub(crate) id: Option<Value>,
    pub(crate) text: Result<String, String>,
}

impl Column {
    /// Opens the column `text` of a file, and the column `id` if it exists.
    ///
    /// # Errors
    /// If it is not a Parquet file, or has no readable column of strings with that name.
    pub(crate) fn open(file: impl ChunkReader + 'static, text: &str, id: &str) -> Result<Self, String> {
        let open = AssertUnwindSafe(|| Self::open_unguarded(file, text, id));
        catch_unwind(open).unwrap_or_else(|_| Err("it cannot be read as Parquet".into()))
    }

    fn open_unguarded(file: impl ChunkReader + 'static, text: &str, id: &str) -> Result<Self, String> {
        let bad = |error: ParquetError| format!("it cannot be read as Parquet: {error}");
        let budget = Arc::new(Budget::new(file.len()));
        let reader = guarded::File::new(file, budget.clone()).map_err(bad)?;
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
        Ok(Self { rows, budget, ended: false, length, text: text.into(), id: id.into() })
    }
}

/// Yields rows up to the first error.
impl Iterator for Column {
    type Item = Result<Cell, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        // The library has assertions that damaged files violate.
        let row = match catch_unwind(AssertUnwindSafe(|| self.rows.next())) {
            Ok(row) => row?.map_err(|error| format!("the file is damaged: {error}")),
            Err(_) => Err("the file is damaged".into()),
        };
        let cell = row.map(|row| {
            let cell = |column: &str| row_field(&row, column);
            let id = (self.id != self.text).then(|| cell(&self.id)).flatten().and_then(id);
            Cell { id, text: string(cell(&self.text), &self.text) }
        });
        // A text that many rows share is in the file only once.
        let cell = cell.and_then(|cell| {
            let text = cell.text.as_ref().map_or(0, |text| text.len() as u64);
            self.budget.take(ROW + text).map_err(|error| format!("the file is damaged: {error}"))?;
            Ok(cell)
        });
        self.ended = cell.is_err();
        Some(cell)
    }
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
            "the column {name:?} is compressed with {codec}, which is not supported: write the file with zstd, snappy, \
             gzip, lz4 or no compression"
        ));
    }
    let size = |bytes: i64| bytes.max(0) as u64;
    let (packed, unpacked) = (size(chunk.compressed_size()).max(1), size(chunk.uncompressed_size()));
    if unpacked > MOST_UNPACKED && unpacked / packed > MOST_RATIO {
        return Err(format!(
            "{packed} bytes of the column {name:?} would unpack to {} MiB: that is not text",
            unpacked >> 20
        ));
    }
    Ok(())
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
