//! Rows of activations times matrices of weights.

use super::activations::{ActivationArgs, Activations};
use super::elements::activation_number;
use super::{Buffer, CudaError, Gpu, Matrix, by_format, small};
use crate::elements::Activation;
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

/// The uses of results, as numbered in `linear.cuh`.
#[derive(Clone, Copy)]
enum Results {
    Store,
    Add,
    Activate,
    Gate,
}

/// As in `linear_f32.cu`: rows of a matrix per block (warps times rows per warp), and threads per block.
const F32_ROWS: usize = 4 * 2;
const F32_THREADS: u32 = 4 * 32;

/// As in `linear.cu`: rows of a matrix per block for few rows of activations, and for many; how many rows of
/// activations such a block has; threads per block.
const TILE: usize = 16;
const FEW_MATRIX_ROWS: usize = 2 * TILE;
const FEW: usize = 32;
const MANY_MATRIX_ROWS: usize = 8 * TILE;
const MANY: usize = 128;
const THREADS: u32 = 8 * 32;
/// The bytes of 64 columns of `MANY` rows of activations in two pieces, which half as much follows for the matrix.
const STAGE: usize = 2 * MANY * 128;

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
    x: ActivationArgs,
    products: [ProductArgs; PRODUCTS],
    out: ActivationArgs,
    rows: u32,
    columns: u32,
    count: u32,
    results: u32,
    activation: u32,
    x_rows: u32,
    sums_of_x: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct SumsArgs {
    x: ActivationArgs,
    out: u64,
    rows: u32,
    most: u32,
    by_16: u32,
    unused: u32,
}

