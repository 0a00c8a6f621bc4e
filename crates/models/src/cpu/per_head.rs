//! Products of each head's rows with a matrix of its own.

use verdigris_kernels::{Product, linear_all};

use crate::description::weight::Weight;

/// The memory of products per head. The products of all heads run as one task list.
#[derive(Debug, Default)]
pub(super) struct PerHead {
    /// The rows of each head, one head after the other.
    x: Vec<f32>,
    y: Vec<f32>,
}

impl PerHead {
    /// Multiplies the rows of each head by the head's matrix, all of which have the same shape.
    ///
    /// `x` is `m x heads x x_stride`, of which the first elements are multiplied, and `out` is `m x heads x
    /// out_stride`, of which the first are written.
    pub(super) fn product(
        &mut self,
        matrices: &[Weight],
        (x, x_stride): (&[f32], usize),
        (out, out_stride): (&mut [f32], usize),
    ) {
        let Some(first) = matrices.first().filter(|_| !x.is_empty()) else { return };
        let (heads, columns, rows) = (matrices.len(), first.columns(), first.rows());
        let m = x.len() / (heads * x_stride);
        self.x.clear();
        for head in 0..heads {
            let of_head = x.chunks(x_stride).skip(head).step_by(heads);
            of_head.for_each(|part| self.x.extend_from_slice(&part[..columns]));
        }
        self.y.resize(heads * m * rows, 0.0);
        let parts = self.x.chunks(m * columns).zip(self.y.chunks_mut(m * rows)).zip(matrices);
        let mut products: Vec<Product<'_>> =
            parts.map(|((x, out), weight)| Product { x, w: weight.matrix().weights(), out }).collect();
        linear_all(columns, &mut products);
        for ((x, y), weight) in self.x.chunks(m * columns).zip(self.y.chunks_mut(m * rows)).zip(matrices) {
            if let Some(update) = weight.update() {
                update.add_product(x, y);
            }
        }
        for (at, y) in self.y.chunks(rows).enumerate() {
            let (head, row) = (at / m, at % m);
            out[(row * heads + head) * out_stride..][..rows].copy_from_slice(y);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::matrix::Matrix;

    #[test]
    fn each_head_has_its_own_matrix() {
        // Three heads of two elements, of which the first is multiplied, to two of three.
        let matrices: Vec<Weight> = [[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]]
            .map(|numbers| Weight::from(Matrix::of_numbers(&numbers, 1)))
            .to_vec();
        let x = [1.0, 9.0, 2.0, 9.0, 3.0, 9.0, 4.0, 9.0, 5.0, 9.0, 6.0, 9.0];
        let mut out = vec![-1.0; 18];
        PerHead::default().product(&matrices, (&x, 2), (&mut out, 3));
        let expected = [
            [1.0, 2.0, -1.0, 20.0, 40.0, -1.0, 300.0, 600.0, -1.0],
            [4.0, 8.0, -1.0, 50.0, 100.0, -1.0, 600.0, 1200.0, -1.0],
        ];
        assert_eq!(out, expected.concat());
    }
}
