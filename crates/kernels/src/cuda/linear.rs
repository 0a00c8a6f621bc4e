//! Rows of activations times matrices of weights in their stored format.

use super::{Buffer, CudaError, Gpu, Matrix, by_format, small};
use crate::format::Format;

/// One of the matrices that the same rows are multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct MatrixProduct<'a> {
    /// `n x k`.
    pub matrix: &'a Matrix,
    /// `n` numbers that are added to each row.
    pub bias: Option<&'a Buffer>,
    /// `m x n`: the results.
    pub out: &'a Buffer,
}

/// The most matrices in one call.
pub const PRODUCTS: usize = 3;

/// Rows of a matrix per block (warps times rows per warp), and threads per block, as in `linear.cu`.
const ROWS_A_BLOCK: usize = 4 * 2;
const THREADS: u32 = 4 * 32;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProductArgs {
    weights: u64,
    bias: u64,
    out: u64,
    rows: u32,
    from: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Args {
    x: u64,
    products: [ProductArgs; PRODUCTS],
    rows: u32,
    columns: u32,
    count: u32,
    adds: u32,
}

/// `out = x * w^T + bias` for the first `m` rows of `x` (`m x k`); with `adds`, this is added to the contents of `out`.
///
/// A row's bits do not depend on the number of rows. Matrices in the same format share a launch.
///
/// # Panics
/// If the shapes do not fit together, or there are more products than [`PRODUCTS`].
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn linear(gpu: &Gpu, x: &Buffer, m: usize, products: &[MatrixProduct<'_>], adds: bool) -> Result<(), CudaError> {
    assert!((1..=PRODUCTS).contains(&products.len()), "{} matrices", products.len());
    let first = products[0].matrix;
    if products.iter().any(|product| product.matrix.format != first.format) {
        return products.iter().try_for_each(|product| linear(gpu, x, m, std::slice::from_ref(product), adds));
    }
    let k = first.columns;
    let mut args = Args {
        x: x.numbers(m * k),
        products: Default::default(),
        rows: small(m),
        columns: small(k),
        count: small(products.len()),
        adds: adds.into(),
    };
    let mut buffers = vec![x];
    let mut blocks = 0;
    for (product, args) in products.iter().zip(&mut args.products) {
        let n = product.matrix.rows;
        assert_eq!(product.matrix.columns, k, "matrices for the same rows");
        *args = ProductArgs {
            weights: product.matrix.bytes.address(),
            bias: product.bias.map_or(0, |bias| bias.numbers(n)),
            out: product.out.numbers(m * n),
            rows: small(n),
            from: small(blocks),
        };
        blocks += n.div_ceil(ROWS_A_BLOCK);
        buffers.extend([&product.matrix.bytes, product.out].into_iter().chain(product.bias));
    }
    let (kernel, tile) = match m {
        0 => return Ok(()),
        1 => (by_format!(first.format, "linear", "_1"), 1),
        2 => (by_format!(first.format, "linear", "_2"), 2),
        3..=4 => (by_format!(first.format, "linear", "_4"), 4),
        5..=8 => (by_format!(first.format, "linear", "_8"), 8),
        _ => (by_format!(first.format, "linear", "_16"), 16),
    };
    // SAFETY: the struct matches that of `linear.cu`, and all buffers have the lengths that it expects.
    unsafe { gpu.launch(kernel, [blocks, m.div_ceil(tile), 1], (THREADS, 0), &args, &buffers) }
}