/// `out = x * w^T + bias` for the first `m` rows of `x` (`m x k`); with `adds`, this is added to the contents of `out`.
///
/// A row's bits do not depend on the number of rows. Matrices in the same format share a launch.
///
/// # Panics
/// If the shapes do not fit together, `x` lacks what a matrix reads, or there are more products than [`PRODUCTS`].
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn linear(
    gpu: &Gpu,
    x: &Activations,
    m: usize,
    products: &[MatrixProduct<'_>],
    adds: bool,
) -> Result<(), CudaError> {
    let results = if adds { Results::Add } else { Results::Store };
    let Some(first) = products.first() else { return Ok(()) };
    if products.iter().any(|product| product.matrix.format != first.matrix.format) {
        return products.iter().try_for_each(|product| linear(gpu, x, m, std::slice::from_ref(product), adds));
    }
    let products = products.iter().map(|&MatrixProduct { matrix, bias, out }| (matrix, bias, Some(out))).collect();
    launch(gpu, x, m, products, results, None)
}

/// A matrix and the numbers that are added to its products.
pub type Projection<'a> = (&'a Matrix, Option<&'a Buffer>);

/// `out = activation(x * w^T + bias)` for the first `m` rows of `x`; with two projections, the results of the first are
/// activated, and multiplied by those of the second.
///
/// Returns whether it was done: two matrices must be in the same format and for tensor cores.
///
/// # Panics
/// As [`linear`].
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn activated_linear(
    gpu: &Gpu,
    x: &Activations,
    m: usize,
    projections: &[Projection<'_>],
    activation: Activation,
    out: &Activations,
) -> Result<bool, CudaError> {
    let results = match projections {
        [_] => Results::Activate,
        [(gate, _), (up, _)] if gate.format == up.format && gate.is_for_tensor_cores() => {
            assert_eq!(gate.rows, up.rows, "a factor for each result");
            Results::Gate
        }
        _ => return Ok(false),
    };
    assert!(projections[0].0.rows == out.columns() && m <= out.rows(), "{m} rows of {}", out.columns());
    let products = projections.iter().map(|&(matrix, bias)| (matrix, bias, None)).collect();
    launch(gpu, x, m, products, results, Some((activation, out)))?;
    Ok(true)
}

type Product<'a> = (&'a Matrix, Option<&'a Buffer>, Option<&'a Buffer>);

/// Multiplies by matrices of one format.
fn launch(
    gpu: &Gpu,
    x: &Activations,
    m: usize,
    products: Vec<Product<'_>>,
    results: Results,
    activated: Option<(Activation, &Activations)>,
) -> Result<(), CudaError> {
    assert!((1..=PRODUCTS).contains(&products.len()), "{} matrices", products.len());
    let (first, k) = (products[0].0, x.columns());
    let on_tensor_cores = first.is_for_tensor_cores();
    let kinds = x.kinds();
    assert!(m <= x.rows() && (if on_tensor_cores { kinds.pieces } else { kinds.numbers }), "{m} rows of {kinds:?}");
    let block_rows = match (on_tensor_cores, results) {
        (false, _) => F32_ROWS,
        // The same rows of both matrices.
        (true, Results::Gate) if x.are_few() => FEW_MATRIX_ROWS / 2,
        (true, Results::Gate) => MANY_MATRIX_ROWS / 2,
        (true, _) if x.are_few() => FEW_MATRIX_ROWS,
        (true, _) => MANY_MATRIX_ROWS,
    };
    let mut args = Args {
        x: x.args(),
        products: Default::default(),
        out: activated.map_or(ActivationArgs::default(), |(_, out)| out.args()),
        rows: small(m),
        columns: small(k),
        count: small(products.len()),
        results: results as u32,
        activation: activated.map_or(0, |(activation, _)| activation_number(activation)),
        x_rows: 0,
        sums_of_x: 0,
    };
    let mut buffers: Vec<&Buffer> = x.buffers().collect();
    buffers.extend(activated.into_iter().flat_map(|(_, out)| out.buffers()));
    let mut blocks = 0;
    for (&(matrix, bias, out), args) in products.iter().zip(&mut args.products) {
        let n = matrix.rows;
        assert_eq!(matrix.columns, k, "matrices for the same rows");
        *args = ProductArgs {
            weights: matrix.bytes.address(),
            bias: bias.map_or(0, |bias| bias.numbers(n)),
            out: out.map_or(0, |out| out.numbers(m * n)),
            rows: small(n),
            from: small(blocks),
        };
        if !matches!(results, Results::Gate) || blocks == 0 {
            blocks += n.div_ceil(block_rows);
        }
        buffers.extend([&matrix.bytes].into_iter().chain(bias).chain(out));
    }
    if m == 0 {
        return Ok(());
    }
    let sums = match first.needs_sums() {
        Some(by_16) if on_tensor_cores && !x.are_few() && gpu.has_wide_products() => Some(sums_of(gpu, x, m, by_16)?),
        _ => None,
    };
    if let Some(sums) = &sums {
        (args.x_rows, args.sums_of_x) = (small(m.next_multiple_of(MANY)), sums.address());
        buffers.push(sums);
    }
    let (kernel, grid, threads, shared) = if on_tensor_cores {
        on_tensor_cores_with(first.format, m, blocks, x.are_few(), gpu.has_wide_products())
    } else {
        in_f32_with(first.format, m, blocks)
    };
    // SAFETY: the struct matches that of `linear.cuh`, and all buffers have the lengths that it expects.
    unsafe { gpu.launch(kernel, grid, (threads, shared), &args, &buffers) }
}

/// The sums of `m` rows of activations in each 32 columns, or in each sixteen.
fn sums_of(gpu: &Gpu, x: &Activations, m: usize, by_16: bool) -> Result<Buffer, CudaError> {
    let (most, x_args) = (m.next_multiple_of(MANY), x.args());
    let groups = x_args.stride as usize / if by_16 { 16 } else { 32 };
    let out = gpu.allocate(groups * most * 4)?;
    let args =
        SumsArgs { x: x_args, out: out.address(), rows: small(m), most: small(most), by_16: by_16.into(), unused: 0 };
    let mut buffers = vec![&out];
    buffers.extend(x.buffers());
    // SAFETY: the struct matches that of `linear.cu`, and there is a number for each group and each eight rows.
    unsafe { gpu.launch("sums_of_x", [m.div_ceil(8), 8, 1], (128, 0), &args, &buffers)? };
    Ok(out)
}

/// The kernel for `m` rows, the blocks of its grid, its threads and its shared memory.
type Choice = (&'static str, [usize; 3], u32, usize);

fn on_tensor_cores_with(format: Format, m: usize, blocks: usize, are_few: bool, wide: bool) -> Choice {
    // The sums of eight warps, for each row of a matrix those of all rows, and one more so that lanes do not conflict.
    let sums = |rows: usize| 8 * FEW_MATRIX_ROWS * (rows + 1) * 4;
    match m {
        ..=8 if are_few => (by_format!(format, "linear", "_8"), [1, blocks, 1], THREADS, sums(8)),
        ..=16 if are_few => (by_format!(format, "linear", "_16"), [1, blocks, 1], THREADS, sums(16)),
        _ if are_few => (by_format!(format, "linear", "_32"), [m.div_ceil(FEW), blocks, 1], THREADS, sums(FEW)),
        _ if wide => {
            (by_format!(format, "linear", "_wide"), [m.div_ceil(MANY), blocks, 1], THREADS, 4 * (STAGE + MANY * 128))
        }
        _ => (by_format!(format, "linear", "_many"), [m.div_ceil(MANY), blocks, 1], THREADS, 3 * STAGE),
    }
}

fn in_f32_with(format: Format, m: usize, blocks: usize) -> Choice {
    let (kernel, tile) = match m {
        1 => (by_format!(format, "in_f32", "_1"), 1),
        2 => (by_format!(format, "in_f32", "_2"), 2),
        3..=4 => (by_format!(format, "in_f32", "_4"), 4),
        5..=8 => (by_format!(format, "in_f32", "_8"), 8),
        _ => (by_format!(format, "in_f32", "_16"), 16),
    };
    (kernel, [blocks, m.div_ceil(tile), 1], F32_THREADS, 0)
}
