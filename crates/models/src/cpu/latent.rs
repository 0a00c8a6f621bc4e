//! Attention to latent vectors in a pass.
//!
//! The score of a head's query `q` and a key `W c`, where `c` is a latent vector, is the product of `W^T q` and `c`;
//! and the sum of values `V c` over tokens is `V` times the sum of `c`. So all heads attend to the same stored rows,
//! which are the latent vector and the rotated elements of the key, and no key or value is computed. It is the same sum
//! for any number of rows, so a row has the same bits in any batch.

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
fn angles_of(token: usize, all: [&[f32]; 2], m: usize) -> [&[f32]; 2] {
    all.map(|all| &all[token * (all.len() / m)..][..all.len() / m])
}

#[cfg(test)]
mod tests {
    use verdigris_kernels::{Activation, Format};
    use verdigris_logits::{Purpose, Random};

    use super::super::attention::cosines_and_sines;
    use super::super::work::Sight;
    use super::*;
    use crate::cache::CacheLayout;
    use crate::description::config::{Block, DecoderConfig, Dense, FeedForward, Mixer, Rotary};
    use crate::description::matrix::Matrix;
    use crate::description::parts::{DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Projection, Scales};
    use crate::language_model::{Batch, Rows, Wanted};
    use crate::slices::share_out;

