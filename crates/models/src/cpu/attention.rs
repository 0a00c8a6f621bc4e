//! Attention in a pass: queries, keys and values, and each sequence's own cache.

use verdigris_kernels::{AttentionMask, Heads, attend, rms_norm, rotate};

use super::decoder::CpuDecoder;
use super::pages::Half;
use super::peers::Peers;
use super::projection::{project, project_each};
use super::state::State;
use super::work::{CpuItem, Sight, Work};
use crate::description::config::{Attention, Positions, QueryGrowth, QueryKeyNorm};
use crate::description::parts::AttentionParts;
use crate::error::ModelError;
use crate::slices::TokenSlice;

/// Computes the cosines and sines of all positions, for one of the rotary embeddings.
pub(super) fn cosines_and_sines(which: usize, items: &[CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    work.cos.clear();
    work.sin.clear();
    let mut positions = work.positions.iter();
    for slice in slices {
        // Without rotary embeddings there is nothing to compute.
        let Some(angles) = items[slice.item].state.angles.get(which) else { return };
        let of_slice = positions.by_ref().take(slice.len());
        of_slice.for_each(|&position| angles.extend(position, &mut work.cos, &mut work.sin));
    }
}

/// Writes keys and values, and attends, each sequence to its own cache: from the rows `work.x` to `work.y`.
pub(super) fn attend_each(
    decoder: &CpuDecoder,
    layer: usize,
    (attention, parts): (&Attention, &AttentionParts),
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let &Attention { heads, kv_heads, head_dim, .. } = attention;
    project_all(parts.query.matrix.columns(), parts, work);
    if let Some(weight) = &parts.value_norm {
        norm_rows(&mut work.value, weight, decoder.epsilon(), &mut work.normed);
    }
    if attention.gated {
        split_gates(head_dim, &mut work.query, &mut work.gates);
    }
    let norms = |work: &mut Work, peers: &mut Peers<'_>, kind| -> Result<(), ModelError> {
        for (x, weight) in [(&mut work.query, &parts.query_norm), (&mut work.key, &parts.key_norm)] {
            let Some(weight) = weight.as_deref() else { continue };
            if kind == QueryKeyNorm::Tokens && peers.side_by_side() > 1 {
                norm_over_ranks(x, weight, decoder.epsilon(), &mut work.normed, peers)?;
                continue;
            }
            norm_rows(x, weight, decoder.epsilon(), &mut work.normed);
        }
        Ok(())
    };
    if let Some(kind @ (QueryKeyNorm::Heads | QueryKeyNorm::Tokens)) = attention.query_key_norm {
        norms(work, peers, kind)?;
    }
    if let (Positions::Rotary(all), Some(which)) = (&decoder.config.positions, attention.rotary) {
        rotate(&mut work.query, heads, head_dim, &work.cos, &work.sin, all[which].pairs);
        rotate(&mut work.key, kv_heads, head_dim, &work.cos, &work.sin, all[which].pairs);
    }
    if let Some(kind @ QueryKeyNorm::RotatedHeads) = attention.query_key_norm {
        norms(work, peers, kind)?;
    }
    if let Some(growth) = attention.query_growth {
        for (query, &position) in work.query.chunks_mut(heads * head_dim).zip(&work.positions) {
            let factor = factor_at(growth, position);
            query.iter_mut().for_each(|x| *x *= factor);
        }
    }
    work.mixed.resize(work.query.len(), 0.0);
    let source = attention.reads.unwrap_or(layer);
    let (mut at, mut seen) = (0, 0);
    for slice in slices {
        let m = slice.len();
        let CpuItem { state: State { pages, held, .. }, batch, sight, .. } = &mut items[slice.item];
        let (is_tree, length) = (batch.parents.is_some(), held.length());
        let is_both_ways = sight.is_both_ways(attention);
        if is_both_ways {
            work.all.resize(m * m, true);
        }
        let of = |width: usize| at * width..(at + m) * width;
        let (rows, a_row) = (of(heads * head_dim), heads * head_dim);
        let shape = Heads { heads, kv_heads, head_dim };
        let mask = AttentionMask {
            visible: None,
            positions: &work.positions[of(1)],
            window: attention.window,
            slopes: decoder.slopes.as_deref(),
            cap: attention.cap.map(|cap| cap as f32),
            sinks: parts.sinks.as_deref(),
        };
        if *sight == Sight::Held {
            let mask = AttentionMask { positions: &[length as u32 - 1], ..mask };
            let [keys, values] = [Half::Keys, Half::Values].map(|half| pages.first(source, half, length));
            let queries = work.query[rows.clone()].chunks(a_row);
            for (query, mixed) in queries.zip(work.mixed[rows].chunks_mut(a_row)) {
                attend(query, keys, values, shape, mask, attention.factor(), mixed);
            }
        } else {
            if attention.reads.is_none() {
                pages.write(layer, Half::Keys, length, &work.key[of(kv_heads * head_dim)]);
                pages.write(layer, Half::Values, length, &work.value[of(kv_heads * head_dim)]);
            }
            let visible = match is_both_ways {
                true => Some(&work.all[..m * m]),
                false => is_tree.then(|| &work.visible[seen..seen + m * m]),
            };
            let mask = AttentionMask { visible, ..mask };
            let [keys, values] = [Half::Keys, Half::Values].map(|half| pages.first(source, half, length + m));
            let query = &work.query[rows.clone()];
            attend(query, keys, values, shape, mask, attention.factor(), &mut work.mixed[rows]);
        }
        at += m;
        seen += if is_tree { m * m } else { 0 };
    }
    if attention.gated {
        work.mixed.iter_mut().zip(&work.gates).for_each(|(x, gate)| *x *= 1.0 / (1.0 + libm::expf(-gate)));
    }
    project(&work.mixed, &parts.output, &mut work.y);
    Ok(())
}

/// Moves the second half of each query head to `gates`.
fn split_gates(head_dim: usize, query: &mut Vec<f32>, gates: &mut Vec<f32>) {
    gates.clear();
    let heads = query.len() / (2 * head_dim);
    for head in 0..heads {
        let from = 2 * head * head_dim;
        gates.extend_from_slice(&query[from + head_dim..from + 2 * head_dim]);
        query.copy_within(from..from + head_dim, head * head_dim);
    }
    query.truncate(heads * head_dim);
}

/// The factor of queries at a position.
fn factor_at(QueryGrowth { rate, context }: QueryGrowth, position: u32) -> f32 {
    (1.0 + rate * libm::log(1.0 + (position as usize / context) as f64)) as f32
}

/// Computes queries, and the keys and values of a layer that has its own.
fn project_all(width: usize, parts: &AttentionParts, work: &mut Work) {
    let query = (&parts.query, &mut work.query);
    match (&parts.key, &parts.value) {
        (Some(key), Some(value)) => {
            project_each(&work.x, width, [query, (key, &mut work.key), (value, &mut work.value)]);
        }
        (Some(key), None) => {
            project_each(&work.x, width, [query, (key, &mut work.key)]);
            work.value.clone_from(&work.key);
        }
        (None, _) => {
            project_each(&work.x, width, [query]);
            work.key.clear();
        }
    }
}

/// Normalises rows, whose vector is exchanged with `room`.
pub(super) fn norm_rows(x: &mut Vec<f32>, weight: &[f32], epsilon: f32, room: &mut Vec<f32>) {
    room.resize(x.len(), 0.0);
    rms_norm(x, weight, epsilon, room);
    std::mem::swap(x, room);
}

/// Like [`norm_rows`], for rows that are split into equal parts across ranks.
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
