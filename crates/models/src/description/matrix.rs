//! Weights as they are stored: part of a file in memory.

use std::ops::Range;
use std::sync::Arc;

use verdigris_kernels::{Bytes, Format, Weights};

/// A matrix of weights, row by row.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    format: Format,
    bytes: Bytes,
    columns: usize,
}

impl Matrix {
    /// `None` if the bytes are not whole rows.
    pub(crate) fn new(format: Format, bytes: Bytes, columns: usize) -> Option<Self> {
        let is_whole = columns > 0
            && columns.is_multiple_of(format.block())
            && bytes.get().len().is_multiple_of(format.bytes(columns));
        is_whole.then_some(Self { format, bytes, columns })
    }

    /// A matrix of these numbers, row by row.
    pub(crate) fn of_numbers(numbers: &[f32], columns: usize) -> Self {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Self::new(Format::F32, Bytes::new(Arc::new(bytes)), columns).expect("whole rows")
    }

    pub(crate) fn weights(&self) -> Weights<'_> {
        Weights::new(self.format, self.bytes.get(), self.columns)
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// All bytes, as they are stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get()
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn rows(&self) -> usize {
        self.weights().rows()
    }

    /// Some of its rows, without copying.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        let row = self.format.bytes(self.columns);
        let bytes = self.bytes.part(rows.start * row..rows.end * row).expect("rows of the matrix");
        Self { bytes, ..*self }
    }

    /// Some of its columns, copied, since columns in place would touch every page of the file. `None` if they are not
    /// whole blocks.
    pub(crate) fn columns_part(&self, columns: Range<usize>) -> Option<Self> {
        let block = self.format.block();
        if !columns.start.is_multiple_of(block) || !columns.end.is_multiple_of(block) || columns.is_empty() {
            return None;
        }
        let (from, to) = (self.format.bytes(columns.start), self.format.bytes(columns.end));
        let rows = self.bytes.get().chunks(self.format.bytes(self.columns));
        let mut bytes = Vec::with_capacity((to - from) * rows.len());
        rows.for_each(|row| bytes.extend_from_slice(&row[from..to]));
        Some(Self { format: self.format, bytes: Bytes::new(Arc::new(bytes)), columns: columns.len() })
    }

    /// Some of its rows in the given order, copied.
    pub(crate) fn gather(&self, rows: impl Iterator<Item = usize>) -> Self {
        let row = self.format.bytes(self.columns);
        let all = self.bytes.get();
        let mut bytes = Vec::new();
        rows.for_each(|i| bytes.extend_from_slice(&all[i * row..(i + 1) * row]));
        Self { bytes: Bytes::new(Arc::new(bytes)), ..*self }
    }

    /// The transposed matrix, copied. Only formats without blocks can be transposed.
    pub(crate) fn transposed(&self) -> Self {
        let size = self.format.block_bytes();
        assert_eq!(self.format.block(), 1, "blocks lie in rows");
        let (rows, columns, from) = (self.rows(), self.columns, self.bytes.get());
        let mut bytes = Vec::with_capacity(from.len());
        for column in 0..columns {
            for row in 0..rows {
                bytes.extend_from_slice(&from[(row * columns + column) * size..][..size]);
            }
        }
        Self { format: self.format, bytes: Bytes::new(Arc::new(bytes)), columns: rows }
    }

    /// All weights as numbers, row by row.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        let mut numbers = vec![0.0; self.rows() * self.columns];
        let weights = self.weights();
        numbers.chunks_mut(self.columns).enumerate().for_each(|(i, row)| weights.decode(i, row));
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_rows() {
        let numbers: Vec<u8> = (0..6).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let matrix = Matrix::new(Format::F32, Bytes::new(Arc::new(numbers)), 2).unwrap();
        assert_eq!(matrix.rows(), 3);
        assert_eq!(matrix.part(1..3).numbers(), [2.0, 3.0, 4.0, 5.0]);
        assert_eq!(matrix.part(1..3).part(1..2).numbers(), [4.0, 5.0]);
        assert_eq!(matrix.gather([2, 0].into_iter()).numbers(), [4.0, 5.0, 0.0, 1.0]);
        assert_eq!(matrix.columns_part(1..2).unwrap().numbers(), [1.0, 3.0, 5.0]);
        assert_eq!(matrix.transposed().numbers(), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        assert!(Matrix::new(Format::F32, matrix.bytes.clone(), 4).is_none());
        assert!(matrix.bytes.part(20..25).is_none());
    }
}
