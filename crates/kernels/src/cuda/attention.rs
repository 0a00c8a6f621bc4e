//! Attention over paged keys and values.

use super::activations::{ActivationArgs, Activations};
use super::inputs::{Inputs, Pages};
use super::{Buffer, CudaError, Gpu, small};
use crate::format::Format;

/// The attention of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    /// The index of the layer in the pages.
    pub layer: usize,
    /// The number of query heads.
    pub heads: usize,
    /// Only tokens fewer than `window` positions back are visible.
    pub window: Option<usize>,
    /// For each query head, the amount subtracted from a score per position back (ALiBi).
    pub slopes: Option<&'a Buffer>,
    /// The factor of scores.
    pub scale: f32,
    /// Scores `s` become `cap * tanh(s / cap)`.
    pub cap: Option<f32>,
}

/// The split of keys among blocks of threads, and the memory for their partial results.
///
/// The start of a split depends only on its number: sums are rounded the same way whatever else is in a pass, so the
/// text for a seed does not depend on the rest of the batch. The first sixteen splits have 128 tokens, and every eight
/// more double the reach: a sequence of any length has enough blocks for a GPU, and a long one not too many.
#[derive(Debug)]
pub struct Splits {
    rows: usize,
    heads: usize,
    splits: usize,
    sums: Buffer,
    totals: Buffer,
}

/// The most rows whose partial results are in memory at once; more rows are processed in turns.
const ROWS: usize = 256;

/// The largest number of elements of a head, unless keys and values are in f32.
pub const MOST_DIM: usize = 256;

/// The number of elements of a head that a kernel has room for, as in `attention.cu`; also below.
fn padded_dim(dim: usize) -> usize {
    assert!(dim <= MOST_DIM, "heads of {dim} elements");
    dim.next_power_of_two().max(64)
}

/// As below, in `attention_f32.cu`: queries, sums, keys or values, scores, and two numbers for each query.
fn shared_in_f32(queries: usize, dim: usize) -> usize {
    4 * (2 * queries * dim + 32 * (dim + 1) + queries * 32 + 2 * queries)
}

/// Whether a GPU has room for the queries and keys that a block of threads shares, for `group` query heads per key
/// head.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn fits(gpu: &Gpu, layout: Pages, group: usize) -> Result<bool, CudaError> {
    Ok(layout.format != Format::F32
        || shared_in_f32(layout.queries(group), layout.head_dim) <= gpu.backend.most_shared()? as usize)
}

/// The bytes that the threads of a block share: queries, keys or values, scores, and a number for each query.
fn shared_memory(queries: usize, dim: usize) -> usize {
    let (keys, padded) = (if dim > 128 { 32 } else { 64 }, padded_dim(dim) + 8);
    let rows = queries.min(if dim > 128 { 32 } else { 64 }).next_power_of_two().max(16);
    4 * (rows * padded + keys * padded + rows * (keys + 8) + rows)
}

/// The most rows of a pass that is recorded.
pub const RECORDED: usize = 64;

/// The first token of a split, as in `attention.cuh`.
fn split_begin(split: usize) -> usize {
    if split < 16 { split * 128 } else { (8 + split % 8) * (256 << ((split - 16) / 8)) }
}

/// The number of splits of this number of tokens.
fn splits(tokens: usize) -> usize {
    (1..).find(|&split| split_begin(split) >= tokens).expect("splits have no end")
}

impl Splits {
    /// Allocates memory for `rows` rows of `heads` heads, each of which sees at most `tokens` tokens.
    ///
    /// # Errors
    /// [`CudaError`] if the GPU has no memory for it, or the driver fails.
    pub fn new(gpu: &Gpu, rows: usize, heads: usize, head_dim: usize, tokens: usize) -> Result<Self, CudaError> {
        let rows = rows.min(ROWS);
        let splits = splits(tokens);
        let results = rows * heads * splits;
        let (sums, totals) = (gpu.allocate(results * head_dim * 4)?, gpu.allocate(results * 2 * 4)?);
        Ok(Self { rows, heads, splits, sums, totals })
    }

