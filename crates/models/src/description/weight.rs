//! A matrix as a decoder uses it: as it is stored, with an adapter's change.

#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
use verdigris_kernels::Bytes;
use verdigris_kernels::{Format, linear};

use super::adapter::update::Update;
use super::matrix::Matrix;

/// A matrix, and an adapter's change of it.
#[derive(Clone, Debug)]
pub(crate) struct Weight {
    matrix: Matrix,
    update: Option<Arc<Update>>,
}

impl From<Matrix> for Weight {
    fn from(matrix: Matrix) -> Self {
        Self { matrix, update: None }
    }
}

impl Weight {
    /// A matrix with a change.
    pub(crate) fn updated(matrix: Matrix, update: Update) -> Self {
        Self { matrix, update: Some(Arc::new(update)) }
    }

    /// The matrix as it is stored.
    pub(crate) fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Its change.
    pub(crate) fn update(&self) -> Option<&Update> {
        self.update.as_deref()
    }

    pub(crate) fn rows(&self) -> usize {
        self.matrix.rows()
    }

    /// The format that the matrix is stored in.
    pub(crate) fn format(&self) -> Format {
        self.matrix.format()
    }

    pub(crate) fn columns(&self) -> usize {
        self.matrix.columns()
    }

    /// `out = x * self^T`, like [`linear`].
    pub(crate) fn product(&self, x: &[f32], out: &mut [f32]) {
        linear(x, self.matrix.weights(), out);
        if let Some(update) = &self.update {
            update.add_product(x, out);
        }
    }

    /// Writes row `i` as numbers.
    pub(crate) fn decode(&self, i: usize, out: &mut [f32]) {
        self.matrix.weights().decode(i, out);
        if let Some(update) = &self.update {
            update.change(i..i + 1, out);
        }
    }

    /// Whether both are the same weights in memory, with the same change.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let updates = [self, other].map(|weight| weight.update.as_ref().map(Arc::as_ptr));
        std::ptr::eq(self.matrix.bytes(), other.matrix.bytes()) && updates[0] == updates[1]
    }

    /// Some of its rows, without copying.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        let update = self.update.as_ref().map(|update| Arc::new(update.part(rows.clone())));
        Self { matrix: self.matrix.part(rows), update }
    }

    /// Some of its columns, copied: the products with all parts add up to that with the whole. `None` if they are not
    /// whole blocks.
    pub(crate) fn columns_part(&self, columns: Range<usize>) -> Option<Self> {
        let matrix = self.matrix.columns_part(columns.clone())?;
        let update = match &self.update {
            Some(update) => Some(Arc::new(update.columns_part(columns)?)),
            None => None,
        };
        Some(Self { matrix, update })
    }

    /// Some of its rows in the given order, copied.
    pub(crate) fn gather(&self, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let update = self.update.as_ref().map(|update| Arc::new(update.gather(rows.clone())));
        Self { matrix: self.matrix.gather(rows), update }
    }

    /// The transposed matrix, copied, with an adapter's change in it (in single precision then). `None` if it is stored
    /// in blocks, which lie in rows.
    pub(crate) fn transposed(&self) -> Option<Self> {
        if self.format().block() > 1 {
            return None;
        }
        let Some(update) = &self.update else { return Some(self.matrix.transposed().into()) };
        let mut numbers = self.matrix.numbers();
        update.change(0..self.rows(), &mut numbers);
        Some(Matrix::of_numbers(&numbers, self.columns()).transposed().into())
    }

    /// The changed matrix as a plain matrix: in single precision if the weights are, or if half precision would
    /// overflow; otherwise in half precision, which has at least the bits of the weights.
    #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
    pub(crate) fn merged(&self) -> Cow<'_, Matrix> {
        const LARGEST_HALF: f32 = 65504.0;
        let Some(update) = &self.update else { return Cow::Borrowed(&self.matrix) };
        let mut numbers = self.matrix.numbers();
        update.change(0..self.rows(), &mut numbers);
        if self.matrix.format() == Format::F32 || numbers.iter().any(|x| x.abs() > LARGEST_HALF) {
            return Cow::Owned(Matrix::of_numbers(&numbers, self.columns()));
        }
        let mut bytes = vec![0; Format::F16.bytes(numbers.len())];
        Format::F16.encode(&numbers, &mut bytes);
        let merged = Matrix::new(Format::F16, Bytes::new(Arc::new(bytes)), self.columns());
        Cow::Owned(merged.expect("whole rows"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_that_with_the_changed_matrix() {
        let plain = Matrix::of_numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2);
        let up = Matrix::of_numbers(&[1.0, 0.0, 2.0, -1.0, 0.0, 3.0], 2);
        let down = Matrix::of_numbers(&[1.0, 2.0, 0.0, 4.0], 2);
        let lengths = [2.0f32, 3.0, 4.0];
        let update = Update::new(up, down, 0.5).unwrap().with_lengths(&plain, &lengths).unwrap();
        let mut expected = [1.5f32, 3.0, 4.0, 4.0, 5.0, 12.0];
        for (row, length) in expected.chunks_mut(2).zip(lengths) {
            let norm = row[0].hypot(row[1]);
            row.iter_mut().for_each(|x| *x *= length / norm);
        }
        let weight = Weight::updated(plain, update);
        let numbers = |weight: &Weight| {
            let mut numbers = vec![0.0; weight.rows() * 2];
            numbers.chunks_mut(2).enumerate().for_each(|(i, row)| weight.decode(i, row));
            numbers
        };
        let whole = numbers(&weight);
        assert!(whole.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{whole:?}");
        let x = [1.0, -2.0, 3.0, 0.5];
        let mut out = vec![0.0; 6];
        weight.product(&x, &mut out);
        for (got, (x, row)) in out.iter().zip(x.chunks(2).flat_map(|x| expected.chunks(2).map(move |row| (x, row)))) {
            assert!((got - (x[0] * row[0] + x[1] * row[1])).abs() < 1e-5, "{out:?}");
        }
        let mut alone = vec![0.0; 3];
        weight.product(&x[2..], &mut alone);
        assert_eq!(alone, out[3..], "a row beside others has the bits that it has alone");
        // Parts and gathered rows are changed too.
        assert_eq!(numbers(&weight.part(1..3)), whole[2..]);
        let columns = [0..1, 1..2].map(|columns| weight.columns_part(columns).unwrap());
        let mut sums = vec![0.0; 3];
        for (part, x) in columns.iter().zip(&x) {
            let mut out = vec![0.0; 3];
            part.product(&[*x], &mut out);
            sums.iter_mut().zip(out).for_each(|(sum, x)| *sum += x);
        }
        assert!(sums.iter().zip(&out).all(|(a, b)| (a - b).abs() < 1e-5), "{sums:?}, not {:?}", &out[..3]);
        assert_eq!(numbers(&weight.gather([2, 0].into_iter())), [&whole[4..], &whole[..2]].concat());
        let transposed = weight.transposed().unwrap();
        assert_eq!(transposed.matrix().numbers(), [0, 2, 4, 1, 3, 5].map(|i| whole[i]));
    }
}
