//! Causal convolutions over a few tokens, each column by itself.

use crate::description::parts::Taps;

/// The rows that a convolution reads: those before a batch, then those of the batch.
pub(super) struct Window<'a> {
    /// The last rows before the batch: `(taps - 1) x columns`.
    pub(super) history: &'a [f32],
    /// The rows of the batch: `m x columns`.
    pub(super) rows: &'a [f32],
    pub(super) columns: usize,
}

impl<'a> Window<'a> {
    fn row(&self, index: usize) -> &'a [f32] {
        let before = self.history.len() / self.columns;
        match index.checked_sub(before) {
            None => &self.history[index * self.columns..][..self.columns],
            Some(index) => &self.rows[index * self.columns..][..self.columns],
        }
    }

    /// The index of the row before another: that of the token before it, or of its parent in a tree.
    fn before(&self, index: usize, parents: Option<&[Option<usize>]>) -> usize {
        let history = self.history.len() / self.columns;
        match (index.checked_sub(history), parents) {
            // Roots of a tree follow the history.
            (Some(index), Some(parents)) => parents[index].map_or(history, |parent| history + parent + 1) - 1,
            _ => index - 1,
        }
    }

    /// Writes the convolution of each row of the batch with the rows before it.
    pub(super) fn convolve(&self, taps: &Taps, parents: Option<&[Option<usize>]>, out: &mut Vec<f32>) {
        let (columns, history) = (self.columns, self.history.len() / self.columns);
        out.resize(self.rows.len(), 0.0);
        for (t, out) in out.chunks_mut(columns).enumerate() {
            match &taps.bias {
                Some(bias) => out.copy_from_slice(bias),
                None => out.fill(0.0),
            }
            let mut index = history + t;
            for (back, weights) in taps.weights.chunks(columns).rev().enumerate() {
                if back > 0 {
                    index = self.before(index, parents);
                }
                out.iter_mut().zip(weights).zip(self.row(index)).for_each(|((out, weight), x)| *out += weight * x);
            }
        }
    }

    /// The history after some rows of the batch, each after the one before.
    pub(super) fn history_after(&self, rows: impl Iterator<Item = usize>) -> Vec<f32> {
        let before = self.history.len() / self.columns;
        let all: Vec<usize> = (0..before).chain(rows.map(|row| before + row)).collect();
        all[all.len() - before..].iter().flat_map(|&index| self.row(index)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_mixed_with_its_ancestors() {
        let taps = Taps::new(&[1.0, 10.0, 100.0, 2.0, 20.0, 200.0], 2, Some(vec![0.5, 0.0]));
        let (history, rows) = ([1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
        let window = Window { history: &history, rows: &rows, columns: 2 };
        let mut out = Vec::new();
        window.convolve(&taps, None, &mut out);
        assert_eq!(out, [321.5, 642.0, 432.5, 864.0, 543.5, 1086.0]);
        // The second and the third are both children of the first.
        window.convolve(&taps, Some(&[None, Some(0), Some(0)]), &mut out);
        assert_eq!(out, [321.5, 642.0, 432.5, 864.0, 532.5, 1064.0]);
        window.convolve(&taps, Some(&[None, None, Some(1)]), &mut out);
        assert_eq!(out, [321.5, 642.0, 421.5, 842.0, 542.5, 1084.0]);
        assert_eq!(window.history_after([0, 2].into_iter()), [3.0, 3.0, 5.0, 5.0]);
        assert_eq!(window.history_after([1].into_iter()), [2.0, 2.0, 4.0, 4.0]);
        assert_eq!(window.history_after(std::iter::empty()), history);
    }
}