    /// The same memory for rows that see at most `tokens` tokens; `None` if that is more than it was allocated for.
    pub fn within(&self, tokens: usize) -> Option<Self> {
        let splits = splits(tokens);
        let (sums, totals) = (self.sums.clone(), self.totals.clone());
        (splits <= self.splits).then_some(Self { splits, sums, totals, ..*self })
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
    splits: u32,
    window: u32,
    queries: u32,
    scale: f32,
    cap: f32,
    from: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MergeArgs {
    sums: u64,
    totals: u64,
    rows: u64,
    out: ActivationArgs,
    heads: u32,
    dim: u32,
    splits: u32,
    from: u32,
}

/// Attends: for each row and head, the visible values, weighted by the softmax of its scores. `query` and `out` are
/// `rows x heads x head_dim` for the full capacity of `rows`; the keys and values of these rows must already be in
/// their pages.
///
/// # Panics
/// If the shapes do not fit together.
///
/// # Errors
/// [`CudaError::Driver`] if the driver fails.
pub fn attend(
    gpu: &Gpu,
    rows: &Inputs,
    query: &Buffer,
    attention: Attention<'_>,
    splits: &Splits,
    out: &Activations,
) -> Result<(), CudaError> {
    let (layout, m) = (rows.layout(), rows.capacity());
    let Attention { layer, heads, window, slopes, scale, cap } = attention;
    let (kv_heads, dim) = (layout.kv_heads, layout.head_dim);
    let fits = heads.is_multiple_of(kv_heads) && splits.rows >= m.min(ROWS) && splits.heads == heads;
    assert!(fits, "{heads} heads of {m} rows");
    assert!(out.columns() == heads * dim && m <= out.rows(), "{m} rows of {heads} heads");
    // A graph may be replayed with longer sequences, up to the length that the splits were made for.
    assert!(rows.longest() * layout.tokens <= split_begin(splits.splits), "{} pages", rows.longest());
    let [keys, values] = layout.offsets(layer);
    let kernel = match (layout.format, dim) {
        (Format::F32, _) => "attend_f32",
        (Format::F16, ..=64) => "attend_f16_64",
        (Format::F16, ..=128) => "attend_f16_128",
        (Format::F16, _) => "attend_f16_256",
        (Format::Bf16, ..=64) => "attend_bf16_64",
        (Format::Bf16, ..=128) => "attend_bf16_128",
        (Format::Bf16, _) => "attend_bf16_256",
        (Format::Q8_0, ..=64) => "attend_q8_0_64",
        (Format::Q8_0, ..=128) => "attend_q8_0_128",
        (Format::Q8_0, _) => "attend_q8_0_256",
        (format, _) => unreachable!("caches are not stored as {format:?}"),
    };
    let queries = rows.rows_a_tile() * (heads / kv_heads);
    let (shared, blocks) = match layout.format {
        Format::F32 => (shared_in_f32(queries, dim), 1),
        _ => (shared_memory(queries, dim), queries.div_ceil(layout.most_queries())),
    };
    let at_once = splits.rows * heads * splits.splits;
    let (sums, totals) = (splits.sums.numbers(at_once * dim), splits.totals.numbers(at_once * 2));
    for Share { tile, tiles, row, count } in shares(rows, m) {
        let args = Args {
            query: query.numbers(m * heads * dim),
            sums,
            totals,
            rows: rows.address(),
            tiles: rows.tiles() + 8 * tile as u64,
            pages: rows.table(),
            masks: rows.masks(),
            slopes: slopes.map_or(0, |slopes| slopes.numbers(heads)),
            keys,
            values,
            heads: small(heads),
            kv_heads: small(kv_heads),
            dim: small(dim),
            page: small(layout.tokens),
            splits: small(splits.splits),
            window: small(window.unwrap_or(0)),
            queries: small(queries),
            scale,
            cap: cap.unwrap_or(0.0),
            from: small(row),
        };
        let grid = [splits.splits, kv_heads * blocks, tiles];
        let mut buffers = vec![query, &splits.sums, &splits.totals, rows.buffer()];
        buffers.extend(slopes);
        // SAFETY: the struct matches that of `attention.cu`, all buffers have the lengths that it expects, and `Inputs`
        // has checked what rows refer to.
        unsafe { gpu.launch(kernel, grid, (128, shared), &args, &buffers)? };
        let args = MergeArgs {
            sums,
            totals,
            rows: args.rows,
            out: out.args(),
            heads: args.heads,
            dim: args.dim,
            splits: args.splits,
            from: args.from,
        };
        let mut buffers = vec![&splits.sums, &splits.totals, rows.buffer()];
        buffers.extend(out.buffers());
        // SAFETY: as above.
        unsafe { gpu.launch("merge", [heads, count, 1], (64, 0), &args, &buffers)? };
    }
    Ok(())
}

/// Rows that are processed together, and their tiles.
struct Share {
    tile: usize,
    tiles: usize,
    row: usize,
    count: usize,
}

/// All rows of a pass. Up to [`RECORDED`] are one share of the full capacity, so that a recording suits other inputs
/// too. If there may be more, only the rows present are included, and each share has at most [`ROWS`].
fn shares(rows: &Inputs, m: usize) -> Vec<Share> {
    if m <= RECORDED {
        return vec![Share { tile: 0, tiles: m, row: 0, count: m }];
    }
    let mut shares: Vec<Share> = Vec::new();
    for (tile, (row, count)) in rows.all_tiles().enumerate() {
        match shares.last_mut() {
            Some(last) if last.count + count <= ROWS => (last.tiles, last.count) = (last.tiles + 1, last.count + count),
            _ => shares.push(Share { tile, tiles: 1, row, count }),
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::split_begin;

    #[test]
    fn splits_follow_each_other() {
        assert_eq!(split_begin(0), 0);
        for split in 0..160 {
            let (begin, end) = (split_begin(split), split_begin(split + 1));
            assert!(begin < end && (end - begin).is_power_of_two(), "{begin}..{end}");
            // Except for the first, none is longer than an eighth of the tokens before it.
            assert!(end - begin <= (begin / 8).max(128), "{begin}..{end}");
        }
        assert_eq!((split_begin(16), split_begin(24), split_begin(64)), (2048, 4096, 1 << 17));
    }
}
