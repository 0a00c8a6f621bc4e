//! Attention of a few new tokens over a cache of keys and values, which is read where it lies.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::bytewise::{Body, Bytewise};
use crate::decode::{self, Decode};
use crate::dispatch::dispatch;
use crate::format::{self, Format};
use crate::linear::of_rows;
use crate::out::Out;
use crate::pool;
use crate::simd::{LANES, Simd};
use crate::weights::Weights;

/// Bytes of keys, times sets of eight rows, below which one thread is faster than two. Miri is to see several.
const PARALLEL: usize = if cfg!(miri) { 1 } else { 1 << 15 };

/// Rows of queries that one task computes.
const ROWS: usize = 64;

/// The heads of an attention layer. `heads / kv_heads` query heads share one head of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
}

/// Keys or values of one layer: `t x kv_heads x head_dim`, as they are stored, in one piece or in pages.
#[derive(Clone, Copy, Debug)]
pub struct Cached<'a> {
    format: Format,
    /// Bytes of them all.
    bytes: usize,
    memory: Memory<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Memory<'a> {
    Contiguous(&'a [u8]),
    /// In each page so many bytes, from an offset that is the same in all.
    Pages {
        pages: &'a [Arc<Vec<u8>>],
        from: usize,
        bytes: usize,
    },
}

impl<'a> Cached<'a> {
    /// Keys or values that follow each other. A head is whole blocks.
    pub fn new(format: Format, bytes: &'a [u8]) -> Self {
        Self { format, bytes: bytes.len(), memory: Memory::Contiguous(bytes) }
    }

    /// Keys or values of `total` bytes in pages: of each page `bytes` from byte `from` on, the last of them only as far
    /// as needed.
    ///
    /// # Panics
    /// If the pages do not hold so much.
    pub fn paged(format: Format, total: usize, pages: &'a [Arc<Vec<u8>>], from: usize, bytes: usize) -> Self {
        assert!(bytes > 0 && pages.len() * bytes >= total, "{total} bytes in {} pages of {bytes}", pages.len());
        assert!(pages.iter().all(|page| page.len() >= from + bytes), "pages with {bytes} bytes at {from}");
        Self { format, bytes: total, memory: Memory::Pages { pages, from, bytes } }
    }

    /// Keys or values in memory as numbers.
    pub fn of(numbers: &'a [f32]) -> Self {
        Self::new(Format::F32, format::bytes(numbers))
    }

    /// How many tokens a page holds that has `token` bytes for each.
    fn tokens_a_page(&self, token: usize) -> usize {
        match self.memory {
            Memory::Contiguous(_) => (self.bytes / token).max(1),
            Memory::Pages { bytes, .. } => bytes / token,
        }
    }

    /// One head of the first tokens of a page.
    fn head(&self, shape: Heads, head: usize, page: usize, tokens: usize) -> Weights<'a> {
        let row = self.format.bytes(shape.head_dim);
        let token = shape.kv_heads * row;
        let of_page = match self.memory {
            Memory::Contiguous(bytes) => bytes,
            Memory::Pages { pages, from, bytes } => &pages[page][from..from + bytes],
        };
        // The heads after it do not belong to its last row.
        let of_head = &of_page[head * row..(tokens - 1) * token + (head + 1) * row];
        Weights::strided(self.format, of_head, shape.head_dim, token)
    }
}

/// Which tokens each query may attend to, and how scores change with distance: a causal mask, a tree's mask, a sliding
/// window, ALiBi.
#[doc(alias = "attn_bias")]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMask<'a> {
    /// Among the `m` new tokens row `r` sees `j` where `visible[r * m + j]`; without this, where `j <= r`.
    pub visible: Option<&'a [bool]>,
    /// The positions of the new tokens. Those before stand at 0, 1 and so on. Needed for what follows.
    pub positions: &'a [u32],
    /// Only tokens less than so far back are seen (a sliding window).
    pub window: Option<usize>,
    /// For each query head, what is taken from a score for each position back (ALiBi: Press, Smith and Lewis 2022).
    pub slopes: Option<&'a [f32]>,
    /// Scores `s` become `cap * tanh(s / cap)` (Gemma 2).
    pub cap: Option<f32>,
}

