//! Attention over pages of keys and values.

use super::rows::Rows;
use super::{Buffer, CudaError, Gpu, small};
use crate::stored::Format;

/// What attention is like in a layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// Which layer of the pages.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    /// Only tokens less than so far back are seen.
    pub window: Option<usize>,
    /// For each query head, what is taken from a score for each position back (ALiBi).
    pub slopes: Option<&'a Buffer>,
    /// What scores are multiplied by.
    pub scale: f32,
    /// Scores `s` become `cap * tanh(s / cap)`.
    pub cap: Option<f32>,
}

/// How the keys of a pass are split among blocks of threads, and where their results lie before they are joined.
#[derive(Debug)]
pub struct Splits {
    rows: usize,
    heads: usize,
    pages_a_split: usize,
    splits: usize,
    sums: Buffer,
    totals: Buffer,
}

impl Splits {
    /// For so many rows of so many heads, over at most so many pages.
    pub fn new(gpu: &Gpu, rows: usize, heads: usize, head_dim: usize, pages: usize) -> Result<Self, CudaError> {
        // Few rows need many blocks to fill a GPU; many rows fill it as they are, and would need much memory.
        let most = if rows <= 4 { 64 } else { (256 / rows).max(4) };
        let pages_a_split = pages.div_ceil(most).max(1);
        let splits = pages.div_ceil(pages_a_split).max(1);
        let results = rows * heads * splits;
        let (sums, totals) = (gpu.allocate(results * head_dim * 4)?, gpu.allocate(results * 2 * 4)?);
        Ok(Self { rows, heads, pages_a_split, splits, sums, totals })
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Args {
    query: u64,
    sums: u64,
    totals: u64,
    rows: u64,
    tiles: u64,
    pages: u64,
    masks: u64,
    slopes: u64,
    keys: u64,
    values: u64,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    page: u32,
    pages_a_split: u32,
    splits: u32,
    window: u32,
    rows_a_tile: u32,
    scale: f32,
    cap: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MergeArgs {
    sums: u64,
    totals: u64,
    rows: u64,
    out: u64,
    heads: u32,
    dim: u32,
    splits: u32,
    tokens: u32,
}

/// Attends: for each row and head, the values that it sees, weighted by the softmax of its scores. `query` and `out` are
/// `rows x heads x head_dim`, of all rows that there may be; the keys and values of these rows are in their pages.
///
/// # Panics
/// If the shapes do not fit together.
pub fn attend(
    gpu: &Gpu,
    rows: &Rows,
    query: &Buffer,
    attention: Attention<'_>,
    splits: &Splits,
    out: &Buffer,
) -> Result<(), CudaError> {
    let (layout, m) = (rows.layout(), rows.most());
    let Attention { layer, heads, window, slopes, scale, cap } = attention;
    let (kv_heads, dim) = (layout.kv_heads, layout.head_dim);
    assert!(heads.is_multiple_of(kv_heads) && splits.rows >= m && splits.heads == heads, "{heads} heads of {m} rows");
    // A graph may be replayed when sequences are longer, up to what the splits were made for.
    assert!(rows.longest() <= splits.splits * splits.pages_a_split, "{} pages", rows.longest());
    let [keys, values] = layout.places(layer);
    let args = Args {
        query: query.numbers(m * heads * dim),
        sums: splits.sums.numbers(m * heads * splits.splits * dim),
        totals: splits.totals.numbers(m * heads * splits.splits * 2),
        rows: rows.address(),
        tiles: rows.tiles(),
        pages: rows.table(),
        masks: rows.masks(),
        slopes: slopes.map_or(0, |slopes| slopes.numbers(heads)),
        keys,
        values,
        heads: small(heads),
        kv_heads: small(kv_heads),
        dim: small(dim),
        page: small(layout.tokens),
        pages_a_split: small(splits.pages_a_split),
        splits: small(splits.splits),
        window: small(window.unwrap_or(0)),
        rows_a_tile: small(rows.rows_a_tile()),
        scale,
        cap: cap.unwrap_or(0.0),
    };
    let kernel = match layout.format {
        Format::F32 => "attend_f32",
        Format::F16 => "attend_f16",
        Format::Bf16 => "attend_bf16",
        Format::Q8_0 => "attend_q8_0",
        format => unreachable!("caches are not stored as {format:?}"),
    };
    // As `attention.cu` shares it out: queries, sums, a set of keys, weights, and what each query has seen.
    let queries = rows.rows_a_tile() * (heads / kv_heads);
    let shared = 4 * (2 * queries * dim + 32 * (dim + 1) + queries * 32 + 2 * queries);
    let grid = [splits.splits, kv_heads, m];
    let mut buffers = vec![query, &splits.sums, &splits.totals, rows.buffer()];
    buffers.extend(slopes);
    // SAFETY: the struct is that of `attention.cu`, all is as long as it takes it to be, and `Rows` has checked what rows reach.
    unsafe { gpu.launch(kernel, grid, (128, shared), &args, &buffers)? };
    let args = MergeArgs {
        sums: args.sums,
        totals: args.totals,
        rows: args.rows,
        out: out.numbers(m * heads * dim),
        heads: args.heads,
        dim: args.dim,
        splits: args.splits,
        tokens: small(splits.pages_a_split * layout.tokens),
    };
    // SAFETY: as above.
    unsafe { gpu.launch("merge", [heads, m, 1], (64, 0), &args, &[&splits.sums, &splits.totals, rows.buffer(), out]) }
}
