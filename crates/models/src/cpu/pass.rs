//! One pass through the layers, for tokens of one sequence or of several.

use verdigris_kernels::{AttentionMask, Heads, activate, attend, linear_each, rms_norm, rotate};

use super::decoder::CpuDecoder;
use super::pages::Half;
use super::peers::Peers;
use super::state::State;
use crate::description::config::{DecoderConfig, FeedForward, Norm, Parallel, Positions, QueryKeyNorm};
use crate::description::parts::{Layer, Projection, Scales};
use crate::description::share::part_of;
use crate::error::ModelError;
use crate::language_model::{Batch, Rows};
use crate::slices::TokenSlice;

/// The input of one of several texts, and where its rows are written.
pub(crate) struct CpuItem<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) batch: Batch<'a>,
    /// The initial residual stream of its tokens, if that is not their embeddings.
    pub(crate) beginning: Option<&'a [f32]>,
    pub(crate) rows: &'a mut Rows,
}

/// The buffers of a pass, reused by the next.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(super) slices: Vec<TokenSlice>,
    /// The length of each text before the call.
    pub(super) lengths: Vec<usize>,
    positions: Vec<u32>,
    visible: Vec<bool>,
    cos: Vec<f32>,
    sin: Vec<f32>,
    /// The residual stream.
    h: Vec<f32>,
    x: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    mixed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    y: Vec<f32>,
    normed: Vec<f32>,
    /// The logits of all ranks.
    gathered: Vec<f32>,
}

/// Reads the tokens of `slices`, whose sequences have exclusive pages for them, and writes their rows.
pub(super) fn pass(
    decoder: &CpuDecoder,
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let CpuDecoder { config, parts, .. } = decoder;
    work.positions.clear();
    work.visible.clear();
    for slice in slices {
        let item = &items[slice.item];
        let batch = slice.of(&item.batch);
        batch.extend_positions(item.state.held.length(), &mut work.positions);
        batch.extend_visibility(&mut work.visible);
    }
    work.h.resize(work.positions.len() * config.width, 0.0);
    if !peers.take_hidden(&mut work.h)? {
        begin(decoder, items, slices, work);
    }
    let mut rotated_by = None;
    for (i, layer) in parts.layers.iter().enumerate() {
        match &layer.attention_norm {
            Some(scales) => decoder.normalize(&work.h, scales, &mut work.x),
            None => work.x.clone_from(&work.h),
        }
        let heads = [(&layer.query, &mut work.query), (&layer.key, &mut work.key), (&layer.value, &mut work.value)];
        project_each(&work.x, config.width, heads);
        if let Some(kind) = config.query_key_norm {
            for (x, weight) in [(&mut work.query, &layer.query_norm), (&mut work.key, &layer.key_norm)] {
                let weight = weight.as_deref().unwrap_or_default();
                let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
                if kind == QueryKeyNorm::Tokens && peers.side_by_side() > 1 {
                    norm_over_ranks(x, weight, epsilon as f32, &mut work.normed, peers)?;
                    continue;
                }
                work.normed.resize(x.len(), 0.0);
                rms_norm(x, weight, epsilon as f32, &mut work.normed);
                std::mem::swap(x, &mut work.normed);
            }
        }
        if let (Positions::Rotary(all), Some(which)) = (&config.positions, config.kind(i).rotary) {
            if rotated_by != Some(which) {
                rotated_by = Some(which);
                cosines_and_sines(which, items, slices, work);
            }
            let DecoderConfig { heads, kv_heads, head_dim, .. } = *config;
            rotate(&mut work.query, heads, head_dim, &work.cos, &work.sin, all[which].pairs);
            rotate(&mut work.key, kv_heads, head_dim, &work.cos, &work.sin, all[which].pairs);
        }
        attend_each(decoder, i, items, slices, work);
        project(&work.mixed, &layer.output, &mut work.y);
        peers.sum(&mut work.y)?;
        if config.parallel.is_none() {
            add(decoder, &mut work.h, &work.y, layer.after_attention.as_ref(), &mut work.normed);
        }
        match (&layer.feed_forward_norm, config.parallel) {
            (_, Some(Parallel::OneNorm)) => {}
            (Some(scales), _) => decoder.normalize(&work.h, scales, &mut work.x),
            (None, _) => work.x.clone_from(&work.h),
        }
        if config.parallel.is_some() {
            add(decoder, &mut work.h, &work.y, None, &mut work.normed);
        }
        feed_forward(config, layer, &work.x, &mut work.gate, &mut work.up);
        project(&work.gate, &layer.down, &mut work.y);
        peers.sum(&mut work.y)?;
        add(decoder, &mut work.h, &work.y, layer.after_feed_forward.as_ref(), &mut work.normed);
    }
    for slice in slices {
        items[slice.item].state.held.extend(slice.len());
    }
    peers.hand_on(&work.h)?;
    write_hidden(decoder, items, slices, work);
    write_rows(decoder, items, slices, work, peers)
}

