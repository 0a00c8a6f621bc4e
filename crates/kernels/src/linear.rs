//! `out = x * w^T` for the few rows of a decoding step, and for the many of a prompt.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

#[cfg(amx)]
use crate::amx::Amx;
#[cfg(amx)]
use crate::bf16_dot::{SplitRows, dot_bf16};
use crate::block_dot::{self, QuantizedRows, dot_blocks};
use crate::bytewise::{Body, Bytewise};
use crate::decode::{self, Decode};
use crate::dispatch::dispatch;
use crate::format::Format;
use crate::out::Out;
use crate::pool;
use crate::simd::{LANES, LINE};
use crate::weights::{Weights, decode_row};

/// Bytes of weights, times groups of eight rows, below which one thread is faster than two. Miri tests several threads.
const PARALLEL: usize = if cfg!(miri) { 1 } else { 1 << 16 };

/// The number of rows above which weights are decoded into memory before they are used.
const MANY: usize = 16;

/// The number of columns that are decoded at a time then.
const PANEL: usize = 16;

/// The distance in bytes at which memory is prefetched: columns are too short for processors to detect a stream, and
/// hardware prefetching stops at the end of a page.
const AHEAD: usize = 8192;

/// Multiplies rows by a weight matrix: `out[i][j] = sum over c of x[i][c] * w[j][c]`.
///
/// Shapes, row by row: `x` is `m x k`, `w` is `n x k`, `out` is `m x n`. Each element is one sum over `c` in an order
/// that depends only on `k`, so it has the same bits for every `m`, `n` and number of threads. For weights without
/// blocks the bits are those of the product with the decoded weights; for weights in blocks, rows are quantized too, to
/// 8 bits and a scale for each 32 elements, and the products within a block are exact.
///
/// On CPUs with AMX (Intel's since Sapphire Rapids, under Linux) weights in bf16 are multiplied in tiles: each element
/// of `x` is split into the sum of two bf16, with a relative error of at most 2^-17, and sums in f32 run in a different
/// order, with denormals treated as zero. So the last bits differ from those of other CPUs, but do not depend on `m`,
/// `n` or the number of threads.
///
/// # Panics
/// If the lengths do not fit together.
#[doc(alias = "matmul")]
#[doc(alias = "gemm")]
pub fn linear(x: &[f32], w: Weights<'_>, out: &mut [f32]) {
    linear_each(x, w.columns(), &mut [(w, out)]);
}

