//! Attention of a few new tokens, or of a whole prompt, over a cache of keys and values, which is read in place.
//!
//! Keys are processed in blocks of `BLOCK`, counted from the start of the sequence. A row's partial results of the
//! blocks are merged in order. So blocks may be computed on several threads, there is no matrix of all scores, and a
//! row has the same bits in any batch.

mod cached;
mod heads;
mod mask;
mod mix;
mod partial;
mod rows;
mod scores;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ops::Range;

use crate::bytewise::Bytewise;
use crate::dispatch::dispatch;
use crate::out::Out;
use crate::pool;
use crate::simd::{LANES, Simd};

pub use cached::Cached;
use cached::Tokens;
pub use heads::Heads;
pub use mask::AttentionMask;
use mask::Sight;
use rows::{Numbers, with_format};

/// The number of keys whose scores are all computed before the first weight.
const BLOCK: usize = if cfg!(miri) { 4 * LANES } else { 256 };

/// The number of values that are decoded at once.
const VALUES: usize = 32;

/// The most rows for which keys and values are read in their stored format.
const FEW: usize = 6;

/// The number of query rows that one task computes.
const ROWS: usize = 64;

/// Bytes of keys, times groups of eight rows, below which one thread is faster than two. Miri tests several threads.
const PARALLEL: usize = if cfg!(miri) { 1 } else { 1 << 15 };

/// The most numbers in the partial results of rows that are split among tasks.
const APART: usize = 1 << 22;

/// Attends: `out[r][h] = sum over visible j of softmax_j(scale * q[r][h] . k[j][h']) * v[j][h']`.
///
/// Shapes, row by row: `q` and `out` are `m x heads x head_dim`; `k` and `v` are `t x kv_heads x head_dim` with the `m`
/// new tokens last. Every row sees the `t - m` tokens before the new ones, within its window. If only the
/// [first](Cached::first) elements of values are read, the heads of `out` have that number of elements.
///
/// Each row sums over its visible keys in a fixed order, and hidden keys change no bit: a branch of a tree has the same
/// rows as without the other branches.
///
/// # Panics
/// If the lengths do not fit together.
#[doc(alias = "scaled_dot_product_attention")]
#[doc(alias = "flash_attention")]
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
    let value_dim = v.elements(shape);
    assert!(k.elements(shape) == head_dim && (1..=head_dim).contains(&value_dim), "{value_dim} elements of values");
    assert!(value_dim.is_multiple_of(v.format.block()), "values of {value_dim} in {:?}", v.format);
    assert_eq!(out.len(), m * heads * value_dim, "results as values");
    assert!(m <= t, "{m} new tokens among {t}");
    assert!(mask.visible.is_none_or(|visible| visible.len() == m * m), "a mask over the new tokens");
    assert!(!mask.is_by_position() || mask.positions.len() == m, "a position for each new token");
    assert!(mask.slopes.is_none_or(|slopes| slopes.len() == heads), "a slope for each head");
    assert!(mask.sinks.is_none_or(|sinks| sinks.len() == heads), "a score for each head");
    if m == 0 {
        return;
    }
    let task = Task { q, k, v, shape, mask, scale, m, t };
    let parallel = k.bytes * (m * task.group()).div_ceil(8) >= PARALLEL;
    task.run(if parallel { pool::threads() } else { 1 }, out);
}

/// The inputs of all tasks.
struct Task<'a> {
    q: &'a [f32],
    k: Cached<'a>,
    v: Cached<'a>,
    shape: Heads,
    mask: AttentionMask<'a>,
    scale: f32,
    m: usize,
    t: usize,
}

/// Some rows and blocks of some key heads. The rows of a key head are ordered by token, then by query head.
#[derive(Clone)]
struct Share {
    heads: Range<usize>,
    rows: Range<usize>,
    blocks: Range<usize>,
}

/// The destination of a task's results.
#[derive(Clone, Copy)]
enum To<'a> {
    /// Final results of rows, over all keys.
    Whole(&'a Out<'a>),
    /// Partial results of rows for each block from the given one, row by row.
    Parts(&'a Out<'a>, usize),
}

