//! Verdicts on many texts as a table: the list of its columns.

use crate::verdict::Verdict;

/// The result for one row of a table of texts.
#[derive(Clone, Debug)]
pub enum VerdictRow<'a> {
    /// The row has no text.
    Missing,
    /// The text was judged.
    Judged(Box<Verdict<'a>>),
    /// The text could not be judged, for this reason.
    Fault(String),
}

impl<'a> VerdictRow<'a> {
    /// The verdict, if the text was judged.
    pub fn verdict(&self) -> Option<&Verdict<'a>> {
        match self {
            Self::Judged(verdict) => Some(verdict),
            Self::Missing | Self::Fault(_) => None,
        }
    }
}

/// The value of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// Yes or no.
    Bool(bool),
    /// A payload.
    U32(u32),
    /// A count.
    U64(u64),
    /// A number.
    F64(f64),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Value::Text`].
    Text,
    /// [`Value::Bool`].
    Bool,
    /// [`Value::U32`].
    U32,
    /// [`Value::U64`].
    U64,
    /// [`Value::F64`].
    F64,
}

/// A column of the table.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its cells.
    pub kind: Kind,
    cell: for<'a> fn(&'a Verdict<'_>) -> Option<Value<'a>>,
}

impl Column {
    /// The index of a column of this name.
    ///
    /// # Panics
    /// If there is none.
    pub fn index(name: &str) -> usize {
        COLUMNS.iter().position(|column| column.name == name).unwrap_or_else(|| panic!("{name} is not a column"))
    }

    /// Returns the cell of a row; `None` is null. All cells are null for a row without a text. For a text that could
    /// not be judged all are null except `verdict`, which is `error`, and `error`, which holds the reason.
    pub fn cell<'a>(&self, row: &'a VerdictRow<'_>) -> Option<Value<'a>> {
        match (row, self.name) {
            (VerdictRow::Judged(verdict), _) => (self.cell)(verdict),
            (VerdictRow::Fault(_), "verdict") => Some(Value::Text("error")),
            (VerdictRow::Fault(fault), "error") => Some(Value::Text(fault)),
            (VerdictRow::Fault(_) | VerdictRow::Missing, _) => None,
        }
    }
}

macro_rules! columns {
    ($($name:ident: $kind:ident = $cell:expr;)*) => {
        &[$(Column {
            name: stringify!($name),
            kind: Kind::$kind,
            cell: $cell,
        }),*]
    };
}

/// The columns of a table of verdicts, in order. All are nullable.
pub const COLUMNS: &[Column] = columns! {
    verdict: Text = |verdict| Some(Value::Text(verdict.verdict.name()));
    marked: Bool = |verdict| Some(Value::Bool(verdict.marked));
    p: F64 = |verdict| Some(Value::F64(verdict.p));
    log10_p: F64 = |verdict| Some(Value::F64(verdict.log10_p));
    z: F64 = |verdict| Some(Value::F64(verdict.z));
    tokens: U64 = |verdict| Some(Value::U64(verdict.tokens));
    scored: U64 = |verdict| Some(Value::U64(verdict.scored));
    score: F64 = |verdict| Some(Value::F64(verdict.score));
    expected: F64 = |verdict| Some(Value::F64(verdict.expected));
    looks: F64 = |verdict| Some(Value::F64(verdict.looks));
    sampled: F64 = |verdict| Some(Value::F64(verdict.sampled));
    key_id: Text = |verdict| Some(Value::Text(&verdict.key_id));
    dialect: Text = |verdict| Some(Value::Text(verdict.dialect));
    payload: U32 = |verdict| verdict.payload.map(Value::U32);
    doubt: F64 = |verdict| verdict.doubt.map(Value::F64);
    error: Text = |verdict| verdict.error.as_deref().map(Value::Text);
};