/// Attends: `out[r][h] = sum over visible j of softmax_j(scale * q[r][h] . k[j][h']) * v[j][h']`.
///
/// Shapes, row by row: `q` and `out` are `m x heads x head_dim`; `k` and `v` are `t x kv_heads x head_dim` with
/// the `m` new tokens last. Every row sees the `t - m` tokens before the new ones, as far as its window goes.
///
/// Sums run over keys in an order of their own, and hidden ones change no bit: a branch of a tree has the row that it
/// has alone.
///
/// # Panics
/// If the lengths do not fit together.
#[doc(alias = "scaled_dot_product_attention")]
pub fn attend(
    q: &[f32],
    k: Cached<'_>,
    v: Cached<'_>,
    shape: Heads,
    mask: AttentionMask<'_>,
    scale: f32,
    out: &mut [f32],
) {
    let Heads { heads, kv_heads, head_dim } = shape;
    assert!(kv_heads > 0 && heads.is_multiple_of(kv_heads) && head_dim > 0, "{shape:?}");
    let m = q.len() / (heads * head_dim);
    let token = kv_heads * k.format.bytes(head_dim);
    let t = k.bytes / token;
    assert_eq!(k.format, v.format, "values as keys");
    assert!(head_dim.is_multiple_of(k.format.block()), "heads of {head_dim} in {:?}", k.format);
    assert_eq!((q.len(), k.bytes, v.bytes), (m * heads * head_dim, t * token, t * token), "whole tokens");
    let page = k.tokens_a_page(token);
    assert_eq!(v.tokens_a_page(token), page, "values in pages as keys");
    assert_eq!(out.len(), q.len(), "results as queries");
    assert!(m <= t, "{m} new tokens among {t}");
    assert!(mask.visible.is_none_or(|visible| visible.len() == m * m), "a mask over the new tokens");
    let by_position = mask.window.is_some() || mask.slopes.is_some();
    assert!(!by_position || mask.positions.len() == m, "a position for each new token");
    assert!(mask.slopes.is_none_or(|slopes| slopes.len() == heads), "a slope for each head");
    if m == 0 {
        return;
    }
    let group = heads / kv_heads;
    let blocks = (m * group).div_ceil(ROWS);
    let out = Out::new(out, heads * head_dim);
    let run = |index: usize| {
        let (head, block) = (index / blocks, index % blocks);
        let rows = block * ROWS..((block + 1) * ROWS).min(m * group);
        let task = Task { q, k, v, page, shape, mask, scale, m, t, head };
        // SAFETY: tasks have rows and heads that do not meet.
        unsafe { some_rows(&task, rows.start, rows.end, &out) };
    };
    if k.bytes * (m * group).div_ceil(8) < PARALLEL {
        (0..kv_heads * blocks).for_each(run);
    } else {
        pool::run(kv_heads * blocks, &run);
    }
}

/// What a task reads.
struct Task<'a> {
    q: &'a [f32],
    k: Cached<'a>,
    v: Cached<'a>,
    /// Tokens of a page.
    page: usize,
    shape: Heads,
    mask: AttentionMask<'a>,
    scale: f32,
    m: usize,
    t: usize,
    head: usize,
}

/// Memory that stays with a thread.
#[derive(Default)]
struct Scratch {
    queries: Vec<f32>,
    scores: Vec<f32>,
    sums: Vec<f32>,
}

thread_local!(static SCRATCH: Cell<Scratch> = Cell::default());

dispatch! {
    /// Some rows of one head of keys: the query heads of a token follow each other, then the next token's.
    ///
    /// # Safety
    /// No other thread writes these rows of this head.
    unsafe fn some_rows(task: &Task<'_>, from: usize, to: usize, out: &Out<'_>) = some_rows_body
}

