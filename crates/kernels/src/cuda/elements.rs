//! Element-wise operations of a layer.

use std::sync::Arc;

use super::activations::{ActivationArgs, Activations};
use super::inputs::Inputs;
use super::{Buffer, CudaError, Gpu, Matrix, by_format, small};
use crate::elements::{Activation, Pairs};
use crate::format::Format;

/// Threads per block, and the most blocks, for independent elements.
const THREADS: u32 = 256;
const MOST_BLOCKS: usize = 1 << 16;

fn blocks(count: usize) -> [usize; 3] {
    [count.div_ceil(THREADS as usize).clamp(1, MOST_BLOCKS), 1, 1]
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct EmbedArgs {
    rows: u64,
    embedding: u64,
    out: u64,
    vocabulary: u32,
    width: u32,
    scale: f32,
    adds: u32,
    offset: u32,
    unused: u32,
}

fn embed_with(gpu: &Gpu, rows: &Inputs, matrix: &Matrix, out: &Buffer, args: EmbedArgs) -> Result<(), CudaError> {
    let args = EmbedArgs {
        rows: rows.address(),
        embedding: matrix.bytes.address(),
        out: out.numbers(rows.capacity() * matrix.columns),
        vocabulary: small(matrix.rows),
        width: small(matrix.columns),
        ..args
    };
    let kernel = by_format!(matrix.format, "embed", "");
    // SAFETY: the struct matches that of `elements.cu`, which reads no row past the last.
    unsafe { gpu.launch(kernel, [rows.capacity(), 1, 1], (THREADS, 0), &args, &[rows.buffer(), &matrix.bytes, out]) }
}

/// The embedding of each row's token, times `scale`: `out` is `rows x width`.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn embed(gpu: &Gpu, rows: &Inputs, embedding: &Matrix, scale: f32, out: &Buffer) -> Result<(), CudaError> {
    assert!(rows.vocabulary() <= embedding.rows, "{} tokens", rows.vocabulary());
    embed_with(gpu, rows, embedding, out, EmbedArgs { scale, ..EmbedArgs::default() })
}

/// Adds the embedding of each row's position; that of position 0 is row `offset`.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn add_positions(
    gpu: &Gpu,
    rows: &Inputs,
    positions: &Matrix,
    offset: usize,
    out: &Buffer,
) -> Result<(), CudaError> {
    let args = EmbedArgs { scale: 1.0, adds: 1, offset: small(offset), ..EmbedArgs::default() };
    embed_with(gpu, rows, positions, out, args)
}

/// A norm: division by the root mean square; with a bias, the mean is subtracted first.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// The factors of the elements of a row.
    pub weight: &'a Buffer,
    /// The numbers added to the elements of a row.
    pub bias: Option<&'a Buffer>,
    /// The number of elements of a row.
    pub width: usize,
    /// The number added to the mean square.
    pub epsilon: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct NormArgs {
    x: u64,
    weight: u64,
    bias: u64,
    out: ActivationArgs,
    which: u64,
    width: u32,
    epsilon: f32,
}

fn norm_with(
    gpu: &Gpu,
    x: &Buffer,
    count: usize,
    norm: Norm<'_>,
    out: &Activations,
    which: Option<&Inputs>,
) -> Result<(), CudaError> {
    let Norm { weight, bias, width, epsilon } = norm;
    assert!(out.columns() == width && count <= out.rows(), "{count} rows of {width}");
    let rows = which.map_or(count, Inputs::capacity);
    let args = NormArgs {
        x: x.numbers(rows * width),
        weight: weight.numbers(width),
        bias: bias.map_or(0, |bias| bias.numbers(width)),
        out: out.args(),
        which: which.map_or(0, Inputs::wanted),
        width: small(width),
        epsilon,
    };
    let mut buffers = vec![x, weight];
    buffers.extend(out.buffers().chain(bias).chain(which.map(Inputs::buffer)));
    // A thread holds eight elements. Each warp shares one number.
    let threads = width.div_ceil(8).next_multiple_of(32).clamp(64, 512);
    let shared = threads / 32 * 4;
    // SAFETY: the struct matches that of `elements.cu`; wanted rows are among those of `x`.
    unsafe { gpu.launch("normalize", [count, 1, 1], (small(threads), shared), &args, &buffers) }
}