impl Task<'_> {
    /// The number of query heads per key head.
    fn group(&self) -> usize {
        self.shape.heads / self.shape.kv_heads
    }

    /// The number of tokens before the new ones.
    fn held(&self) -> usize {
        self.t - self.m
    }

    /// The number of elements of a key, rounded up to whole lanes.
    fn width(&self) -> usize {
        self.shape.head_dim.next_multiple_of(LANES)
    }

    /// The number of elements of a value.
    fn value_dim(&self) -> usize {
        self.v.elements(self.shape)
    }

    /// The same, rounded up to whole lanes.
    fn value_width(&self) -> usize {
        self.value_dim().next_multiple_of(LANES)
    }

    /// The number of elements of a partial result.
    fn part(&self) -> usize {
        self.value_width() + LANES
    }

    /// The token and the query head of a row of a key head.
    fn token_and_head(&self, head: usize, row: usize) -> (usize, usize) {
        (row / self.group(), head * self.group() + row % self.group())
    }

    /// The blocks that any of the rows sees.
    fn blocks(&self, rows: &Range<usize>) -> Range<usize> {
        let tokens = rows.start / self.group()..(rows.end - 1) / self.group() + 1;
        let seen = if self.mask.visible.is_some() { self.t } else { self.held() + tokens.end };
        self.mask.first_seen(tokens, self.held()) / BLOCK..seen.div_ceil(BLOCK)
    }

    fn run(&self, threads: usize, out: &mut [f32]) {
        let Heads { heads, kv_heads, .. } = self.shape;
        let rows = self.m * self.group();
        let sets = rows.div_ceil(ROWS);
        let out = Out::new(out, heads * self.value_dim());
        let blocks = self.blocks(&(0..rows));
        let parts = kv_heads * rows * blocks.len();
        if threads > 1 && kv_heads * sets < 4 * threads && blocks.len() > 1 && parts * self.part() <= APART {
            return self.apart(threads, blocks, &out);
        }
        let run = |index: usize| {
            // The rows that see the most keys come first.
            let (set, head) = (sets - 1 - index / kv_heads, index % kv_heads);
            let rows = set * ROWS..((set + 1) * ROWS).min(rows);
            let share = Share { heads: head..head + 1, blocks: self.blocks(&rows), rows };
            // SAFETY: tasks have disjoint rows and heads.
            unsafe { some_rows(self, &share, To::Whole(&out)) };
        };
        match threads {
            1 => (0..kv_heads * sets).for_each(run),
            _ => pool::run(kv_heads * sets, &run),
        }
    }

    /// Splits the blocks among tasks and merges their partial results at the end.
    fn apart(&self, threads: usize, blocks: Range<usize>, out: &Out<'_>) {
        thread_local!(static PARTS: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
        let (kv_heads, rows) = (self.shape.kv_heads, self.m * self.group());
        let sets = rows.div_ceil(ROWS);
        // Several tasks per thread, so that one that is delayed does not delay all; with all heads if that yields
        // enough tasks, so that memory is read sequentially.
        let heads = if sets * blocks.len() < 4 * threads { 1 } else { kv_heads };
        let step = (kv_heads / heads * sets * blocks.len()).div_ceil(8 * threads);
        let steps = blocks.len().div_ceil(step);
        let mut parts = PARTS.take();
        parts.resize(kv_heads * rows * blocks.len() * self.part(), 0.0);
        let to = Out::new(&mut parts, blocks.len() * self.part());
        pool::run(kv_heads / heads * sets * steps, &|index| {
            let (head, set) = (index / steps / sets * heads, index / steps % sets);
            let from = blocks.start + index % steps * step;
            let share = Share {
                heads: head..head + heads,
                rows: set * ROWS..((set + 1) * ROWS).min(rows),
                blocks: from..(from + step).min(blocks.end),
            };
            // SAFETY: tasks have disjoint rows, heads and blocks.
            unsafe { some_rows(self, &share, To::Parts(&to, blocks.start)) };
        });
        for head in 0..kv_heads {
            let parts = &parts[head * rows * blocks.len() * self.part()..];
            // SAFETY: all tasks have ended.
            unsafe {
                join_parts(self, &Share { heads: head..head + 1, rows: 0..rows, blocks: blocks.clone() }, parts, out)
            };
        }
        PARTS.set(parts);
    }
}

