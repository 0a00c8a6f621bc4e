//! Attention to latent vectors in a pass.
//!
//! The score of a head's query `q` and a key `W c`, where `c` is a latent vector, is the product of `W^T q` and `c`; and
//! the sum of values `V c` over tokens is `V` times the sum of `c`. So all heads attend to the same stored rows, which
//! are the latent vector and the rotated elements of the key, and no key or value is computed. It is the same sum for
//! any number of rows, so a row has the same bits in any batch.

use verdigris_kernels::{AttentionMask, Heads, Pairs, attend, rms_norm, rotate};

use super::decoder::CpuDecoder;
use super::pages::Half;
use super::projection::{project, project_each};
use super::state::State;
use super::work::{CpuItem, LatentMemory, Work};
use crate::description::config::{LatentAttention, Positions};
use crate::description::parts::LatentParts;
use crate::slices::TokenSlice;

/// Writes latent rows and attends to them, each sequence to its own: from the rows `work.x` to `work.y`.
pub(super) fn attend_to_latents(
    decoder: &CpuDecoder,
    layer: usize,
    (of, parts): (&LatentAttention, &LatentParts),
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
) {
    let &LatentAttention { heads, rank, value_dim, .. } = of;
    let stored = of.stored();
    let pairs = match (&decoder.config.positions, of.rotary) {
        (Positions::Rotary(all), Some(which)) => Some(all[which].pairs),
        _ => None,
    };
    project_queries_and_latents(of, parts, decoder.config.width, work);
    store_rows(of, &parts.norm, pairs, work);
    absorb_queries(of, parts, pairs, work);
    let m = work.positions.len();
    work.latent.mean.resize(m * heads * rank, 0.0);
    let (mut at, mut seen) = (0, 0);
    for slice in slices {
        let m = slice.len();
        let CpuItem { state: State { pages, held, .. }, batch, .. } = &mut items[slice.item];
        let (is_tree, length) = (batch.parents.is_some(), held.length());
        let of_slice = |width: usize| at * width..(at + m) * width;
        pages.write(layer, Half::Keys, length, &work.key[of_slice(stored)]);
        let mask = AttentionMask {
            visible: is_tree.then(|| &work.visible[seen..seen + m * m]),
            positions: &work.positions[of_slice(1)],
            ..AttentionMask::default()
        };
        let rows = pages.first(layer, Half::Keys, length + m);
        let shape = Heads { heads, kv_heads: 1, head_dim: stored };
        let queries = &work.query[of_slice(heads * stored)];
        let mean = &mut work.latent.mean[of_slice(heads * rank)];
        attend(queries, rows, rows.first(rank), shape, mask, of.scale as f32, mean);
        at += m;
        seen += if is_tree { m * m } else { 0 };
    }
    work.mixed.resize(m * heads * value_dim, 0.0);
    let LatentMemory { per_head, mean, .. } = &mut work.latent;
    per_head.product(&parts.values, (mean, rank), (&mut work.mixed, value_dim));
    project(&work.mixed, &parts.output, &mut work.y);
}

/// Computes the queries of all heads, and the latent vector and the rest of the key of each token.
fn project_queries_and_latents(of: &LatentAttention, parts: &LatentParts, width: usize, work: &mut Work) {
    let LatentMemory { between, down, query, .. } = &mut work.latent;
    let Some((query_down, norm)) = &parts.query_down else {
        return project_each(&work.x, width, [(&parts.query, query), (&parts.down, down)]);
    };
    project_each(&work.x, width, [(query_down, &mut *between), (&parts.down, down)]);
    work.normed.resize(between.len(), 0.0);
    rms_norm(between, norm, of.epsilon as f32, &mut work.normed);
    project(&work.normed, &parts.query, query);
}

/// Computes the rows that are stored, in `work.key`: normalises latent vectors, and rotates what follows them.
fn store_rows(of: &LatentAttention, norm: &[f32], pairs: Option<Pairs>, work: &mut Work) {
    let (rank, stored) = (of.rank, of.stored());
    work.key.clone_from(&work.latent.down);
    let down = work.latent.down.chunks(stored);
    for (token, (row, down)) in work.key.chunks_mut(stored).zip(down).enumerate() {
        rms_norm(&down[..rank], norm, of.epsilon as f32, &mut row[..rank]);
        if let Some(pairs) = pairs {
            let [cos, sin] = angles_of(token, [&work.cos, &work.sin], work.positions.len());
            rotate(&mut row[rank..], 1, of.rotated, cos, sin, pairs);
        }
    }
}

/// Computes the queries of stored rows, in `work.query`: each head's own are multiplied by its transposed matrix of
/// keys, and the rest is rotated.
fn absorb_queries(of: &LatentAttention, parts: &LatentParts, pairs: Option<Pairs>, work: &mut Work) {
    let &LatentAttention { heads, rank, unrotated, rotated, .. } = of;
    let (own, stored, m) = (unrotated + rotated, of.stored(), work.positions.len());
    let LatentMemory { per_head, query, .. } = &mut work.latent;
    work.query.resize(m * heads * stored, 0.0);
    per_head.product(&parts.keys, (query, own), (&mut work.query, stored));
    for (i, (to, from)) in work.query.chunks_mut(stored).zip(query.chunks(own)).enumerate() {
        let rest = &mut to[rank..];
        rest.copy_from_slice(&from[unrotated..]);
        if let Some(pairs) = pairs {
            let [cos, sin] = angles_of(i / heads, [&work.cos, &work.sin], m);
            rotate(rest, 1, rotated, cos, sin, pairs);
        }
    }
}

/// The cosines and sines of one of `m` tokens.
fn angles_of<'a>(token: usize, all: [&'a [f32]; 2], m: usize) -> [&'a [f32]; 2] {
    all.map(|all| &all[token * (all.len() / m)..][..all.len() / m])
}
