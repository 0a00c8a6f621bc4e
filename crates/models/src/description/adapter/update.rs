//! A low-rank change of a matrix, stored separately: LoRA (arXiv:2106.09685) and DoRA (arXiv:2402.09353).

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use verdigris_kernels::linear;

use crate::description::matrix::Matrix;

/// Changes `W` (`out x in`) into `diag(factors) (W + scale * up * down)`.
///
/// `W` stays as it is stored, so all adapters of a model share it.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    /// `out x rank`: LoRA's `B`, or the transposed `A` of an embedding.
    up: Matrix,
    /// `rank x in`: LoRA's `A`, or the transposed `B` of an embedding.
    down: Matrix,
    scale: f32,
    /// DoRA's factors: how much longer each row becomes.
    factors: Option<Arc<[f32]>>,
}

impl Update {
    /// `None` if the ranks of the two differ.
    pub(crate) fn new(up: Matrix, down: Matrix, scale: f32) -> Option<Self> {
        (up.columns() == down.rows()).then_some(Self { up, down, scale, factors: None })
    }

    /// The shape of the matrix that is changed.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.up.rows(), self.down.columns()]
    }

    /// The change of some of its rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Self {
        let factors = self.factors.as_ref().map(|factors| factors[rows.clone()].into());
        Self { up: self.up.part(rows), down: self.down.clone(), scale: self.scale, factors }
    }

    /// The change of some of its columns; `None` if they are not whole blocks.
    pub(crate) fn columns_part(&self, columns: Range<usize>) -> Option<Self> {
        Some(Self { down: self.down.columns_part(columns)?, ..self.clone() })
    }

    /// The learned matrices.
    pub(crate) fn matrices(&self) -> [&Matrix; 2] {
        [&self.up, &self.down]
    }

    /// The scale of the product of the learned matrices, and DoRA's factors.
    pub(crate) fn factors(&self) -> (f32, Option<&[f32]>) {
        (self.scale, self.factors.as_deref())
    }

    /// The change of some of its rows in the given order.
    pub(crate) fn gather(&self, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let factors = self.factors.as_ref().map(|factors| rows.clone().map(|row| factors[row]).collect());
        Self { up: self.up.gather(rows), down: self.down.clone(), scale: self.scale, factors }
    }

    /// The same change, with the length that each row of the changed matrix must have, as DoRA learns it. `None` if a
    /// changed row is zero, a length is not a finite number, or there is not one length per row.
    pub(crate) fn with_lengths(mut self, matrix: &Matrix, lengths: &[f32]) -> Option<Self> {
        let norms = self.norms_of_rows(matrix);
        let factors: Arc<[f32]> = lengths.iter().zip(norms).map(|(length, norm)| length / norm).collect();
        let are_numbers = factors.len() == matrix.rows() && factors.iter().all(|factor| factor.is_finite());
        self.factors = Some(factors);
        are_numbers.then_some(self)
    }

    fn norms_of_rows(&self, matrix: &Matrix) -> Vec<f32> {
        const ROWS: usize = 16;
        let starts: Vec<usize> = (0..matrix.rows()).step_by(ROWS).collect();
        let of = |&from: &usize| {
            let rows = from..(from + ROWS).min(matrix.rows());
            let mut numbers = vec![0.0; rows.len() * matrix.columns()];
            numbers.chunks_mut(matrix.columns()).zip(rows.clone()).for_each(|(row, i)| matrix.weights().decode(i, row));
            self.change(rows, &mut numbers);
            let norm = |row: &[f32]| row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32;
            numbers.chunks(matrix.columns()).map(norm).collect::<Vec<f32>>()
        };
        starts.par_iter().flat_map_iter(of).collect()
    }

    /// Changes some rows of the matrix, given as numbers.
    pub(crate) fn change(&self, rows: Range<usize>, numbers: &mut [f32]) {
        thread_local!(static WORK: Cell<[Vec<f32>; 2]> = const { Cell::new([const { Vec::new() }; 2]) });
        let [mut down, mut up] = WORK.take();
        let (rank, columns) = (self.up.columns(), self.down.columns());
        down.resize(rank * columns, 0.0);
        up.resize(rank, 0.0);
        down.chunks_mut(columns).enumerate().for_each(|(j, row)| self.down.weights().decode(j, row));
        for (i, row) in rows.zip(numbers.chunks_mut(columns)) {
            self.up.weights().decode(i, &mut up);
            for (up, down) in up.iter().zip(down.chunks(columns)) {
                let share = self.scale * up;
                row.iter_mut().zip(down).for_each(|(x, down)| *x += share * down);
            }
            if let Some(factors) = &self.factors {
                row.iter_mut().for_each(|x| *x *= factors[i]);
            }
        }
        WORK.set([down, up]);
    }

    /// Changes the products of some rows with the matrix into those with the changed matrix. A row has the same bits
    /// whatever other rows are computed with it, like [`linear`].
    pub(crate) fn add_product(&self, x: &[f32], out: &mut [f32]) {
        thread_local!(static WORK: Cell<[Vec<f32>; 2]> = const { Cell::new([const { Vec::new() }; 2]) });
        let [mut low, mut high] = WORK.take();
        low.resize(x.len() / self.down.columns() * self.down.rows(), 0.0);
        high.resize(out.len(), 0.0);
        linear(x, self.down.weights(), &mut low);
        low.iter_mut().for_each(|x| *x *= self.scale);
        linear(&low, self.up.weights(), &mut high);
        out.iter_mut().zip(&high).for_each(|(out, change)| *out += change);
        if let Some(factors) = &self.factors {
            out.chunks_mut(factors.len()).for_each(|row| row.iter_mut().zip(&**factors).for_each(|(x, by)| *x *= by));
        }
        WORK.set([low, high]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_length_cannot_have_another() {
        let matrix = Matrix::of_numbers;
        let update = || Update::new(matrix(&[1.0, 0.0, 2.0, -1.0], 2), matrix(&[1.0, 2.0, 0.0, 4.0], 2), 0.5).unwrap();
        assert!(update().with_lengths(&matrix(&[1.0; 4], 2), &[1.0; 2]).is_some());
        assert!(update().with_lengths(&matrix(&[-0.5, -1.0, 1.0, 1.0], 2), &[1.0; 2]).is_none(), "a row of zeros");
        assert!(update().with_lengths(&matrix(&[1.0; 4], 2), &[1.0]).is_none(), "one length for two rows");
        assert!(update().with_lengths(&matrix(&[1.0; 4], 2), &[f32::NAN, 1.0]).is_none());
        assert!(Update::new(matrix(&[1.0; 6], 3), matrix(&[1.0; 4], 2), 1.0).is_none(), "ranks that differ");
    }
}