/// Buffers that a thread reuses.
#[derive(Default)]
struct Scratch {
    queries: Vec<f32>,
    /// Decoded keys or values.
    numbers: Vec<f32>,
    /// Transposed keys.
    turned: Vec<f32>,
    scores: Vec<f32>,
    /// The rows' partial results for one block.
    parts: Vec<f32>,
    /// The rows' merged results for the blocks so far.
    sums: Vec<f32>,
    positions: Vec<f32>,
    chosen: Vec<usize>,
}

thread_local!(static SCRATCH: Cell<Scratch> = Cell::default());

dispatch! {
    /// Computes some rows for some blocks.
    ///
    /// # Safety
    /// No other thread writes these rows of these heads, or their partial results for these blocks.
    unsafe fn some_rows(task: &Task<'_>, share: &Share, to: To<'_>) = some_rows_body
}

/// # Safety
/// No other thread writes these rows of these heads, or their partial results for these blocks.
#[inline(always)]
unsafe fn some_rows_body<S: Bytewise>(unit: S, task: &Task<'_>, share: &Share, to: To<'_>) {
    let (width, part, rows) = (task.value_width(), task.part(), share.heads.len() * share.rows.len());
    // A closure (as for `LocalKey::with`) would not be compiled for the unit.
    let mut scratch = SCRATCH.take();
    prepare(task, share, &mut scratch);
    for block in share.blocks.clone() {
        of_block(unit, task, share, block, &mut scratch);
        let Scratch { parts, sums, .. } = &mut scratch;
        match to {
            To::Whole(_) => {
                for (sum, part) in sums.chunks_exact_mut(part).zip(parts.chunks_exact(part)) {
                    partial::merge(unit, sum, part, width);
                }
            }
            To::Parts(to, first) => {
                let mut parts = parts.chunks_exact(part);
                for head in share.heads.clone() {
                    let row = head * task.m * task.group() + share.rows.start;
                    for (row, numbers) in (row..row + share.rows.len()).zip(&mut parts) {
                        // SAFETY: upheld by the caller.
                        unsafe { to.set_some(row, (block - first) * part, numbers) };
                    }
                }
            }
        }
    }
    if let To::Whole(out) = to {
        debug_assert_eq!(scratch.sums.len(), rows * part);
        let mut sums = scratch.sums.chunks_exact_mut(part);
        for head in share.heads.clone() {
            for (row, sum) in share.rows.clone().zip(&mut sums) {
                // SAFETY: upheld by the caller.
                unsafe { write_row(unit, task, head, row, sum, out) };
            }
        }
    }
    SCRATCH.set(scratch);
}

dispatch! {
    /// Merges the partial results of all blocks into rows.
    ///
    /// # Safety
    /// No other thread writes these rows of this head.
    unsafe fn join_parts(task: &Task<'_>, share: &Share, parts: &[f32], out: &Out<'_>) = join_parts_body
}

/// # Safety
/// No other thread writes these rows of this head.
#[inline(always)]
unsafe fn join_parts_body<S: Bytewise>(unit: S, task: &Task<'_>, share: &Share, parts: &[f32], out: &Out<'_>) {
    let (width, part) = (task.value_width(), task.part());
    let mut scratch = SCRATCH.take();
    scratch.sums.resize(part, 0.0);
    let sum = &mut scratch.sums[..part];
    for (row, parts) in share.rows.clone().zip(parts.chunks_exact(share.blocks.len() * part)) {
        partial::clear(sum, width);
        for part in parts.chunks_exact(part) {
            partial::merge(unit, sum, part, width);
        }
        // SAFETY: upheld by the caller.
        unsafe { write_row(unit, task, share.heads.start, row, sum, out) };
    }
    SCRATCH.set(scratch);
}

