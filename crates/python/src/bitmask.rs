//! Sets of tokens in the caller's memory, in the layout of xgrammar: token `i` is bit `i % 32` of word `i / 32`. The
//! memory is an array of `int32`, such as numpy's or `tensor.numpy()`, with one row or several.

use pyo3::prelude::*;

use crate::argument::{array, write};
use crate::error;

/// Writes a set of `tokens` tokens into a row, and clears the rest of the row.
pub(crate) fn write_row(
    py: Python<'_>,
    bitmask: &Bound<'_, PyAny>,
    row: usize,
    set: &[u64],
    tokens: usize,
) -> PyResult<()> {
    let buffer = array::<i32>(bitmask, "bitmasks", "int32")?;
    match *buffer.shape() {
        [words] if row == 0 => write(py, &buffer, &packed(set, words, tokens)?),
        [rows, words] if row < rows => {
            // Only this row, as a view of the caller's memory.
            let view = array::<i32>(&bitmask.get_item(row)?, "bitmasks", "int32")?;
            write(py, &view, &packed(set, words, tokens)?)
        }
        [_] => Err(error::argument(format!("there is no row {row} in a bitmask of 1"))),
        [rows, _] => Err(error::argument(format!("there is no row {row} in a bitmask of {rows}"))),
        _ => Err(error::argument("a bitmask has one or two dimensions: one row of words, or several")),
    }
}

/// Writes a set into each row.
pub(crate) fn write_all(py: Python<'_>, bitmask: &Bound<'_, PyAny>, sets: &[Vec<u64>], tokens: usize) -> PyResult<()> {
    let buffer = array::<i32>(bitmask, "bitmasks", "int32")?;
    let &[rows, words] = buffer.shape() else {
        return Err(error::argument("a bitmask of several texts has two dimensions: a row of words for each"));
    };
    if rows != sets.len() {
        return Err(error::argument(format!("there are {} texts, but the bitmask has {rows} rows", sets.len())));
    }
    let mut all = Vec::with_capacity(rows * words);
    for set in sets {
        all.extend(packed(set, words, tokens)?);
    }
    write(py, &buffer, &all)
}

/// A set as `words` words.
fn packed(set: &[u64], words: usize, tokens: usize) -> PyResult<Vec<i32>> {
    let least = tokens.div_ceil(32);
    if words < least {
        return Err(error::argument(format!("a row of {words} words is too short: {tokens} tokens need {least}")));
    }
    let halves = set.iter().flat_map(|&word| [word as i32, (word >> 32) as i32]);
    Ok(halves.chain(std::iter::repeat(0)).take(words).collect())
}
