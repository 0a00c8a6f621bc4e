//! Products of rows with the matrices of a layer.

use verdigris_kernels::{Product, linear_all};

use crate::description::parts::Projection;

/// Writes the products of rows with a matrix, with an adapter's change and the bias.
pub(super) fn project(x: &[f32], projection: &Projection, out: &mut Vec<f32>) {
    project_each(x, projection.matrix.columns(), [(projection, out)]);
}

/// The same for several matrices.
pub(super) fn project_each<const N: usize>(x: &[f32], width: usize, parts: [(&Projection, &mut Vec<f32>); N]) {
    let m = x.len() / width;
    let mut parts = parts.map(|(projection, out)| {
        out.resize(m * projection.matrix.rows(), 0.0);
        (projection, &mut out[..])
    });
    let mut products =
        parts.each_mut().map(|(projection, out)| Product { x, w: projection.matrix.matrix().weights(), out });
    linear_all(width, &mut products);
    for (projection, out) in parts {
        finish(x, projection, out);
    }
}

/// Adds an adapter's change and the bias to a product.
pub(super) fn finish(x: &[f32], projection: &Projection, out: &mut [f32]) {
    if let Some(update) = projection.matrix.update() {
        update.add_product(x, out);
    }
    if let Some(bias) = &projection.bias {
        out.chunks_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias));
    }
}