/// Like [`rms_norm`], for rows that are split into equal parts across ranks.
fn norm_over_ranks(
    x: &mut [f32],
    weight: &[f32],
    epsilon: f32,
    squares: &mut Vec<f32>,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let n = weight.len();
    squares.clear();
    squares.extend(x.chunks(n).map(|row| row.iter().map(|x| x * x).sum::<f32>()));
    peers.sum(squares)?;
    // Heads that several ranks hold are counted equally often in the elements and in the squares.
    let elements = (n * peers.side_by_side()) as f32;
    for (row, squares) in x.chunks_mut(n).zip(squares) {
        let scale = 1.0 / (*squares / elements + epsilon).sqrt();
        row.iter_mut().zip(weight).for_each(|(x, weight)| *x *= scale * weight);
    }
    Ok(())
}

/// Sets the residual stream to [`CpuItem::beginning`], or to the embeddings.
fn begin(decoder: &CpuDecoder, items: &[CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    let width = decoder.config.width;
    if items.iter().any(|item| item.beginning.is_none()) {
        embed(decoder, slices.iter().flat_map(|slice| slice.of(&items[slice.item].batch).tokens), work);
    }
    let mut rest = &mut work.h[..];
    for slice in slices {
        let (own, others) = rest.split_at_mut(slice.len() * width);
        if let Some(beginning) = items[slice.item].beginning {
            own.copy_from_slice(&beginning[slice.range().start * width..slice.range().end * width]);
        }
        rest = others;
    }
}

/// Sets the residual stream to the embeddings.
fn embed<'a>(decoder: &CpuDecoder, tokens: impl Iterator<Item = &'a u32>, work: &mut Work) {
    let CpuDecoder { config, parts, .. } = decoder;
    let width = config.width;
    for (row, &token) in work.h.chunks_mut(width).zip(tokens) {
        parts.embedding.decode(token as usize, row);
    }
    if let Some(scale) = config.embedding_scale {
        work.h.iter_mut().for_each(|x| *x *= scale as f32);
    }
    if let (Some(learned), Positions::Learned { offset }) = (&parts.positions, &config.positions) {
        work.x.resize(width, 0.0);
        for (row, &position) in work.h.chunks_mut(width).zip(&work.positions) {
            learned.decode(position as usize + offset, &mut work.x);
            row.iter_mut().zip(&work.x).for_each(|(x, position)| *x += position);
        }
    }
    if let Some(scales) = &parts.embedding_norm {
        decoder.normalize(&work.h, scales, &mut work.x);
        std::mem::swap(&mut work.h, &mut work.x);
    }
}