/// # Safety
/// No other thread writes these rows of this head.
#[inline(always)]
unsafe fn some_rows_body<S: Bytewise>(unit: S, task: &Task<'_>, from: usize, to: usize, out: &Out<'_>) {
    let Heads { heads, kv_heads, head_dim } = task.shape;
    let group = heads / kv_heads;
    let token_and_head = |row: usize| (row / group, task.head * group + row % group);
    // In a closure it would not be compiled for the unit.
    let mut scratch = SCRATCH.take();
    let Scratch { queries, scores, sums } = &mut scratch;
    queries.clear();
    for row in from..to {
        let (token, head) = token_and_head(row);
        let at = (token * heads + head) * head_dim;
        queries.extend_from_slice(&task.q[at..at + head_dim]);
    }
    // What no row of these sees is not read.
    let held = task.t - task.m;
    let seen = if task.mask.visible.is_some() { task.t } else { held + token_and_head(to - 1).0 + 1 };
    let rows = to - from;
    // Rows of scores are whole lanes.
    let width = seen.next_multiple_of(LANES);
    scores.clear();
    scores.resize(rows * width, 0.0);
    let to_scores = Out::new(scores, width);
    for (page, first) in (0..seen).step_by(task.page).enumerate() {
        let tokens = task.page.min(seen - first);
        let keys = task.k.head(task.shape, task.head, page, tokens);
        // SAFETY: the scores are this thread's.
        unsafe {
            match keys.format() {
                Format::F32 => of_rows::<S, decode::F32>(unit, queries, keys, 0..tokens, first, &to_scores),
                Format::F16 => of_rows::<S, decode::F16>(unit, queries, keys, 0..tokens, first, &to_scores),
                Format::Bf16 => of_rows::<S, decode::Bf16>(unit, queries, keys, 0..tokens, first, &to_scores),
                Format::Q8_0 => of_rows::<S, decode::Q8_0>(unit, queries, keys, 0..tokens, first, &to_scores),
                format => unreachable!("caches are not stored as {format:?}"),
            }
        }
    }
    for (row, scores) in (from..to).zip(scores.chunks_mut(width)) {
        let (token, head) = token_and_head(row);
        softmax(unit, task, token, head, held, seen, scores);
    }
    sums.clear();
    sums.resize(rows * head_dim, 0.0);
    for (page, first) in (0..seen).step_by(task.page).enumerate() {
        let tokens = task.page.min(seen - first);
        let values = task.v.head(task.shape, task.head, page, tokens);
        let mix = Mix { weights: &scores[first..], width, rows, v: values, seen: tokens, out: sums };
        match values.format() {
            Format::F32 => mix.run::<S, decode::F32>(unit),
            Format::F16 => mix.run::<S, decode::F16>(unit),
            Format::Bf16 => mix.run::<S, decode::Bf16>(unit),
            Format::Q8_0 => mix.run::<S, decode::Q8_0>(unit),
            format => unreachable!("caches are not stored as {format:?}"),
        }
    }
    for (row, sums) in (from..to).zip(sums.chunks(head_dim)) {
        let (token, head) = token_and_head(row);
        for (d, &sum) in sums.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { out.set(token, head * head_dim + d, sum) };
        }
    }
    SCRATCH.set(scratch);
}