/// # Safety
/// No other thread writes this row of this head.
#[inline(always)]
unsafe fn write_row<S: Simd>(unit: S, task: &Task<'_>, head: usize, row: usize, sum: &mut [f32], out: &Out<'_>) {
    let (token, head) = task.token_and_head(head, row);
    let (elements, width) = (task.value_dim(), task.value_width());
    if let Some(sinks) = task.mask.sinks {
        partial::add_sink(sum, width, sinks[head]);
    }
    partial::normalize(unit, sum, width);
    // SAFETY: upheld by the caller.
    unsafe { out.set_some(token, head * elements, &sum[..elements]) };
}

/// Resets the buffers for some rows: results over no keys, and queries padded to whole lanes.
#[inline(always)]
fn prepare(task: &Task<'_>, share: &Share, scratch: &mut Scratch) {
    let Heads { heads, head_dim, .. } = task.shape;
    let (width, part, rows) = (task.width(), task.part(), share.heads.len() * share.rows.len());
    scratch.queries.clear();
    scratch.queries.resize(rows * width, 0.0);
    let mut queries = scratch.queries.chunks_exact_mut(width);
    for head in share.heads.clone() {
        for (row, query) in share.rows.clone().zip(&mut queries) {
            let (token, head) = task.token_and_head(head, row);
            query[..head_dim].copy_from_slice(&task.q[(token * heads + head) * head_dim..][..head_dim]);
        }
    }
    // Keys are padded with zeros to whole lanes. Rows of values have the same width, so they leave these as they are.
    scratch.numbers.clear();
    scratch.numbers.resize(VALUES.max(LANES) * width, 0.0);
    scratch.turned.resize(LANES * width, 0.0);
    scratch.scores.resize(rows * BLOCK, 0.0);
    scratch.parts.resize(rows * part, 0.0);
    scratch.sums.resize(rows * part, 0.0);
    let of_values = task.value_width();
    scratch.sums.chunks_exact_mut(part).for_each(|sum| partial::clear(sum, of_values));
}

/// Computes the rows' partial results for one block.
#[inline(always)]
fn of_block<S: Bytewise>(unit: S, task: &Task<'_>, share: &Share, block: usize, scratch: &mut Scratch) {
    let held = task.held();
    let first = block * BLOCK;
    // A row of a branch counts only the keys of that branch: where new tokens span several blocks, the same key may be
    // in different blocks for different branches.
    let is_branching = task.mask.visible.is_some() && held / BLOCK < (task.t - 1) / BLOCK && first + BLOCK > held;
    let mut chosen = std::mem::take(&mut scratch.chosen);
    let mut row = share.rows.start;
    while row < share.rows.end {
        let token = row / task.group();
        let (end, tokens) = if is_branching {
            let visible = task.mask.of_tree(token, task.m).unwrap_or_default();
            let new = visible.iter().enumerate().filter(|(_, sees)| **sees).map(|(at, _)| held + at);
            chosen.clear();
            chosen.extend((first.min(held)..held).chain(new.skip(first.saturating_sub(held))).take(BLOCK));
            (((token + 1) * task.group()).min(share.rows.end), Tokens::Chosen(&chosen))
        } else {
            (share.rows.end, Tokens::Following { first, count: BLOCK.min(task.t - first) })
        };
        let rows = row - share.rows.start..end - share.rows.start;
        of_tokens(unit, task, share, rows, &tokens, scratch);
        row = end;
    }
    scratch.chosen = chosen;
}

