//! A column of texts in any layout, read without copying.

use std::str;

use datafusion::arrow::array::{
    Array, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use datafusion::arrow::datatypes::DataType;

use crate::error::JudgeError;

/// A cell of a binary column that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not UTF-8 at byte {0}: convert it first")]
pub(crate) struct NotUtf8(usize);

/// Texts by row.
pub(crate) struct TextArray<'a> {
    rows: &'a dyn Array,
    values: TextValues<'a>,
}

/// The texts of the rows that are not null.
enum TextValues<'a> {
    /// There are none.
    Null,
    Short(&'a StringArray),
    Long(&'a LargeStringArray),
    View(&'a StringViewArray),
    /// Bytes, as old writers of Parquet store texts.
    Bytes(&'a BinaryArray),
    LongBytes(&'a LargeBinaryArray),
    BytesView(&'a BinaryViewArray),
    Dictionary {
        keys: Vec<usize>,
        values: Box<TextArray<'a>>,
    },
}

impl<'a> TextArray<'a> {
    /// Reads a column; `asked` is the name of the calling function.
    pub(crate) fn of(column: &'a dyn Array, asked: &str) -> Result<Self, JudgeError> {
        let values = match column.data_type() {
            DataType::Null => TextValues::Null,
            DataType::Utf8 => TextValues::Short(column.as_string()),
            DataType::LargeUtf8 => TextValues::Long(column.as_string()),
            DataType::Utf8View => TextValues::View(column.as_string_view()),
            DataType::Binary => TextValues::Bytes(column.as_binary()),
            DataType::LargeBinary => TextValues::LongBytes(column.as_binary()),
            DataType::BinaryView => TextValues::BytesView(column.as_binary_view()),
            DataType::Dictionary(_, values) if is_text(values) => {
                let dictionary = column.as_any_dictionary();
                let values = Box::new(Self::of(&**dictionary.values(), asked)?);
                // A column of only nulls has no values, and then no valid keys.
                let keys = if values.len() == 0 { vec![0; column.len()] } else { dictionary.normalized_keys() };
                TextValues::Dictionary { keys, values }
            }
            kind => return Err(JudgeError::NotText { function: asked.to_owned(), kind: kind.clone() }),
        };
        Ok(Self { rows: column, values })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The text of a row, if it has one.
    pub(crate) fn get(&self, row: usize) -> Option<Result<&str, NotUtf8>> {
        let utf8 = |bytes| str::from_utf8(bytes).map_err(|error| NotUtf8(error.valid_up_to()));
        if self.rows.is_null(row) {
            return None;
        }
        match &self.values {
            TextValues::Null => None,
            TextValues::Short(texts) => Some(Ok(texts.value(row))),
            TextValues::Long(texts) => Some(Ok(texts.value(row))),
            TextValues::View(texts) => Some(Ok(texts.value(row))),
            TextValues::Bytes(texts) => Some(utf8(texts.value(row))),
            TextValues::LongBytes(texts) => Some(utf8(texts.value(row))),
            TextValues::BytesView(texts) => Some(utf8(texts.value(row))),
            TextValues::Dictionary { keys, values } => values.get(keys[row]),
        }
    }
}

/// Whether columns of a type can contain texts.
fn is_text(kind: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Null, Utf8, Utf8View};
    match kind {
        Null | Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Checks that columns of a type can contain texts; `asked` is the name of the calling function.
///
/// # Errors
/// [`JudgeError::NotText`].
pub fn check_text(kind: &DataType, asked: &str) -> Result<(), JudgeError> {
    match is_text(kind) {
        true => Ok(()),
        false => Err(JudgeError::NotText { function: asked.to_owned(), kind: kind.clone() }),
    }
}

/// Returns the total length of the texts of a column, in bytes.
///
/// # Errors
/// [`JudgeError::NotText`] if it does not contain texts.
pub fn text_bytes(column: &dyn Array) -> Result<usize, JudgeError> {
    let texts = TextArray::of(column, "this")?;
    Ok((0..texts.len()).filter_map(|row| texts.get(row)?.ok()).map(str::len).sum())
}

/// Checks that the arguments are texts and key ids.
pub(crate) fn check(function: &str, arguments: &[DataType]) -> Result<(), JudgeError> {
    let [text, id] = arguments else { return Ok(()) };
    check_text(text, function)?;
    if !is_text(id) {
        return Err(JudgeError::NotAnId { function: function.to_owned(), kind: id.clone() });
    }
    Ok(())
}