/// Scores become weights: those of what is not seen are zero, and so is what fills up the lanes.
#[inline(always)]
fn softmax<S: Simd>(unit: S, task: &Task<'_>, token: usize, head: usize, held: usize, seen: usize, scores: &mut [f32]) {
    let AttentionMask { visible, positions, window, slopes, cap } = task.mask;
    let scale = unit.splat(task.scale);
    for lanes in scores.as_chunks_mut::<LANES>().0 {
        *lanes = unit.store(unit.mul(unit.load(lanes), scale));
    }
    if let Some(cap) = cap {
        scores.iter_mut().for_each(|score| *score = cap * (*score / cap).tanh());
    }
    if window.is_some() || slopes.is_some() {
        let position = positions[token] as usize;
        let back = |j: usize| position as f32 - if j < held { j as f32 } else { positions[j - held] as f32 };
        if let Some(slopes) = slopes {
            scores[..seen].iter_mut().enumerate().for_each(|(j, score)| *score -= slopes[head] * back(j));
        }
        if let Some(window) = window {
            let far = |j: usize| back(j) >= window as f32;
            let hidden = scores[..seen].iter_mut().enumerate().filter(|(j, _)| far(*j));
            hidden.for_each(|(_, score)| *score = f32::NEG_INFINITY);
        }
    }
    match visible {
        Some(visible) => {
            let row = &visible[token * task.m..(token + 1) * task.m];
            let hidden = scores[held..seen].iter_mut().zip(row).filter(|(_, sees)| !**sees);
            hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
        }
        None => scores[(held + token + 1).min(seen)..seen].fill(f32::NEG_INFINITY),
    }
    scores[seen..].fill(f32::NEG_INFINITY);
    let mut max = unit.splat(f32::NEG_INFINITY);
    for lanes in scores.as_chunks::<LANES>().0 {
        max = unit.max(max, unit.load(lanes));
    }
    let max = unit.store(max).into_iter().fold(f32::NEG_INFINITY, f32::max);
    let below = unit.splat(-max);
    let mut total = unit.zero();
    for lanes in scores.as_chunks_mut::<LANES>().0 {
        let weights = unit.store(unit.exp(unit.add(unit.load(lanes), below)));
        for (to, weight) in lanes.iter_mut().zip(weights) {
            *to = if *to == f32::NEG_INFINITY { 0.0 } else { weight };
        }
        if visible.is_none() {
            total = unit.add(total, unit.load(lanes));
        }
    }
    if let Some(visible) = visible {
        // Each counts in the lane in which it would, if what is hidden were not there.
        let row = &visible[token * task.m..(token + 1) * task.m];
        let seen = (0..held).chain((held..).zip(row).filter(|(_, sees)| **sees).map(|(j, _)| j));
        let mut sums = [0.0; LANES];
        seen.enumerate().for_each(|(rank, j)| sums[rank % LANES] += scores[j]);
        total = unit.load(&sums);
    }
    let share = unit.splat(1.0 / unit.finish(total, &[], &[]));
    for lanes in scores.as_chunks_mut::<LANES>().0 {
        *lanes = unit.store(unit.mul(unit.load(lanes), share));
    }
}

/// Rows of weights times the values of a page, added to what the pages before gave.
struct Mix<'a> {
    weights: &'a [f32],
    width: usize,
    rows: usize,
    v: Weights<'a>,
    seen: usize,
    out: &'a mut [f32],
}

impl Mix<'_> {
    #[inline(always)]
    fn run<S: Bytewise, F: Decode>(self, unit: S) {
        let Self { weights, width, rows, v, seen, out } = self;
        let k = v.columns();
        let mut row = 0;
        while row < rows {
            let weights = &weights[row * width..];
            let out = &mut out[row * k..];
            let count = match (rows - row, S::IS_WIDE) {
                (left @ 1..=2, _) => left,
                (_, false) => 2,
                (3, true) => 3,
                (_, true) => 4,
            };
            match count {
                1 => unit.run(MixRows::<F, 1> { weights, width, v, seen, out, of: PhantomData }),
                2 => unit.run(MixRows::<F, 2> { weights, width, v, seen, out, of: PhantomData }),
                3 => unit.run(MixRows::<F, 3> { weights, width, v, seen, out, of: PhantomData }),
                _ => unit.run(MixRows::<F, 4> { weights, width, v, seen, out, of: PhantomData }),
            }
            row += count;
        }
    }
}

struct MixRows<'a, F, const M: usize> {
    weights: &'a [f32],
    width: usize,
    v: Weights<'a>,
    seen: usize,
    out: &'a mut [f32],
    of: PhantomData<F>,
}