/// Computes the partial results of some of the rows for up to a block of tokens.
#[inline(always)]
fn of_tokens<S: Bytewise>(
    unit: S,
    task: &Task<'_>,
    share: &Share,
    rows: Range<usize>,
    tokens: &Tokens<'_>,
    scratch: &mut Scratch,
) {
    let Task { k, v, shape, mask, m, .. } = *task;
    let (width, part, held, count) = (task.width(), task.part(), task.held(), tokens.len());
    let of_values = task.value_width();
    let Scratch { queries, numbers, turned, scores, parts, positions, .. } = scratch;
    // Up to this number of rows, keys and values are read in their stored format; for more rows they are decoded once.
    let few = if S::IS_WIDE { FEW } else { 0 };
    // In a chain the first rows do not see the last keys.
    let first_row = |at: usize| match (mask.visible, tokens) {
        (None, Tokens::Following { first, .. }) => {
            let blind = (first + at).saturating_sub(held) * task.group();
            blind.saturating_sub(share.rows.start).clamp(rows.start, rows.end)
        }
        _ => rows.start,
    };
    // The rows of one head from `row` on, among the rows of all heads.
    let of_head = |head: usize, row: usize| {
        let before = (head - share.heads.start) * share.rows.len();
        before + row..before + rows.end
    };
    for at in (0..count).step_by(LANES) {
        let row = first_row(at);
        if row == rows.end {
            break;
        }
        let some_keys = at..(at + LANES).min(count);
        k.prefetch(unit, shape, &share.heads, tokens, &some_keys);
        for head in share.heads.clone() {
            let rows = of_head(head, row);
            let (queries, scores) =
                (&queries[rows.start * width..rows.end * width], &mut scores[rows.start * BLOCK + at..]);
            if rows.len() <= few
                && some_keys.len() == LANES
                && let Some(keys) = k.stored(shape, head, tokens, &some_keys)
            {
                with_format!(keys.format, F => scores::score_few(unit, queries, keys.of::<F>(), width, scores));
            } else {
                k.decode(unit, shape, head, tokens, &some_keys, width, numbers);
                scores::score(unit, queries, numbers, width, turned, scores);
            }
        }
    }
    if mask.is_by_position() {
        positions.clear();
        positions.extend((0..count).map(|at| mask.position(tokens.get(at), held)));
    }
    for head in share.heads.clone() {
        for (row, at) in of_head(head, rows.start).zip(rows.clone()) {
            let (token, head) = task.token_and_head(head, share.rows.start + at);
            let scores = &mut scores[row * BLOCK..][..count.next_multiple_of(LANES)];
            let scale = adjust(unit, task, token, head, positions, scores);
            let sight = Sight::of(&mask, token, m, held, tokens);
            partial::weigh(unit, scores, scale, sight, &mut parts[row * part..][..part], of_values);
        }
    }
    for at in (0..count).step_by(VALUES) {
        let row = first_row(at);
        if row == rows.end {
            break;
        }
        let some_values = at..(at + VALUES).min(count);
        v.prefetch(unit, shape, &share.heads, tokens, &some_values);
        for head in share.heads.clone() {
            let rows = of_head(head, row);
            let (weights, keys) = (&scores[rows.start * BLOCK + at..], some_values.len());
            let parts = &mut parts[rows.start * part..rows.end * part];
            if rows.len() <= few
                && let Some(values) = v.stored(shape, head, tokens, &some_values)
            {
                let width = of_values;
                with_format!(values.format, F => mix::mix(unit, weights, values.of::<F>(), keys, width, parts, part));
            } else {
                v.decode(unit, shape, head, tokens, &some_values, width, numbers);
                mix::mix(unit, weights, Numbers { numbers, width }, keys, of_values, parts, part);
            }
        }
    }
}

/// Turns products into scores, if that is more than the scale, which is left to the caller: caps them, subtracts a
/// penalty for the distance, and hides keys outside the window. Returns what is left to multiply them by.
#[inline(always)]
fn adjust<S: Simd>(unit: S, task: &Task<'_>, token: usize, head: usize, positions: &[f32], scores: &mut [f32]) -> f32 {
    let AttentionMask { window, slopes, cap, .. } = task.mask;
    if cap.is_none() && !task.mask.is_by_position() {
        return task.scale;
    }
    let scale = unit.splat(task.scale);
    for lanes in scores.as_chunks_mut::<LANES>().0 {
        *lanes = unit.store(unit.mul(unit.load(lanes), scale));
    }
    if let Some(cap) = cap {
        scores.iter_mut().for_each(|score| *score = cap * libm::tanhf(*score / cap));
    }
    if !task.mask.is_by_position() {
        return 1.0;
    }
    let position = task.mask.position(task.held() + token, task.held());
    let slope = slopes.map_or(0.0, |slopes| slopes[head]);
    let window = window.map_or(f32::INFINITY, |window| window as f32);
    for (score, at) in scores.iter_mut().zip(positions) {
        let back = position - at;
        *score = if back >= window { f32::NEG_INFINITY } else { *score - slope * back };
    }
    1.0
}