/// Normalises `count` rows; the numbers of `out` may be `x`.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn normalize(gpu: &Gpu, x: &Buffer, count: usize, norm: Norm<'_>, out: &Activations) -> Result<(), CudaError> {
    norm_with(gpu, x, count, norm, out, None)
}

/// Normalises the first `count` wanted rows into the rows of `out`. If fewer are wanted, the others are those of row 0.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn normalize_wanted(
    gpu: &Gpu,
    x: &Buffer,
    rows: &Inputs,
    count: usize,
    norm: Norm<'_>,
    out: &Activations,
) -> Result<(), CudaError> {
    assert!(count <= rows.capacity(), "{count} rows of {}", rows.capacity());
    norm_with(gpu, x, count, norm, out, Some(rows))
}

/// The rotation of queries and keys in a layer.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The number of pairs of elements of a head that are rotated.
    pub pairs: usize,
    /// How elements are paired.
    pub which: Pairs,
    /// The offset of this embedding's angles among those of a sequence.
    pub angles: usize,
    /// The factor of cosines and sines.
    pub magnitude: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct HeadsArgs {
    query: u64,
    key: u64,
    value: u64,
    rows: u64,
    pages: u64,
    keys: u64,
    values: u64,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    page: u32,
    pairs: u32,
    neighbours: u32,
    angles: u32,
    magnitude: f32,
}