    const WIDTH: usize = 24;
    const M: usize = 9;

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 - 0.5).collect()
    }

    fn projection(out: usize, input: usize, bias: bool, seed: u64) -> Projection {
        let matrix = Matrix::of_numbers(&noise(out * input, seed), input).into();
        Projection { matrix, bias: bias.then(|| noise(out, seed + 100)) }
    }

    /// A decoder of one layer.
    fn decoder(of: &LatentAttention, pairs: Pairs, cached_as: Format) -> CpuDecoder {
        let own = of.unrotated + of.rotated;
        let matrices = |rows: usize, columns: usize, seed: u64| {
            let all = Matrix::of_numbers(&noise(of.heads * rows * columns, seed), columns);
            (0..of.heads).map(|head| all.part(head * rows..(head + 1) * rows).into()).collect()
        };
        let parts = LatentParts {
            query_down: of.query_rank.map(|rank| (projection(rank, WIDTH, of.bias, 1), noise(rank, 2))),
            query: projection(of.heads * own, of.query_rank.unwrap_or(WIDTH), false, 3),
            down: projection(of.stored(), WIDTH, of.bias, 4),
            norm: noise(of.rank, 5),
            keys: matrices(of.rank, of.unrotated, 6),
            values: matrices(of.value_dim, of.rank, 7),
            output: projection(WIDTH, of.heads * of.value_dim, of.bias, 8),
        };
        let network = Dense { width: 1, activation: Activation::Silu, gated: false, bias: false };
        let block = Block { mixer: Mixer::Latent(of.clone()), feed_forward: FeedForward::Dense(network) };
        let config = DecoderConfig {
            vocabulary: 2,
            width: WIDTH,
            context: 64,
            positions: Positions::Rotary(vec![Rotary { pairs, ..Rotary::new(100.0) }]),
            blocks: vec![block],
            ..DecoderConfig::default()
        };
        let layer = Layer {
            mixer_norm: None,
            mixer: MixerParts::Latent(parts),
            after_mixer: None,
            feed_forward_norm: None,
            feed_forward: FeedForwardParts::Dense(DenseParts {
                gate: None,
                up: projection(1, WIDTH, false, 9),
                down: projection(WIDTH, 1, false, 10),
            }),
            after_feed_forward: None,
        };
        let matrix = || projection(2, WIDTH, false, 11).matrix;
        let norm = Scales { weight: noise(WIDTH, 12), bias: None };
        let parts = Parts::new(matrix(), vec![layer], norm, matrix());
        config.check().unwrap();
        CpuDecoder::new(config, parts, Some(cached_as), CacheLayout::Paged { tokens: 4 }).unwrap()
    }

    /// The output of attention for `x`, computed with the tokens in calls of `size`.
    fn computed(decoder: &CpuDecoder, x: &[f32], size: usize) -> Vec<f32> {
        let (Mixer::Latent(of), MixerParts::Latent(parts)) =
            (&decoder.config.blocks[0].mixer, &decoder.parts.layers[0].mixer)
        else {
            unreachable!()
        };
        let (mut state, mut work, mut all) = (State::new(decoder, M).unwrap(), Work::default(), Vec::new());
        for x in x.chunks(size * WIDTH) {
            let (m, from) = (x.len() / WIDTH, state.held.length());
            state.pages.make_own(from, from + m).unwrap();
            let (tokens, mut slices, mut rows) = (vec![0; m], Vec::new(), Rows::default());
            let batch = Batch::chain(&tokens, Wanted::Last);
            share_out([batch].into_iter(), &mut slices);
            work.x = x.to_vec();
            work.positions = (from as u32..(from + m) as u32).collect();
            let items =
                &mut [CpuItem { state: &mut state, batch, beginning: None, sight: Sight::Before, rows: &mut rows }];
            cosines_and_sines(0, items, &slices, &mut work);
            attend_to_latents(decoder, 0, (of, parts), items, &slices, &mut work);
            all.extend_from_slice(&work.y);
            state.held.extend(m);
        }
        all
    }

    /// The definition in f64: keys and values of every head are computed.
    fn expanded(decoder: &CpuDecoder, pairs: Pairs, x: &[f32]) -> Vec<f64> {
        let (Mixer::Latent(of), MixerParts::Latent(parts)) =
            (&decoder.config.blocks[0].mixer, &decoder.parts.layers[0].mixer)
        else {
            unreachable!()
        };
        let &LatentAttention { heads, rank, unrotated, rotated, value_dim, .. } = of;
        let product = |projection: &Projection, x: &[f64]| -> Vec<f64> {
            let numbers = projection.matrix.matrix().numbers();
            let bias = |i: usize| projection.bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]));
            let rows = numbers.chunks(x.len()).enumerate();
            rows.map(|(i, row)| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>() + bias(i)).collect()
        };
        let normed = |x: &[f64], weight: &[f32]| -> Vec<f64> {
            let square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
            x.iter().zip(weight).map(|(x, w)| x / (square + of.epsilon).sqrt() * f64::from(*w)).collect()
        };
        let turned = |x: &[f64], position: usize| {
            let (mut out, half) = (x.to_vec(), rotated / 2);
            for i in 0..half {
                let (a, b) = if pairs == Pairs::Halves { (i, i + half) } else { (2 * i, 2 * i + 1) };
                let angle = position as f64 * 100f64.powf(-(2.0 * i as f64) / rotated as f64);
                let (sin, cos) = angle.sin_cos();
                (out[a], out[b]) = (x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin);
            }
            out
        };
        let (mut keys, mut values, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for (t, x) in x.chunks(WIDTH).enumerate() {
            let x: Vec<f64> = x.iter().copied().map(f64::from).collect();
            let down = product(&parts.down, &x);
            let latent = normed(&down[..rank], &parts.norm);
            let rest = turned(&down[rank..], t);
            let key = |head: usize| -> Vec<f64> {
                let matrix = parts.keys[head].matrix().numbers();
                let column = |i: usize| (0..rank).map(|r| f64::from(matrix[r * unrotated + i]) * latent[r]).sum();
                (0..unrotated).map(column).chain(rest.iter().copied()).collect()
            };
            keys.push((0..heads).map(key).collect::<Vec<_>>());
            let value = |head: usize| product(&Projection { matrix: parts.values[head].clone(), bias: None }, &latent);
            values.push((0..heads).map(value).collect::<Vec<_>>());
            let query = match &parts.query_down {
                Some((down, norm)) => product(&parts.query, &normed(&product(down, &x), norm)),
                None => product(&parts.query, &x),
            };
            let mixed = query.chunks(unrotated + rotated).enumerate().flat_map(|(head, query)| {
                let query = [&query[..unrotated], &turned(&query[unrotated..], t)].concat();
                let score = |key: &[f64]| key.iter().zip(&query).map(|(k, q)| k * q).sum::<f64>() * of.scale;
                let weights: Vec<f64> = keys.iter().map(|key| score(&key[head]).exp()).collect();
                let total: f64 = weights.iter().sum();
                let sum = |i: usize| weights.iter().zip(&values).map(|(w, v)| w / total * v[head][i]).sum::<f64>();
                (0..value_dim).map(sum).collect::<Vec<f64>>()
            });
            let mixed: Vec<f64> = mixed.collect();
            out.extend(product(&parts.output, &mixed));
        }
        out
    }

    #[test]
    fn equals_the_definition_in_f64_in_every_format() {
        let x = noise(M * WIDTH, 20);
        for (query_rank, bias, pairs) in
            [(None, false, Pairs::Neighbours), (Some(10), true, Pairs::Halves), (Some(10), false, Pairs::Neighbours)]
        {
            let of = LatentAttention {
                heads: 3,
                query_rank,
                rank: 32,
                unrotated: 7,
                rotated: 32,
                value_dim: 5,
                rotary: Some(0),
                scale: 0.4,
                bias,
                epsilon: 1e-6,
            };
            for (format, most) in [(Format::F32, 2e-6), (Format::F16, 1e-3), (Format::Bf16, 1e-2), (Format::Q8_0, 1e-2)]
            {
                let decoder = decoder(&of, pairs, format);
                let (got, expected) = (computed(&decoder, &x, M), expanded(&decoder, pairs, &x));
                let scale = expected.iter().fold(0f64, |all, x| all.max(x.abs()));
                let differences = got.iter().zip(&expected).map(|(got, x)| (f64::from(*got) - x).abs() / scale);
                let worst = differences.fold(0f64, f64::max);
                println!("{query_rank:?} {format:?}: {worst:e}");
                assert!(worst > 0.0 && worst < most, "{query_rank:?} {pairs:?} {format:?}: {worst}");
                for size in [1, 2, 5] {
                    assert!(computed(&decoder, &x, size) == got, "{format:?} in calls of {size}");
                }
            }
        }
    }
}