/// Multiplies the same rows of `k` by several matrices, like [`linear`] for each, but waits for threads only once.
///
/// # Panics
/// If the lengths do not fit together.
pub fn linear_each(x: &[f32], k: usize, parts: &mut [(Weights<'_>, &mut [f32])]) {
    assert!(k > 0 && x.len().is_multiple_of(k), "rows of {k} elements");
    let m = x.len() / k;
    let mut columns = 0;
    let mut bytes = 0;
    for (w, out) in &*parts {
        assert_eq!(w.columns(), k, "rows of {k} elements by rows of {} weights", w.columns());
        assert_eq!(out.len(), m * w.rows(), "the result of {m} rows by {} columns", w.rows());
        columns += w.rows();
        bytes += w.size();
    }
    if m == 0 {
        return;
    }
    let threads = pool::threads();
    let step = match bytes * m.div_ceil(8) < PARALLEL || threads == 1 {
        true => columns.max(1),
        // Several tasks a thread, so that one that is held up does not hold up all.
        false => (columns / (8 * threads)).next_multiple_of(2 * PANEL).clamp(2 * PANEL, 16 * PANEL),
    };
    const MOST: usize = 4;
    assert!(parts.len() <= MOST, "at most {MOST} matrices");
    thread_local!(static PREPARED: Cell<[Prepared; MOST]> = Cell::default());
    let mut prepared = PREPARED.take();
    let formats: [Option<Format>; MOST] = std::array::from_fn(|i| parts.get(i).map(|(w, _)| w.format()));
    // Matrices in the same format share the prepared rows.
    let first = |i: usize| formats.iter().position(|format| *format == formats[i]).unwrap_or(i);
    for (i, prepared) in prepared.iter_mut().enumerate() {
        if let Some(format) = formats[i].filter(|_| first(i) == i) {
            prepared.set(x, k, format);
        }
    }
    let mut outs: [Option<(Weights<'_>, Input<'_>, Out<'_>)>; MOST] = [const { None }; MOST];
    for (i, (to, (w, out))) in outs.iter_mut().zip(parts).enumerate() {
        *to = Some((*w, prepared[first(i)].input(x, w.format()), Out::new(out, w.rows())));
    }
    pool::run(columns.div_ceil(step), &|task| {
        let mut all = task * step..((task + 1) * step).min(columns);
        for (w, rows, out) in outs.iter().flatten() {
            let n = w.rows();
            let own = all.start.min(n)..all.end.min(n);
            if !own.is_empty() {
                // SAFETY: tasks have ranges of columns that do not meet.
                unsafe { of_columns(*rows, *w, own, out) };
            }
            all = all.start.saturating_sub(n)..all.end.saturating_sub(n);
        }
    });
    PREPARED.set(prepared);
}

/// Rows as a format of weights requires them.
#[derive(Clone, Copy)]
enum Input<'a> {
    Floats(&'a [f32]),
    Quantized(&'a QuantizedRows),
    /// For weights in bf16, with AMX.
    #[cfg(amx)]
    Split(&'a SplitRows),
}

/// Rows converted for products, in memory that a thread reuses.
#[derive(Default)]
struct Prepared {
    quantized: QuantizedRows,
    #[cfg(amx)]
    split: Option<SplitRows>,
}

impl Prepared {
    fn set(&mut self, x: &[f32], k: usize, format: Format) {
        if format.block() > 1 {
            self.quantized.set(x, k, format);
        }
        #[cfg(amx)]
        if format == Format::Bf16 {
            self.split = Amx::detect().map(|amx| self.split.take().unwrap_or_else(|| SplitRows::new(amx)));
            self.split.iter_mut().for_each(|split| split.set(x, k));
        }
    }

    /// The rows, which must have been prepared for this format.
    fn input<'a>(&'a self, x: &'a [f32], format: Format) -> Input<'a> {
        #[cfg(amx)]
        if let Some(split) = self.split.as_ref().filter(|_| format == Format::Bf16) {
            return Input::Split(split);
        }
        if format.block() > 1 { Input::Quantized(&self.quantized) } else { Input::Floats(x) }
    }
}

/// Allows or forbids tiles (AMX) in products, and returns whether the CPU has them. For benches: it changes the bits of
/// products with weights in bf16.
#[doc(hidden)]
#[cfg(amx)]
pub fn allow_tiles(allowed: bool) -> bool {
    Amx::allow(allowed)
}

/// Returns `false`: there are no tiles.
#[doc(hidden)]
#[cfg(not(amx))]
pub fn allow_tiles(_: bool) -> bool {
    false
}

dispatch! {
    /// Multiplies every row by some columns, on this thread.
    ///
    /// # Safety
    /// No other thread writes these columns.
    unsafe fn of_columns(x: Input<'_>, w: Weights<'_>, columns: Range<usize>, out: &Out<'_>) = of_columns_body
}

/// # Safety
/// No other thread writes these columns.
#[inline(always)]
unsafe fn of_columns_body<S: Bytewise>(unit: S, x: Input<'_>, w: Weights<'_>, columns: Range<usize>, out: &Out<'_>) {
    // SAFETY: upheld by the caller.
    unsafe {
        match (w.format(), x) {
            (Format::F32, Input::Floats(x)) => of_format::<S, decode::F32>(unit, x, w, columns, out),
            (Format::F16, Input::Floats(x)) => of_format::<S, decode::F16>(unit, x, w, columns, out),
            (Format::Bf16, Input::Floats(x)) => of_format::<S, decode::Bf16>(unit, x, w, columns, out),
            (Format::Q8_0, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q8_0>(unit, x, w, columns, out),
            (Format::Q4_0, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q4_0>(unit, x, w, columns, out),
            (Format::Q4_1, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q4_1>(unit, x, w, columns, out),
            (Format::Q5_0, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q5_0>(unit, x, w, columns, out),
            (Format::Q5_1, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q5_1>(unit, x, w, columns, out),
            (Format::Q2K, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q2K>(unit, x, w, columns, out),
            (Format::Q3K, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q3K>(unit, x, w, columns, out),
            (Format::Q4K, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q4K>(unit, x, w, columns, out),
            (Format::Q5K, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q5K>(unit, x, w, columns, out),
            (Format::Q6K, Input::Quantized(x)) => dot_blocks::<S, block_dot::Q6K>(unit, x, w, columns, out),
            (Format::Iq4Nl, Input::Quantized(x)) => dot_blocks::<S, block_dot::Iq4Nl>(unit, x, w, columns, out),
            (Format::Iq4Xs, Input::Quantized(x)) => dot_blocks::<S, block_dot::Iq4Xs>(unit, x, w, columns, out),
            (Format::Mxfp4, Input::Quantized(x)) => dot_blocks::<S, block_dot::Mxfp4>(unit, x, w, columns, out),
            #[cfg(amx)]
            (Format::Bf16, Input::Split(x)) => dot_bf16(unit, x, w, columns, out),
            (format, _) => unreachable!("rows for {format:?}"),
        }
    }
}

/// # Safety
/// No other thread writes these columns.
#[inline(always)]
unsafe fn of_format<S: Bytewise, F: Decode>(unit: S, x: &[f32], w: Weights<'_>, columns: Range<usize>, out: &Out<'_>) {
    let k = w.columns();
    if x.len() / k <= MANY {
        // SAFETY: upheld by the caller.
        return unsafe { of_rows::<S, F>(unit, x, w, columns, 0, out) };
    }
    thread_local!(static DECODED: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
    // A closure (as for `LocalKey::with`) would not be compiled for the unit.
    let mut decoded = DECODED.take();
    decoded.resize(PANEL * k, 0.0);
    for from in columns.clone().step_by(PANEL) {
        let count = PANEL.min(columns.end - from);
        for (j, row) in decoded.chunks_mut(k).enumerate().take(count) {
            decode_row::<S, F>(unit, w.rows_from(from + j, 1), row);
        }
        let w = Weights::of(&decoded[..count * k], k);
        // SAFETY: upheld by the caller.
        unsafe { of_rows::<S, decode::F32>(unit, x, w, 0..count, from, out) };
    }
    DECODED.set(decoded);
}

/// Multiplies every row by some columns of `w`, which are `shift` further on in the result.
///
/// # Safety
/// No other thread writes these columns.
#[inline(always)]
pub(crate) unsafe fn of_rows<S: Bytewise, F: Decode>(
    unit: S,
    x: &[f32],
    w: Weights<'_>,
    columns: Range<usize>,
    shift: usize,
    out: &Out<'_>,
) {
    let (k, mut row) = (w.columns(), 0);
    let m = x.len() / k;
    while row < m {
        let x = &x[row * k..];
        let run = TileRun { x, w, from: columns.start, to: columns.end, row, shift, out };
        // The sums and the weights of each column should all fit in registers. Formats used here have two registers per
        // step.
        row += match (m - row, S::IS_WIDE) {
            (1, true) => run.run::<S, F, 1, 4>(unit),
            (2, true) => run.run::<S, F, 2, 4>(unit),
            (3, true) => run.run::<S, F, 3, 4>(unit),
            (4, true) => run.run::<S, F, 4, 4>(unit),
            (5 | 6, true) => run.run::<S, F, 6, 3>(unit),
            (_, true) => run.run::<S, F, 8, 2>(unit),
            (1, false) => run.run::<S, F, 1, 2>(unit),
            (2, false) => run.run::<S, F, 2, 1>(unit),
            (_, false) => run.run::<S, F, 4, 1>(unit),
        };
    }
}

/// A run of tiles: the rows from `row` on, times the columns `from..to` of the weights.
#[derive(Clone, Copy)]
struct TileRun<'a> {
    x: &'a [f32],
    w: Weights<'a>,
    from: usize,
    to: usize,
    row: usize,
    shift: usize,
    out: &'a Out<'a>,
}

impl TileRun<'_> {
    /// Multiplies up to `M` rows by all columns, `N` at a time; returns the number of rows.
    #[inline(always)]
    fn run<S: Bytewise, F: Decode, const M: usize, const N: usize>(self, unit: S) -> usize {
        unit.run(Tiles::<F, M, N>(self, PhantomData));
        M.min(self.x.len() / self.w.columns())
    }
}

struct Tiles<'a, F, const M: usize, const N: usize>(TileRun<'a>, PhantomData<F>);

impl<F: Decode, const M: usize, const N: usize> Body for Tiles<'_, F, M, N> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self(TileRun { x, w, from, to, row, shift, out }, _) = self;
        let k = w.columns();
        let rows = M.min(x.len() / k);
        let set = |j: usize, a: usize, sum| {
            // SAFETY: these columns belong to this task, as the caller of `of_columns` promised.
            unsafe { out.set(row + a, shift + j, sum) }
        };
        let mut j = from;
        while j + N <= to {
            let sums = tile::<S, F, M, N>(unit, x, rows, w.rows_from(j, N), w.stride(), k);
            for (a, sums) in sums[..rows].iter().enumerate() {
                sums.iter().enumerate().for_each(|(b, &sum)| set(j + b, a, sum));
            }
            j += N;
        }
        for j in j..to {
            let sums = tile::<S, F, M, 1>(unit, x, rows, w.rows_from(j, 1), w.stride(), k);
            sums[..rows].iter().enumerate().for_each(|(a, &[sum])| set(j, a, sum));
        }
    }
}

/// `M` rows times `N` columns, with the sums in registers. If there are fewer `rows`, the last one is repeated.
#[inline(always)]
fn tile<S: Bytewise, F: Decode, const M: usize, const N: usize>(
    unit: S,
    x: &[f32],
    rows: usize,
    w: &[u8],
    stride: usize,
    k: usize,
) -> [[f32; N]; M] {
    let steps = k / F::STEP;
    assert!(rows >= 1 && x.len() >= rows * k, "rows of {k}");
    assert!(w.len() >= (N - 1) * stride + steps * F::STEP_BYTES, "columns of {k}");
    let mut row = [0; M];
    for (a, row) in row.iter_mut().enumerate() {
        *row = a.min(rows - 1) * k;
    }
    let mut sums = [[unit.zero(); N]; M];
    for step in 0..steps {
        let mut bytes: [&[u8]; N] = [&[]; N];
        for (b, bytes) in bytes.iter_mut().enumerate() {
            // SAFETY: column `b` begins at `b * stride` and has the bytes of all steps.
            *bytes = unsafe { w.get_unchecked(b * stride + step * F::STEP_BYTES..).get_unchecked(..F::STEP_BYTES) };
            for line in (0..F::STEP_BYTES).step_by(LINE) {
                unit.prefetch(bytes.as_ptr().wrapping_add(AHEAD + line));
            }
        }
        let mut heads = [F::header(unit, bytes[0]); N];
        for b in 1..N {
            heads[b] = F::header(unit, bytes[b]);
        }
        let mut at = step * F::STEP;
        for part in 0..F::PARTS {
            // Parts with fewer registers leave the others unused.
            let mut weights = [[unit.zero(); N]; 4];
            for b in 0..N {
                let of_part = F::part(unit, bytes[b], &heads[b], part);
                for (to, &from) in weights.iter_mut().zip(of_part.as_ref()) {
                    to[b] = from;
                }
            }
            for weights in &weights[..F::LANES] {
                for a in 0..M {
                    // SAFETY: row `a` has `k` elements from `row[a]`, and all steps together have at most `k`.
                    let x = unsafe { &*x.as_ptr().add(row[a] + at).cast::<[f32; LANES]>() };
                    let x = unit.load(x);
                    for b in 0..N {
                        sums[a][b] = unit.fma(x, weights[b], sums[a][b]);
                    }
                }
                at += LANES;
            }
        }
    }
    let rest = k - steps * F::STEP;
    let mut out = [[0.0; N]; M];
    for b in 0..N {
        let mut w_rest = [0.0; 2 * LANES];
        if rest > 0 {
            F::rest(&w[b * stride + steps * F::STEP_BYTES..], &mut w_rest[..rest]);
        }
        for a in 0..M {
            let (mut sum, mut x_rest, mut w_rest) = (sums[a][b], &x[row[a] + k - rest..row[a] + k], &w_rest[..rest]);
            if let (Some((x, x_last)), Some((w, w_last))) = (x_rest.split_first_chunk(), w_rest.split_first_chunk()) {
                sum = unit.fma(unit.load(x), unit.load(w), sum);
                (x_rest, w_rest) = (x_last, w_last);
            }
            out[a][b] = unit.finish(sum, x_rest, w_rest);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Portable, Simd};
    use crate::weights::decode_any;
    use verdigris_logits::{Purpose, Random};

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 2.0 - 1.0).collect()
    }

    /// Random bytes as weights, with scales in a reasonable range.
    fn stored(format: Format, rows: usize, k: usize) -> Vec<u8> {
        let random = Random::new(7);
        let byte = |i: usize| (random.uniform(i as u64, Purpose::Token) * 256.0) as u8;
        let mut bytes: Vec<u8> = (0..rows * format.bytes(k)).map(byte).collect();
        // Scales of about 1/16: 0x2c00 in half precision, 0x3d80 as the upper half of an `f32`.
        let scales: &[usize] = match format {
            Format::F32 => &[2],
            Format::F16 | Format::Bf16 | Format::Q8_0 | Format::Q4_0 | Format::Q5_0 => &[0],
            Format::Iq4Nl | Format::Iq4Xs => &[0],
            Format::Mxfp4 => &[],
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
            Format::Q2K => &[80, 82],
            Format::Q3K => &[108],
            Format::Q6K => &[208],
        };
        for block in bytes.chunks_mut(format.block_bytes()) {
            if format == Format::Mxfp4 {
                // From 2^-10 to 1/8.
                block[0] = 117 + block[0] % 8;
            }
            for &at in scales {
                let exponent = if matches!(format, Format::F32 | Format::Bf16) { 0x3d } else { 0x2c };
                block[at + 1] = exponent | block[at + 1] & 0x80;
            }
        }
        bytes
    }

    /// Small enough for Miri: every format, one row and several, on several threads.
    #[test]
    fn in_small() {
        for format in Format::ALL {
            let (n, k) = (9, if format.block() == 1 { 20 } else { format.block() });
            let bytes = stored(format, n, k);
            let (x, w) = (noise(3 * k, 2), Weights::new(format, &bytes, k));
            let (mut alone, mut together) = (vec![f32::NAN; 3 * n], vec![f32::NAN; 3 * n]);
            x.chunks(k).zip(alone.chunks_mut(n)).for_each(|(x, out)| linear(x, w, out));
            linear(&x, w, &mut together);
            assert_eq!(together, alone, "{format:?}");
        }
    }

    /// The list in `ggml-common.h`.
    fn non_linear(q: u8) -> f64 {
        let list = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
        f64::from(list[usize::from(q)])
    }

    /// A weight according to its definition.
    fn exact(format: Format, row: &[u8], c: usize) -> f64 {
        let half = |bytes: &[u8]| f64::from(crate::half::half([bytes[0], bytes[1]]));
        let block = &row[c / format.block() * format.block_bytes()..][..format.block_bytes()];
        let i = c % format.block();
        match format {
            Format::F32 => f32::from_le_bytes(block.try_into().unwrap()).into(),
            Format::F16 => half(block),
            Format::Bf16 => f32::from_le_bytes([0, 0, block[0], block[1]]).into(),
            Format::Q8_0 => half(block) * f64::from(block[2 + i] as i8),
            Format::Q4_0 => half(block) * (f64::from(block[2 + i % 16] >> (4 * (i / 16)) & 15) - 8.0),
            Format::Q4_1 => half(block) * f64::from(block[4 + i % 16] >> (4 * (i / 16)) & 15) + half(&block[2..]),
            Format::Q5_0 | Format::Q5_1 => {
                let (least, fifths) =
                    if format == Format::Q5_0 { (-16.0 * half(block), 2) } else { (half(&block[2..]), 4) };
                let fifth = block[fifths + i / 8] >> (i % 8) & 1;
                half(block) * f64::from(block[fifths + 4 + i % 16] >> (4 * (i / 16)) & 15 | fifth << 4) + least
            }
            Format::Q2K => {
                let (q, fine) = (block[16 + i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3, block[i / 16]);
                half(&block[80..]) * f64::from(fine & 15) * f64::from(q) - half(&block[82..]) * f64::from(fine >> 4)
            }
            Format::Q3K => {
                let low = block[32 + i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
                let (high, j, packed) = (block[i % 32] >> (i / 32) & 1, i / 16, &block[96..108]);
                let fine = packed[j % 8] >> (4 * (j / 8)) & 15 | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
                half(&block[108..]) * (f64::from(fine) - 32.0) * (f64::from(low | high << 2) - 4.0)
            }
            Format::Q4K | Format::Q5K => {
                let is_of_five = format == Format::Q5K;
                let (j, lower) = (i / 32, if is_of_five { 48 } else { 16 });
                let fifth = if is_of_five { block[16 + i % 32] >> j & 1 } else { 0 };
                let q = block[lower + i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15 | fifth << 4;
                let packed = &block[4..16];
                let (s, m) = if j < 4 {
                    (packed[j] & 63, packed[j + 4] & 63)
                } else {
                    (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
                };
                half(block) * f64::from(s) * f64::from(q) - half(&block[2..]) * f64::from(m)
            }
            Format::Q6K => {
                let (n, l, quarter) = (i / 128, i % 32, i % 128 / 32);
                let low = block[64 * n + l + 32 * (quarter % 2)] >> (4 * (quarter / 2)) & 15;
                let high = block[128 + 32 * n + l] >> (2 * quarter) & 3;
                let scale = f64::from(block[192 + 8 * n + l / 16 + 2 * quarter] as i8);
                half(&block[208..]) * scale * (f64::from(low | high << 4) - 32.0)
            }
            Format::Iq4Nl => half(block) * non_linear(block[2 + i % 16] >> (4 * (i / 16)) & 15),
            Format::Iq4Xs => {
                let (j, upper) = (i / 32, u16::from_le_bytes([block[2], block[3]]));
                let fine = block[4 + j / 2] >> (4 * (j % 2)) & 15 | ((upper >> (2 * j) & 3) as u8) << 4;
                let q = block[8 + 16 * j + i % 16] >> (4 * (i % 32 / 16)) & 15;
                half(block) * (f64::from(fine) - 32.0) * non_linear(q)
            }
            Format::Mxfp4 => {
                let q = block[1 + i % 16] >> (4 * (i / 16)) & 15;
                let (exponent, more) = (i32::from(q >> 1 & 3), f64::from(q & 1));
                let size = if exponent == 0 { more / 2.0 } else { (1.0 + more / 2.0) * 2f64.powi(exponent - 1) };
                2f64.powi(i32::from(block[0]) - 127) * if q >= 8 { -size } else { size }
            }
        }
    }

    fn sizes(format: Format) -> &'static [usize] {
        match format.block() {
            1 => &[1, 15, 16, 17, 31, 32, 33, 63, 100, 256],
            32 => &[32, 96, 256],
            _ => &[256, 768],
        }
    }

    #[test]
    fn weights_are_those_of_the_definition() {
        for format in Format::ALL {
            for &k in sizes(format) {
                let bytes = stored(format, 3, k);
                let w = Weights::new(format, &bytes, k);
                for j in 0..3 {
                    let (mut out, mut plain) = (vec![f32::NAN; k], vec![f32::NAN; k]);
                    w.decode(j, &mut out);
                    decode_any(Portable, format, w.rows_from(j, 1), &mut plain);
                    for (c, &got) in out.iter().enumerate() {
                        assert_eq!(got, exact(format, w.rows_from(j, 1), c) as f32, "{format:?} {k} {j} {c}");
                    }
                    assert_eq!(out, plain, "{format:?} without SIMD");
                }
            }
        }
    }

    /// Rows prepared for a format.
    fn with_rows<T>(format: Format, x: &[f32], k: usize, f: impl FnOnce(Input<'_>) -> T) -> T {
        let mut prepared = Prepared::default();
        prepared.set(x, k, format);
        f(prepared.input(x, format))
    }

    /// Rows prepared for a format, for units without tiles.
    fn with_rows_untiled<T>(format: Format, x: &[f32], k: usize, f: impl FnOnce(Input<'_>) -> T) -> T {
        if format.block() == 1 { f(Input::Floats(x)) } else { with_rows(format, x, k, f) }
    }

    /// Whether sums run in a different order than without tiles.
    fn is_tiled(format: Format) -> bool {
        with_rows(format, &[1.0; 256], 256, |rows| !matches!(rows, Input::Floats(_) | Input::Quantized(_)))
    }

    /// Every format, tile shape, remainder and unit, with few rows and many, gives the bits of one row alone, and they
    /// are within rounding of the sum in f64 over the prepared rows.
    #[test]
    fn every_path_gives_the_same_bits_and_they_are_right() {
        const ROWS: usize = 19;
        for format in Format::ALL {
            for &k in sizes(format) {
                for n in [1, 3, 8, 37] {
                    let bytes = stored(format, n, k);
                    let w = Weights::new(format, &bytes, k);
                    let mut numbers = vec![0.0; n * k];
                    numbers.chunks_mut(k).enumerate().for_each(|(j, row)| w.decode(j, row));
                    let x = noise(ROWS * k, 2);
                    // Results of single rows, on this CPU and on CPUs without tiles.
                    let (mut alone, mut without) = (Vec::new(), Vec::new());
                    for row in x.chunks(k) {
                        let mut out = vec![f32::NAN; n];
                        linear(row, w, &mut out);
                        if format.block() == 1 {
                            without.extend(numbers.chunks(k).map(|w| Portable.dot(row, w)));
                        } else {
                            without.extend_from_slice(&out);
                        }
                        alone.extend(out);
                    }
                    if !is_tiled(format) {
                        assert_eq!(alone, without, "{format:?} n {n} k {k}");
                    }
                    for m in (0..=10).chain([16, 17, ROWS]) {
                        let mut out = vec![f32::NAN; m * n];
                        linear(&x[..m * k], w, &mut out);
                        assert_eq!(out, alone[..m * n], "{format:?} m {m} n {n} k {k}");
                        let mut plain = vec![f32::NAN; m * n];
                        if m > 0 {
                            with_rows_untiled(format, &x[..m * k], k, |rows| {
                                // SAFETY: there is one thread.
                                unsafe { of_columns_body(Portable, rows, w, 0..n, &Out::new(&mut plain, n)) };
                            });
                        }
                        assert_eq!(plain, without[..m * n], "{format:?} without SIMD: m {m} n {n} k {k}");
                        #[cfg(target_arch = "x86_64")]
                        if let Some(unit) = crate::simd::Avx2::detect().filter(|_| m > 0) {
                            let mut narrow = vec![f32::NAN; m * n];
                            with_rows_untiled(format, &x[..m * k], k, |rows| {
                                // SAFETY: there is one thread.
                                unsafe { of_columns_body(unit, rows, w, 0..n, &Out::new(&mut narrow, n)) };
                            });
                            assert_eq!(narrow, plain, "{format:?} with half the SIMD: m {m} n {n} k {k}");
                        }
                        #[cfg(target_arch = "x86_64")]
                        if let Some(unit) = crate::simd::Avx512::detect().filter(|_| m > 0) {
                            let mut wide = vec![f32::NAN; m * n];
                            with_rows_untiled(format, &x[..m * k], k, |rows| {
                                // SAFETY: there is one thread.
                                unsafe { of_columns_body(unit, rows, w, 0..n, &Out::new(&mut wide, n)) };
                            });
                            assert_eq!(wide, plain, "{format:?} in vectors: m {m} n {n} k {k}");
                        }
                    }
                    for (i, row) in x.chunks(k).enumerate() {
                        let seen = with_rows(format, &x, k, |rows| match rows {
                            Input::Floats(_) => row.iter().map(|&x| f64::from(x)).collect(),
                            Input::Quantized(quantized) => quantized.numbers(i),
                            #[cfg(amx)]
                            Input::Split(split) => split.numbers(i, k),
                        });
                        // Within half of a 127th of the largest element of a block.
                        assert!(
                            row.iter().zip(&seen).all(|(x, seen)| (f64::from(*x) - seen).abs() <= 0.5 / 127.0 + 1e-6)
                        );
                        for (j, w) in numbers.chunks(k).enumerate() {
                            let exact: f64 = seen.iter().zip(w).map(|(a, b)| a * f64::from(*b)).sum();
                            // Offsets of weights are added separately.
                            let largest = w.iter().fold(0f32, |most, w| most.max(w.abs()));
                            let scale: f64 = seen.iter().map(|a| a.abs() * f64::from(largest)).sum();
                            let got = f64::from(alone[i * n + j]);
                            assert!((got - exact).abs() <= 1e-6 * scale + 1e-12, "{format:?} {got} {exact}");
                        }
                    }
                }
            }
        }
    }

    /// Rows with NaN or infinity give results that are not finite; very large or small numbers give finite ones.
    #[test]
    fn strange_rows() {
        for format in Format::ALL {
            let bytes = stored(format, 2, 256);
            let w = Weights::new(format, &bytes, 256);
            for (strange, is_number) in
                [(f32::NAN, false), (f32::INFINITY, false), (1e-45, true), (0.0, true), (1e30, true)]
            {
                let mut x = noise(256, 5);
                x[77] = strange;
                let mut out = vec![0.0; 2];
                linear(&x, w, &mut out);
                assert_eq!(out.iter().all(|y| y.is_finite()), is_number, "{format:?} {strange}: {out:?}");
                x.fill(if is_number { strange } else { 0.0 });
                linear(&x, w, &mut out);
                assert!(out.iter().all(|y| y.is_finite()), "{format:?} {strange}");
            }
        }
    }

    #[test]
    fn several_matrices_on_several_threads() {
        let (m, k) = (3, 512);
        let x = noise(m * k, 3);
        let formats = [(Format::Q8_0, 700), (Format::F32, 1), (Format::Q4K, 333), (Format::Bf16, 64)];
        let stored = formats.map(|(format, n)| stored(format, n, k));
        let weights: [_; 4] = std::array::from_fn(|i| Weights::new(formats[i].0, &stored[i], k));
        let mut alone: [Vec<f32>; 4] = formats.map(|(_, n)| vec![0.0; m * n]);
        for (w, out) in weights.iter().zip(&mut alone) {
            with_rows(w.format(), &x, k, |rows| {
                // SAFETY: there is one thread.
                unsafe { of_columns(rows, *w, 0..w.rows(), &Out::new(out, w.rows())) };
            });
        }
        let mut together: [Vec<f32>; 4] = formats.map(|(_, n)| vec![f32::NAN; m * n]);
        let [a, b, c, d] = &mut together;
        let mut parts = [(weights[0], &mut a[..]), (weights[1], b), (weights[2], c), (weights[3], d)];
        linear_each(&x, k, &mut parts);
        assert_eq!(together, alone);
    }

    #[test]
    #[should_panic(expected = "rows of 100 weights in Q8_0")]
    fn rows_are_whole_blocks() {
        Weights::new(Format::Q8_0, &[], 100);
    }
}