/// Rotates queries in place, and writes rotated keys, and values, into the pages.
///
/// # Errors
/// [`CudaError`] if the GPU fails.
pub fn into_pages(
    gpu: &Gpu,
    rows: &Inputs,
    layer: usize,
    heads: usize,
    [query, key, value]: [&Buffer; 3],
    rotation: Option<Rotation>,
) -> Result<(), CudaError> {
    let (layout, m) = (rows.layout(), rows.capacity());
    let (kv_heads, dim) = (layout.kv_heads, layout.head_dim);
    let rotation = rotation.unwrap_or(Rotation { pairs: 0, which: Pairs::Halves, angles: 0, magnitude: 1.0 });
    assert!(
        2 * rotation.pairs <= dim && rotation.angles + rotation.pairs <= rows.angles(),
        "{rotation:?} in heads of {dim}"
    );
    let [keys, values] = layout.offsets(layer);
    let args = HeadsArgs {
        query: query.numbers(m * heads * dim),
        key: key.numbers(m * kv_heads * dim),
        value: value.numbers(m * kv_heads * dim),
        rows: rows.address(),
        pages: rows.table(),
        keys,
        values,
        heads: small(heads),
        kv_heads: small(kv_heads),
        dim: small(dim),
        page: small(layout.tokens),
        pairs: small(rotation.pairs),
        neighbours: (rotation.which == Pairs::Neighbours).into(),
        angles: small(rotation.angles),
        magnitude: rotation.magnitude,
    };
    let kernel = match layout.format {
        Format::F32 => "heads_f32",
        Format::F16 => "heads_f16",
        Format::Bf16 => "heads_bf16",
        Format::Q8_0 => "heads_q8_0",
        format => unreachable!("caches are not stored as {format:?}"),
    };
    let grid = [m, heads + 2 * kv_heads, 1];
    // SAFETY: the struct matches that of `elements.cu`, and `Inputs` has checked what rows refer to.
    unsafe { gpu.launch(kernel, grid, (32, dim * 4), &args, &[query, key, value, rows.buffer()]) }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ActivateArgs {
    x: u64,
    up: u64,
    out: ActivationArgs,
    width: u32,
    activation: u32,
}

/// The number of an activation in kernels.
pub(super) fn activation_number(activation: Activation) -> u32 {
    match activation {
        Activation::Silu => 0,
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
        Activation::SquaredRelu => 4,
        Activation::ClampedSwiglu => unreachable!("only mixtures have it, which are refused before"),
    }
}

/// Applies an activation, if there is one, to the first `count` rows of `x`, and multiplies them by those of `up`, if
/// given.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn activate(
    gpu: &Gpu,
    activation: Option<Activation>,
    x: &Buffer,
    up: Option<&Buffer>,
    count: usize,
    out: &Activations,
) -> Result<(), CudaError> {
    let width = out.columns();
    assert!(count <= out.rows(), "{count} rows of {}", out.rows());
    let args = ActivateArgs {
        x: x.numbers(count * width),
        up: up.map_or(0, |up| up.numbers(count * width)),
        out: out.args(),
        width: small(width),
        activation: activation.map_or(u32::MAX, activation_number),
    };
    let buffers: Vec<_> = [x].into_iter().chain(up).chain(out.buffers()).collect();
    // SAFETY: the struct matches that of `elements.cu`, and all buffers have the lengths that it expects; also below.
    unsafe { gpu.launch("activate", [count, 1, 1], (THREADS, 0), &args, &buffers) }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct AddArgs {
    to: u64,
    from: u64,
    count: u64,
}

/// Adds the first `count` elements of `from` to those of `to`.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn add(gpu: &Gpu, to: &Buffer, from: &Buffer, count: usize) -> Result<(), CudaError> {
    let args = AddArgs { to: to.numbers(count), from: from.numbers(count), count: count as u64 };
    // SAFETY: as above.
    unsafe { gpu.launch("add", blocks(count), (THREADS, 0), &args, &[to, from]) }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapArgs {
    x: u64,
    count: u64,
    cap: f32,
    unused: u32,
}

/// Replaces each `x` of the first `count` elements by `cap * tanh(x / cap)`.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn cap(gpu: &Gpu, x: &Buffer, count: usize, cap: f32) -> Result<(), CudaError> {
    let args = CapArgs { x: x.numbers(count), count: count as u64, cap, unused: 0 };
    // SAFETY: as above.
    unsafe { gpu.launch("cap", blocks(count), (THREADS, 0), &args, &[x]) }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MoveArgs {
    pages: u64,
    slots: u64,
    moves: u32,
    page: u32,
    bytes: u64,
}

/// Moves the keys and values of tokens to earlier slots: `moves` are pairs of source and destination, both increasing.
///
/// # Panics
/// If they are not, or the slots are not in the pages.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn move_back(
    gpu: &Gpu,
    layout: super::inputs::Pages,
    pages: &[Arc<Buffer>],
    moves: &[(usize, usize)],
) -> Result<(), CudaError> {
    let fits = |slot: usize| slot / layout.tokens < pages.len();
    let in_order = moves.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1);
    assert!(in_order && moves.iter().all(|&(from, to)| to < from && fits(from)), "{moves:?}");
    assert!(pages.iter().all(|page| page.len() >= layout.page_bytes()), "pages");
    if moves.is_empty() {
        return Ok(());
    }
    let table: Vec<u8> = pages.iter().flat_map(|page| page.address().to_le_bytes()).collect();
    let slots: Vec<u8> =
        moves.iter().flat_map(|&(from, to)| [small(from), small(to)]).flat_map(u32::to_le_bytes).collect();
    let (table, slots) = (gpu.upload(&table)?, gpu.upload(&slots)?);
    let args = MoveArgs {
        pages: table.address(),
        slots: slots.address(),
        moves: small(moves.len()),
        page: small(layout.tokens),
        bytes: layout.token_bytes() as u64,
    };
    // SAFETY: the struct matches that of `elements.cu`, and memory is freed only after work that was requested earlier.
    unsafe { gpu.launch("move_back", [2 * layout.layers, 1, 1], (THREADS, 0), &args, &[&table, &slots]) }
}