/// Computes the cosines and sines of all positions, for one of the rotary embeddings.
fn cosines_and_sines(which: usize, items: &[CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    work.cos.clear();
    work.sin.clear();
    let mut positions = work.positions.iter();
    for slice in slices {
        let angles = &items[slice.item].state.angles[which];
        let of_slice = positions.by_ref().take(slice.len());
        of_slice.for_each(|&position| angles.extend(position, &mut work.cos, &mut work.sin));
    }
}

/// Writes keys and values, and attends, each sequence to its own cache.
fn attend_each(decoder: &CpuDecoder, layer: usize, items: &mut [CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    let config = &decoder.config;
    let DecoderConfig { heads, kv_heads, head_dim, .. } = *config;
    let window = config.kind(layer).window;
    work.mixed.resize(work.query.len(), 0.0);
    let (mut at, mut seen) = (0, 0);
    for slice in slices {
        let m = slice.len();
        let CpuItem { state: State { pages, held, .. }, batch, .. } = &mut items[slice.item];
        let (is_tree, length) = (batch.parents.is_some(), held.length());
        let of = |width: usize| at * width..(at + m) * width;
        pages.write(layer, Half::Keys, length, &work.key[of(kv_heads * head_dim)]);
        pages.write(layer, Half::Values, length, &work.value[of(kv_heads * head_dim)]);
        let mask = AttentionMask {
            visible: is_tree.then(|| &work.visible[seen..seen + m * m]),
            positions: &work.positions[of(1)],
            window,
            slopes: decoder.slopes.as_deref(),
            cap: config.attention_cap.map(|cap| cap as f32),
        };
        let [keys, values] = [Half::Keys, Half::Values].map(|half| pages.first(layer, half, length + m));
        let rows = of(heads * head_dim);
        let shape = Heads { heads, kv_heads, head_dim };
        attend(&work.query[rows.clone()], keys, values, shape, mask, config.scale(), &mut work.mixed[rows]);
        at += m;
        seen += if is_tree { m * m } else { 0 };
    }
}

/// Writes the hidden states of the items that keep them.
fn write_hidden(decoder: &CpuDecoder, items: &mut [CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    let width = decoder.config.width;
    let mut at = 0;
    for slice in slices {
        let of_slice = at..at + slice.len() * width;
        if let Some(hidden) = items[slice.item].rows.hidden_mut() {
            decoder.normalize(&work.h[of_slice.clone()], &decoder.parts.norm, &mut work.normed);
            hidden[slice.range().start * width..slice.range().end * width].copy_from_slice(&work.normed);
        }
        at = of_slice.end;
    }
}

/// Writes the wanted rows, with one product for all sequences.
fn write_rows(
    decoder: &CpuDecoder,
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let CpuDecoder { config, parts, .. } = decoder;
    let (width, size) = (config.width, decoder.row_width);
    work.y.clear();
    let mut at = 0;
    for slice in slices {
        let wanted = slice.wanted(&items[slice.item].batch);
        work.y.extend_from_slice(&work.h[(at + wanted.start) * width..(at + wanted.end) * width]);
        at += slice.len();
    }
    if work.y.is_empty() || !peers.bring_back(&mut work.y)? {
        return Ok(());
    }
    decoder.normalize(&work.y, &parts.norm, &mut work.x);
    let finish = |logits: &mut [f32]| {
        if let Some(cap) = config.logit_cap {
            let cap = cap as f32;
            logits.iter_mut().for_each(|logit| *logit = cap * (*logit / cap).tanh());
        }
    };
    let logits_of = |slice: &TokenSlice, batch: &Batch<'_>| {
        let rows = slice.rows(batch);
        rows.start * size..rows.end * size
    };
    let ranks = peers.side_by_side();
    if ranks > 1 {
        let (m, own) = (work.x.len() / width, parts.output.rows());
        work.up.resize(m * own, 0.0);
        parts.output.product(&work.x, &mut work.up);
        finish(&mut work.up);
        work.gathered.resize(if peers.want_rows_here() { m * size } else { 0 }, 0.0);
        peers.gather(&work.up, &mut work.gathered)?;
        if peers.want_rows_here() {
            let mut i = 0;
            for slice in slices {
                let CpuItem { batch, rows, .. } = &mut items[slice.item];
                for row in slice.rows(batch) {
                    for rank in 0..ranks {
                        let tokens = part_of(size, rank, ranks);
                        let of_rank = &work.gathered[m * tokens.start + i * tokens.len()..][..tokens.len()];
                        rows.row_mut(row)[tokens].copy_from_slice(of_rank);
                    }
                    i += 1;
                }
            }
        }
        return Ok(());
    }
    if let [slice] = slices {
        let CpuItem { batch, rows, .. } = &mut items[slice.item];
        let logits = &mut rows.logits[logits_of(slice, batch)];
        parts.output.product(&work.x, logits);
        finish(logits);
        return Ok(());
    }
    work.up.resize(work.x.len() / width * size, 0.0);
    parts.output.product(&work.x, &mut work.up);
    finish(&mut work.up);
    let mut rest = &work.up[..];
    for slice in slices {
        let CpuItem { batch, rows, .. } = &mut items[slice.item];
        let range = logits_of(slice, batch);
        let (these, others) = rest.split_at(range.len());
        rows.logits[range].copy_from_slice(these);
        rest = others;
    }
    Ok(())
}

/// Writes the input of the feed-forward part's last matrix into `gate`.
fn feed_forward(config: &DecoderConfig, layer: &Layer, x: &[f32], gate: &mut Vec<f32>, up: &mut Vec<f32>) {
    match (config.feed_forward, &layer.gate) {
        (FeedForward::Gated { activation, .. }, Some(of_gate)) => {
            project_each(x, config.width, [(of_gate, &mut *gate), (&layer.up, &mut *up)]);
            activate(activation, gate, Some(up));
        }
        (FeedForward::Gated { activation, .. } | FeedForward::Plain { activation, .. }, _) => {
            project(x, &layer.up, gate);
            activate(activation, gate, None);
        }
    }
}

fn project(x: &[f32], projection: &Projection, out: &mut Vec<f32>) {
    project_each(x, projection.matrix.columns(), [(projection, out)]);
}

fn project_each<const N: usize>(x: &[f32], width: usize, parts: [(&Projection, &mut Vec<f32>); N]) {
    let m = x.len() / width;
    let mut parts = parts.map(|(projection, out)| {
        out.resize(m * projection.matrix.rows(), 0.0);
        (projection, projection.matrix.matrix().weights(), &mut out[..])
    });
    linear_each(x, width, &mut parts.each_mut().map(|(_, weights, out)| (*weights, &mut **out)));
    for (projection, _, out) in parts {
        if let Some(update) = projection.matrix.update() {
            update.add_product(x, out);
        }
        if let Some(bias) = &projection.bias {
            out.chunks_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias));
        }
    }
}

/// Adds the output of a part of a layer to the residual stream, normalised if there is a norm.
fn add(decoder: &CpuDecoder, h: &mut [f32], y: &[f32], norm: Option<&Scales>, normed: &mut Vec<f32>) {
    let y = match norm {
        Some(scales) => {
            decoder.normalize(y, scales, normed);
            &normed[..]
        }
        None => y,
    };
    h.iter_mut().zip(y).for_each(|(h, y)| *h += y);
}