impl<F: Decode, const M: usize> Body for MixRows<'_, F, M> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let Self { weights, width, v, seen, out, .. } = self;
        let k = v.columns();
        let steps = k / F::STEP;
        for step in (0..steps - steps % 2).step_by(2) {
            some_steps::<S, F, M, 2>(unit, weights, width, v, seen, step, out);
        }
        if !steps.is_multiple_of(2) {
            some_steps::<S, F, M, 1>(unit, weights, width, v, seen, steps - 1, out);
        }
        let rest = k - steps * F::STEP;
        if rest > 0 {
            let mut values = [0.0; 2 * LANES];
            for j in 0..seen {
                F::rest(&v.rows_from(j, 1)[steps * F::STEP_BYTES..], &mut values[..rest]);
                for a in 0..M {
                    let weight = weights[a * width + j];
                    let to = &mut out[a * k + k - rest..][..rest];
                    to.iter_mut().zip(&values).for_each(|(to, &value)| *to = weight.mul_add(value, *to));
                }
            }
        }
    }
}

/// `N` steps of the values from `step` on, for `M` rows of weights.
#[inline(always)]
fn some_steps<S: Simd, F: Decode, const M: usize, const N: usize>(
    unit: S,
    weights: &[f32],
    width: usize,
    v: Weights<'_>,
    seen: usize,
    step: usize,
    out: &mut [f32],
) {
    let k = v.columns();
    // Formats of caches have two lanes a step.
    let mut sums = [[[unit.zero(); 2]; N]; M];
    for (a, sums) in sums.iter_mut().enumerate() {
        for (n, sums) in sums.iter_mut().enumerate() {
            let (lanes, _) = out[a * k + (step + n) * F::STEP..][..F::STEP].as_chunks();
            *sums = [unit.load(&lanes[0]), unit.load(&lanes[1])];
        }
    }
    for j in 0..seen {
        let bytes = &v.rows_from(j, 1)[step * F::STEP_BYTES..][..N * F::STEP_BYTES];
        for (n, bytes) in bytes.chunks_exact(F::STEP_BYTES).enumerate() {
            let head = F::header(unit, bytes);
            let part = F::part(unit, bytes, &head, 0);
            let &[first, second] = part.as_ref() else { unreachable!("two lanes") };
            for (a, sums) in sums.iter_mut().enumerate() {
                let weight = unit.splat(weights[a * width + j]);
                sums[n][0] = unit.fma(weight, first, sums[n][0]);
                sums[n][1] = unit.fma(weight, second, sums[n][1]);
            }
        }
    }
    for (a, sums) in sums.iter().enumerate() {
        for (n, &[first, second]) in sums.iter().enumerate() {
            let to = &mut out[a * k + (step + n) * F::STEP..][..F::STEP];
            to[..LANES].copy_from_slice(&unit.store(first));
            to[LANES..].copy_from_slice(&unit.store(second));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random};

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 4.0 - 2.0).collect()
    }

    fn exact(
        q: &[f32],
        k: &[f32],
        v: &[f32],
        shape: Heads,
        sees: impl Fn(usize, usize) -> bool,
        scale: f32,
    ) -> Vec<f64> {
        let Heads { heads, kv_heads, head_dim } = shape;
        let (m, t) = (q.len() / heads / head_dim, k.len() / kv_heads / head_dim);
        let mut out = vec![0.0; q.len()];
        for r in 0..m {
            for h in 0..heads {
                let kv = |j: usize, d: usize| (j * kv_heads + h * kv_heads / heads) * head_dim + d;
                let weight: Vec<f64> = (0..t)
                    .map(|j| {
                        let dot: f64 = (0..head_dim)
                            .map(|d| f64::from(q[(r * heads + h) * head_dim + d]) * f64::from(k[kv(j, d)]))
                            .sum();
                        if sees(r, j) { (dot * f64::from(scale)).exp() } else { 0.0 }
                    })
                    .collect();
                let total: f64 = weight.iter().sum();
                for d in 0..head_dim {
                    out[(r * heads + h) * head_dim + d] =
                        (0..t).map(|j| weight[j] / total * f64::from(v[kv(j, d)])).sum();
                }
            }
        }
        out
    }

    fn close(got: &[f32], expected: &[f64]) {
        for (got, expected) in got.iter().zip(expected) {
            assert!((f64::from(*got) - expected).abs() < 2e-6, "{got} {expected}");
        }
    }

    /// For Miri, which is slow: a chain and a tree in pages, on several threads.
    #[test]
    fn in_small() {
        let (shape, m, t) = (Heads { heads: 4, kv_heads: 2, head_dim: 5 }, 3, 7);
        let (q, k, v) = (noise(m * 20, 1), noise(t * 10, 2), noise(t * 10, 3));
        let pages = |x: &[f32]| -> Vec<Arc<Vec<u8>>> {
            let mut bytes = format::bytes(x).to_vec();
            bytes.resize(8 * 40, 0);
            bytes.chunks(2 * 40).map(|page| Arc::new(page.to_vec())).collect()
        };
        let [keys, values] = [pages(&k), pages(&v)];
        let tree = [true, false, false, true, true, false, true, false, true];
        for visible in [None, Some(&tree[..])] {
            let [keys, values] = [&keys, &values].map(|pages| Cached::paged(Format::F32, t * 40, pages, 0, 80));
            let mut out = vec![f32::NAN; q.len()];
            attend(&q, keys, values, shape, AttentionMask { visible, ..AttentionMask::default() }, 0.3, &mut out);
            let sees = |r: usize, j: usize| {
                j < t - m || visible.map_or(j <= t - m + r, |visible| visible[r * m + j - (t - m)])
            };
            close(&out, &exact(&q, &k, &v, shape, sees, 0.3));
        }
    }

    #[test]
    fn equals_the_definition_in_f64() {
        for shape in [
            Heads { heads: 4, kv_heads: 2, head_dim: 32 },
            Heads { heads: 3, kv_heads: 3, head_dim: 5 },
            Heads { heads: 4, kv_heads: 1, head_dim: 20 },
        ] {
            for (m, t) in [(1, 1), (1, 40), (5, 5), (5, 33)] {
                let q = noise(m * shape.heads * shape.head_dim, 1);
                let k = noise(t * shape.kv_heads * shape.head_dim, 2);
                let v = noise(k.len(), 3);
                let mut out = vec![f32::NAN; q.len()];
                attend(&q, Cached::of(&k), Cached::of(&v), shape, AttentionMask::default(), 0.3, &mut out);
                close(&out, &exact(&q, &k, &v, shape, |r, j| j <= t - m + r, 0.3));
                let visible: Vec<bool> = (0..m * m).map(|i| i / m == i % m || (i * 7) % 3 == 0).collect();
                let mask = AttentionMask { visible: Some(&visible), ..AttentionMask::default() };
                attend(&q, Cached::of(&k), Cached::of(&v), shape, mask, 0.3, &mut out);
                let sees = |r: usize, j: usize| j < t - m || visible[r * m + j - (t - m)];
                close(&out, &exact(&q, &k, &v, shape, sees, 0.3));
            }
        }
    }

    /// The same numbers in every format that a cache may have, as far as it can hold them.
    #[test]
    fn caches_are_read_as_they_are_stored() {
        let shape = Heads { heads: 4, kv_heads: 2, head_dim: 64 };
        let (m, t) = (3, 50);
        let (q, k, v) = (noise(m * 256, 1), noise(t * 128, 2), noise(t * 128, 3));
        let all = |mask, format, k: &[u8], v: &[u8]| {
            let mut out = vec![f32::NAN; q.len()];
            let [k, v] = [k, v].map(|bytes| Cached::new(format, bytes));
            attend(&q, k, v, shape, mask, 0.1, &mut out);
            out
        };
        for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0] {
            let stored = [&k, &v].map(|numbers| {
                let mut bytes = vec![0; format.bytes(numbers.len())];
                format.encode(numbers, &mut bytes);
                bytes
            });
            let numbers = [&stored[0], &stored[1]].map(|bytes| {
                let mut numbers = vec![0.0; k.len()];
                Weights::new(format, bytes, k.len()).decode(0, &mut numbers);
                numbers
            });
            let got = all(AttentionMask::default(), format, &stored[0], &stored[1]);
            close(&got, &exact(&q, &numbers[0], &numbers[1], shape, |r, j| j <= t - m + r, 0.1));
            let as_numbers =
                all(AttentionMask::default(), Format::F32, format::bytes(&numbers[0]), format::bytes(&numbers[1]));
            assert_eq!(got, as_numbers, "{format:?}");
        }
    }

    #[test]
    fn windows_slopes_and_caps_are_those_of_the_definition() {
        let shape = Heads { heads: 4, kv_heads: 2, head_dim: 32 };
        let (m, t) = (4, 21);
        let (q, k, v) = (noise(m * 128, 1), noise(t * 64, 2), noise(t * 64, 3));
        let held = t - m;
        // A tree: the last two are siblings.
        let positions = [17u32, 18, 19, 19];
        let visible: Vec<bool> = (0..16).map(|i| i % 4 <= i / 4 && i != 14).collect();
        let position = |j: usize| if j < held { j as f64 } else { f64::from(positions[j - held]) };
        for (window, slopes, cap) in [
            (Some(5), None, None),
            (None, Some([0.5f32, 0.25, 0.125, 1.0]), None),
            (None, None, Some(0.4f32)),
            (Some(7), Some([0.1, 0.2, 0.3, 0.4]), Some(1.5)),
        ] {
            let mask = AttentionMask {
                visible: Some(&visible),
                positions: &positions,
                window,
                slopes: slopes.as_ref().map(|s| &s[..]),
                cap,
            };
            let mut out = vec![f32::NAN; q.len()];
            attend(&q, Cached::of(&k), Cached::of(&v), shape, mask, 0.3, &mut out);
            for r in 0..m {
                for h in 0..4 {
                    let weight = |j: usize| {
                        let back = position(held + r) - position(j);
                        let sees = j < held || visible[r * m + j - held];
                        if !sees || window.is_some_and(|window| back >= window as f64) {
                            return 0.0;
                        }
                        let dot: f64 = (0..32)
                            .map(|d| f64::from(q[(r * 4 + h) * 32 + d]) * f64::from(k[(j * 2 + h / 2) * 32 + d]))
                            .sum();
                        let score = dot * f64::from(0.3f32);
                        let score = cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
                        (score - slopes.map_or(0.0, |slopes| f64::from(slopes[h]) * back)).exp()
                    };
                    let total: f64 = (0..t).map(weight).sum();
                    for d in 0..32 {
                        let mixed: f64 =
                            (0..t).map(|j| weight(j) / total * f64::from(v[(j * 2 + h / 2) * 32 + d])).sum();
                        assert!(
                            (f64::from(out[(r * 4 + h) * 32 + d]) - mixed).abs() < 2e-6,
                            "{window:?} {slopes:?} {cap:?}"
                        );
                    }
                }
            }
        }
    }

    /// What a row does not see might as well not be there.
    #[test]
    fn a_branch_has_the_bits_that_it_has_alone() {
        let shape = Heads { heads: 4, kv_heads: 2, head_dim: 32 };
        let (held, alone) = (37, 3);
        let (q, k, v) = (noise(5 * 128, 1), noise((held + 5) * 64, 2), noise((held + 5) * 64, 3));
        // Two that are another branch, then three.
        let visible: Vec<bool> = (0..25).map(|i| (i / 5 < 2) == (i % 5 < 2) && i % 5 <= i / 5).collect();
        let mut tree = vec![0.0; q.len()];
        let mask = AttentionMask { visible: Some(&visible), ..AttentionMask::default() };
        attend(&q, Cached::of(&k), Cached::of(&v), shape, mask, 0.2, &mut tree);
        let without = |all: &[f32]| [&all[..held * 64], &all[(held + 2) * 64..]].concat();
        let mut branch = vec![0.0; alone * 128];
        let (k, v) = (without(&k), without(&v));
        attend(&q[256..], Cached::of(&k), Cached::of(&v), shape, AttentionMask::default(), 0.2, &mut branch);
        assert_eq!(tree[256..], branch);
    }

    /// Pages of any length, with something else before and behind in each.
    #[test]
    fn pages_change_no_bit() {
        let shape = Heads { heads: 6, kv_heads: 2, head_dim: 40 };
        let (m, t) = (3, 50);
        let (q, k, v) = (noise(m * 240, 1), noise(t * 80, 2), noise(t * 80, 3));
        for format in [Format::F32, Format::F16] {
            let stored = [&k, &v].map(|numbers| {
                let mut bytes = vec![0; format.bytes(numbers.len())];
                format.encode(numbers, &mut bytes);
                bytes
            });
            let mut whole = vec![0.0; q.len()];
            let [k, v] = [0, 1].map(|i: usize| Cached::new(format, &stored[i]));
            attend(&q, k, v, shape, AttentionMask::default(), 0.2, &mut whole);
            for page in [1, 4, 7, 16, 49, 50, 64] {
                let bytes = page * format.bytes(80);
                let paged = [0, 1].map(|i: usize| {
                    let around = |some: &[u8]| {
                        let mut all = vec![0xA5; 12 + bytes + 8];
                        all[12..12 + some.len()].copy_from_slice(some);
                        Arc::new(all)
                    };
                    stored[i].chunks(bytes).map(around).collect::<Vec<_>>()
                });
                let [k, v] = [0, 1].map(|i: usize| Cached::paged(format, stored[i].len(), &paged[i], 12, bytes));
                let mut got = vec![0.0; q.len()];
                attend(&q, k, v, shape, AttentionMask::default(), 0.2, &mut got);
                assert_eq!(got, whole, "{format:?} in pages of {page}");
            }
        }
    }

    /// Row by row, all at once, with a causal mask spelled out, without SIMD, and large enough for threads.
    #[test]
    fn rows_have_the_same_bits_together_and_alone() {
        for shape in [Heads { heads: 8, kv_heads: 4, head_dim: 32 }, Heads { heads: 8, kv_heads: 1, head_dim: 40 }] {
            let (m, t) = (9, 300);
            let (of_q, of_k) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
            let (q, k, v) = (noise(m * of_q, 1), noise(t * of_k, 2), noise(t * of_k, 3));
            let (k, v) = (&k[..], &v[..]);
            let mut together = vec![0.0; q.len()];
            attend(&q, Cached::of(k), Cached::of(v), shape, AttentionMask::default(), 0.2, &mut together);
            let causal: Vec<bool> = (0..m * m).map(|i| i % m <= i / m).collect();
            let mut masked = vec![0.0; q.len()];
            let mask = AttentionMask { visible: Some(&causal), ..AttentionMask::default() };
            attend(&q, Cached::of(k), Cached::of(v), shape, mask, 0.2, &mut masked);
            assert_eq!(together, masked);
            for r in 0..m {
                let seen = (t - m + r + 1) * of_k;
                let (q, mut alone) = (&q[r * of_q..(r + 1) * of_q], vec![0.0; of_q]);
                let [k, v] = [k, v].map(|all| Cached::of(&all[..seen]));
                attend(q, k, v, shape, AttentionMask::default(), 0.2, &mut alone);
                assert_eq!(alone, together[r * of_q..(r + 1) * of_q]);
            }
            let mut plain = vec![0.0; q.len()];
            let out = Out::new(&mut plain, of_q);
            let group = shape.heads / shape.kv_heads;
            for head in 0..shape.kv_heads {
                let [k, v] = [k, v].map(Cached::of);
                let task = Task { q: &q, k, v, page: t, shape, mask: AttentionMask::default(), scale: 0.2, m, t, head };
                // SAFETY: there is one thread.
                unsafe { some_rows_body(crate::simd::Portable, &task, 0, m * group, &out) };
            }
            assert_eq!(plain, together);
        }
    }
}
