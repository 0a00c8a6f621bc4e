//! Verdicts on many texts in Arrow format, built in one way for all query engines.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, StringArray, StructArray, UInt32Array, UInt64Array};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};

use crate::columns::{COLUMNS, Column, Kind, Value, VerdictRow};

/// The fields of [`verdicts`]: those of [`COLUMNS`], all nullable.
pub fn verdict_fields() -> Fields {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::Text => DataType::Utf8,
            Kind::Bool => DataType::Boolean,
            Kind::U32 => DataType::UInt32,
            Kind::U64 => DataType::UInt64,
            Kind::F64 => DataType::Float64,
        };
        Field::new(column.name, kind, true)
    };
    COLUMNS.iter().map(field).collect()
}

/// Returns the columns of the rows.
pub fn verdict_columns(rows: &[VerdictRow<'_>]) -> Vec<ArrayRef> {
    fn array<'r, T, A: FromIterator<Option<T>> + Array + 'static>(
        rows: &'r [VerdictRow<'_>],
        column: &Column,
        value: impl Fn(Value<'r>) -> Option<T>,
    ) -> ArrayRef {
        Arc::new(rows.iter().map(|row| column.cell(row).and_then(&value)).collect::<A>())
    }
    let column = |column: &Column| match column.kind {
        Kind::Text => {
            array::<_, StringArray>(rows, column, |cell| if let Value::Text(text) = cell { Some(text) } else { None })
        }
        Kind::Bool => {
            array::<_, BooleanArray>(rows, column, |cell| if let Value::Bool(is) = cell { Some(is) } else { None })
        }
        Kind::U32 => {
            array::<_, UInt32Array>(rows, column, |cell| if let Value::U32(n) = cell { Some(n) } else { None })
        }
        Kind::U64 => {
            array::<_, UInt64Array>(rows, column, |cell| if let Value::U64(n) = cell { Some(n) } else { None })
        }
        Kind::F64 => {
            array::<_, Float64Array>(rows, column, |cell| if let Value::F64(x) = cell { Some(x) } else { None })
        }
    };
    COLUMNS.iter().map(column).collect()
}

/// Returns the verdicts of the rows as a struct of [`verdict_fields`], null for rows without a text.
pub fn verdicts(rows: &[VerdictRow<'_>]) -> StructArray {
    let there: NullBuffer = rows.iter().map(|row| !matches!(row, VerdictRow::Missing)).collect();
    StructArray::new(verdict_fields(), verdict_columns(rows), Some(there))
}
