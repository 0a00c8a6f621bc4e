//! The part of a decoder that each of several ranks has.

use std::fmt;
use std::ops::Range;

use verdigris_kernels::Format;

use super::config::{Attention, DecoderConfig, FeedForward, Mixer, QueryKeyNorm};
use super::parts::{AttentionParts, DenseParts, FeedForwardParts, Layer, MixerParts, Parts, Projection};
use super::weight::Weight;

/// The way that a model is split across ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Each rank has a part of every layer: some heads, some elements of the feed-forward part, some tokens of the
    /// output matrix (Shoeybi et al., *Megatron-LM*, 2019, section 3). Ranks compute at the same time, and add up their
    /// results twice per layer.
    #[default]
    #[doc(alias = "tensor_parallel")]
    Tensor,
    /// Each rank has some consecutive layers, and sends the hidden rows to the next (Huang et al., *GPipe*, 2018,
    /// section 2). One rank computes at a time, except for the chunks of a long prompt.
    #[doc(alias = "pipeline_parallel")]
    Layers,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tensor => "tensor",
            Self::Layers => "layers",
        })
    }
}

/// The reason why a decoder cannot be split like this.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSplit {
    /// Heads that cannot be divided evenly.
    #[error(
        "{heads} attention heads with {kv_heads} key-value heads cannot be shared out evenly to {world} ranks: choose \
         a number that divides the heads, and divides the key-value heads or is a multiple of them; or --split layers"
    )]
    Heads {
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Ranks.
        world: usize,
    },
    /// A rank's part of a row would begin inside a block.
    #[error(
        "the {name} matrix of layer {layer} is stored as {format:?}, in blocks of {}, and a row of {columns} cannot be \
         shared out to {world} ranks in whole ones: take fewer ranks, --split layers, or a file of other blocks",
        format.block()
    )]
    Blocks {
        /// The matrix.
        name: &'static str,
        /// Its layer.
        layer: usize,
        /// Its format.
        format: Format,
        /// Its columns.
        columns: usize,
        /// Ranks.
        world: usize,
    },
    /// A decoder whose layers cannot be cut.
    #[error("a model with {0} cannot be split into parts of every layer: take --split layers")]
    Layer(&'static str),
    /// A decoder whose layers have states, which only one rank can cut back.
    #[error("a model with recurrent layers cannot be split: run it on one rank")]
    Recurrent,
    /// A decoder whose layers need more of each other than the residual stream.
    #[error("a model with {0} cannot be split across ranks")]
    Whole(&'static str),
    /// More ranks than layers.
    #[error("{layers} layers cannot be shared out to {world} ranks: take {layers} or fewer")]
    Layers {
        /// Layers.
        layers: usize,
        /// Ranks.
        world: usize,
    },
}

/// One of `world` parts of `0..total`, as even as whole numbers allow.
pub(crate) fn part_of(total: usize, rank: usize, world: usize) -> Range<usize> {
    rank * total / world..(rank + 1) * total / world
}

/// Checks that a decoder can be split like this.
pub(crate) fn check(config: &DecoderConfig, parts: &Parts, split: Split, world: usize) -> Result<(), BadSplit> {
    let layers = config.blocks.len();
    if config.is_recurrent() {
        return Err(BadSplit::Recurrent);
    }
    if config.per_layer.is_some() {
        return Err(BadSplit::Whole("an embedding of which every layer reads a part"));
    }
    if config.alternating.is_some() {
        return Err(BadSplit::Whole("several residual streams"));
    }
    if config.attentions().any(|attention| attention.reads.is_some()) {
        return Err(BadSplit::Whole("layers that read the keys and values of others"));
    }
    if split == Split::Layers {
        return if world > layers { Err(BadSplit::Layers { layers, world }) } else { Ok(()) };
    }
    if config.blocks.iter().any(|block| block.mixer.latent().is_some()) {
        return Err(BadSplit::Layer("attention to latent vectors"));
    }
    let Some((attention, _)) = config.alike() else {
        return Err(BadSplit::Layer("layers of several kinds, or a mixture of experts"));
    };
    let &Attention { heads, kv_heads, head_dim, sinks, gated, values_of_keys, value_norm, .. } = attention;
    if sinks || gated {
        return Err(BadSplit::Layer("attention sinks or gates"));
    }
    if values_of_keys || value_norm {
        return Err(BadSplit::Layer("norms of values"));
    }
    let is_even = kv_heads.is_multiple_of(world) || world.is_multiple_of(kv_heads);
    if !heads.is_multiple_of(world) || !is_even {
        return Err(BadSplit::Heads { heads, kv_heads, world });
    }
    for (layer, parts) in parts.layers.iter().enumerate() {
        let (AttentionParts { output, .. }, DenseParts { down, .. }) = of_layer(parts);
        let blocks = |name, Projection { matrix, .. }: &Projection| {
            let (format, columns) = (matrix.format(), matrix.columns());
            BadSplit::Blocks { name, layer, format, columns, world }
        };
        if !(heads / world * head_dim).is_multiple_of(output.matrix.format().block()) {
            return Err(blocks("attention output", output));
        }
        if down.matrix.columns() / down.matrix.format().block() < world {
            return Err(blocks("down", down));
        }
    }
    Ok(())
}

/// The part of one rank: a decoder with fewer heads and a narrower feed-forward part, or with fewer layers. The split
/// must have passed [`check`].
pub(crate) fn part(
    config: &DecoderConfig,
    parts: &Parts,
    split: Split,
    rank: usize,
    world: usize,
) -> (DecoderConfig, Parts) {
    let mut config = config.clone();
    let mut all = Parts {
        embedding: parts.embedding.clone(),
        positions: parts.positions.clone(),
        embedding_norm: parts.embedding_norm.clone(),
        layers: Vec::new(),
        norm: parts.norm.clone(),
        output: parts.output.clone(),
        per_layer: None,
        layer_scales: parts.layer_scales.clone(),
        alternating: None,
    };
    if split == Split::Layers {
        let range = layers_of(parts, rank, world);
        config.blocks = config.blocks[range.clone()].to_vec();
        all.layers = parts.layers[range.clone()].to_vec();
        all.layer_scales = parts.layer_scales.as_ref().map(|scales| scales[range].to_vec());
        return (config, all);
    }
    let (attention, _) = config.alike().expect("layers that are alike, as was checked");
    let &Attention { head_dim, query_key_norm, .. } = attention;
    let heads = part_of(attention.heads, rank, world);
    // If there are more ranks than key-value heads, several ranks have the same one.
    let group = attention.heads / attention.kv_heads;
    let kv_heads = heads.start / group..(heads.end - 1) / group + 1;
    let part_of_layer = |layer: &Layer| {
        let (attention, network) = of_layer(layer);
        let rows = |heads: &Range<usize>| heads.start * head_dim..heads.end * head_dim;
        // A norm over all heads is cut; a norm that each head uses is not.
        let norm_of = |norm: &Vec<f32>, rows: Range<usize>| match query_key_norm {
            Some(QueryKeyNorm::Tokens) => norm[rows].to_vec(),
            _ => norm.clone(),
        };
        let block = network.down.matrix.format().block();
        let units = part_of(network.down.matrix.columns() / block, rank, world);
        let inner = units.start * block..units.end * block;
        let attention = AttentionParts {
            query: attention.query.part(rows(&heads)),
            key: attention.key.as_ref().map(|key| key.part(rows(&kv_heads))),
            value: attention.value.as_ref().map(|value| value.part(rows(&kv_heads))),
            query_norm: attention.query_norm.as_ref().map(|norm| norm_of(norm, rows(&heads))),
            key_norm: attention.key_norm.as_ref().map(|norm| norm_of(norm, rows(&kv_heads))),
            sinks: None,
            output: summand(&attention.output, rows(&heads), rank),
            value_norm: None,
        };
        let network = DenseParts {
            gate: network.gate.as_ref().map(|gate| gate.part(inner.clone())),
            up: network.up.part(inner.clone()),
            down: summand(&network.down, inner, rank),
        };
        let (mixer, feed_forward) = (MixerParts::Attention(attention), FeedForwardParts::Dense(network));
        Layer { mixer, feed_forward, ..layer.clone() }
    };
    all.layers = parts.layers.iter().map(part_of_layer).collect();
    all.output = parts.output.part(part_of(config.vocabulary, rank, world));
    let inner = all.layers.iter().map(|layer| of_layer(layer).1.up.matrix.rows()).max().unwrap_or(0);
    for block in &mut config.blocks {
        let Mixer::Attention(attention) = &mut block.mixer else { unreachable!("it was checked") };
        (attention.heads, attention.kv_heads) = (heads.len(), kv_heads.len());
        if let FeedForward::Dense(network) = &mut block.feed_forward {
            network.width = inner;
        }
    }
    (config, all)
}

/// The attention and the network of a layer, which were checked.
fn of_layer(layer: &Layer) -> (&AttentionParts, &DenseParts) {
    layer.attention().zip(layer.dense()).expect("attention and one network")
}

/// Some columns of a projection, whose products are added up over all ranks. Only rank 0 adds the bias.
fn summand(whole: &Projection, columns: Range<usize>, rank: usize) -> Projection {
    let matrix = whole.matrix.columns_part(columns).expect("whole blocks, as was checked");
    Projection { matrix, bias: whole.bias.clone().filter(|_| rank == 0) }
}

/// The layers of a rank: borders are where the bytes before them are nearest to an even share. The output matrix counts
/// as bytes before the first layer, since rank 0 has it.
fn layers_of(parts: &Parts, rank: usize, world: usize) -> Range<usize> {
    let size = |weight: &Weight| weight.matrix().bytes().len();
    let mut before = vec![size(&parts.output)];
    for layer in &parts.layers {
        before.push(before[before.len() - 1] + layer.matrices().map(size).sum::<usize>());
    }
    let (layers, total) = (parts.layers.len(), before[before.len() - 1]);
    let mut borders = vec![0];
    for border in 1..world {
        // Each rank has at least one layer.
        let possible = borders[border - 1] + 1..=layers - (world - border);
        let nearest = possible.min_by_key(|&at| before[at].abs_diff(total * border / world));
        borders.push(nearest.expect("a layer for each rank"));
    }
    borders.push(layers);
    borders[rank]..borders[rank + 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::config::{Activation, Dense, Norm};
    use crate::description::matrix::Matrix;
    use crate::description::parts::Scales;

    /// Weights that encode their own position: `1000 * row + column`.
    fn matrix(rows: usize, columns: usize) -> Weight {
        let number = |i: usize| (1000 * (i / columns) + i % columns) as f32;
        let numbers: Vec<f32> = (0..rows * columns).map(number).collect();
        Matrix::of_numbers(&numbers, columns).into()
    }

    fn projection(rows: usize, columns: usize) -> Projection {
        Projection { matrix: matrix(rows, columns), bias: Some((0..rows).map(|row| row as f32).collect()) }
    }

    /// A decoder with six heads of two elements, three key-value heads, and a feed-forward part of width seven.
    fn decoder(layers: usize) -> (DecoderConfig, Parts) {
        let (vocabulary, width, heads, kv_heads, head_dim) = (10, 5, 6, 3, 2);
        let network = Dense { width: 7, activation: Activation::Silu, gated: true, bias: true };
        let norm = Norm::Rms { epsilon: 1e-5 };
        let shape = DecoderConfig { vocabulary, width, context: 9, norm, ..Default::default() };
        let attention = || AttentionParts {
            query: projection(heads * head_dim, width),
            key: Some(projection(kv_heads * head_dim, width)),
            value: Some(projection(kv_heads * head_dim, width)),
            query_norm: None,
            key_norm: None,
            sinks: None,
            output: projection(width, heads * head_dim),
            value_norm: None,
        };
        let layer = || Layer {
            mixer_norm: None,
            mixer: MixerParts::Attention(attention()),
            after_mixer: None,
            feed_forward_norm: None,
            feed_forward: FeedForwardParts::Dense(DenseParts {
                gate: Some(projection(7, width)),
                up: projection(7, width),
                down: projection(width, 7),
            }),
            after_feed_forward: None,
        };
        let layers_of = (0..layers).map(|_| layer()).collect();
        let norm = Scales { weight: vec![1.0; width], bias: None };
        let parts = Parts::new(matrix(vocabulary, width), layers_of, norm, matrix(vocabulary, width));
        let attention = Attention { heads, kv_heads, head_dim, ..Default::default() };
        (shape.with_layers(layers, attention, network), parts)
    }

    fn heads_of(config: &DecoderConfig) -> (usize, usize) {
        let attention = config.attention(0).unwrap();
        (attention.heads, attention.kv_heads)
    }

    /// The parts of all ranks make up the whole, without overlap, and biases are added once.
    #[test]
    fn parts_of_layers_are_the_whole() {
        let (config, whole) = decoder(2);
        check(&config, &whole, Split::Tensor, 3).unwrap();
        let ranks: Vec<_> = (0..3).map(|rank| part(&config, &whole, Split::Tensor, rank, 3)).collect();
        let of = |get: &dyn Fn(&Layer) -> &Projection| {
            let parts: Vec<_> = ranks.iter().map(|(_, parts)| get(&parts.layers[1]).clone()).collect();
            (get(&whole.layers[1]).clone(), parts)
        };
        let by_rows: [&dyn Fn(&Layer) -> &Projection; 5] = [
            &|layer| &of_layer(layer).0.query,
            &|layer| of_layer(layer).0.key.as_ref().unwrap(),
            &|layer| of_layer(layer).0.value.as_ref().unwrap(),
            &|layer| &of_layer(layer).1.up,
            &|layer| of_layer(layer).1.gate.as_ref().unwrap(),
        ];
        for get in by_rows {
            let (whole, parts) = of(get);
            let numbers: Vec<f32> = parts.iter().flat_map(|part| part.matrix.matrix().numbers()).collect();
            assert_eq!(numbers, whole.matrix.matrix().numbers());
            let biases: Vec<f32> = parts.iter().flat_map(|part| part.bias.clone().unwrap()).collect();
            assert_eq!(Some(biases), whole.bias);
        }
        let by_columns: [&dyn Fn(&Layer) -> &Projection; 2] =
            [&|layer| &of_layer(layer).0.output, &|layer| &of_layer(layer).1.down];
        for get in by_columns {
            let (whole, parts) = of(get);
            let columns = whole.matrix.columns();
            let row = |part: &Projection| part.matrix.matrix().numbers()[..part.matrix.columns()].to_vec();
            let numbers: Vec<f32> = parts.iter().flat_map(row).collect();
            assert_eq!(numbers, whole.matrix.matrix().numbers()[..columns]);
            let added: Vec<bool> = parts.iter().map(|part| part.bias.is_some()).collect();
            assert_eq!(added, [true, false, false]);
        }
        let tokens: Vec<f32> = ranks.iter().flat_map(|(_, parts)| parts.output.matrix().numbers()).collect();
        assert_eq!(tokens, whole.output.matrix().numbers());
        assert_eq!(ranks.iter().map(|(config, _)| heads_of(config)).collect::<Vec<_>>(), [(2, 1); 3]);
    }

    #[test]
    fn more_ranks_than_key_value_heads_have_the_same_ones() {
        let (config, whole) = decoder(1);
        check(&config, &whole, Split::Tensor, 6).unwrap();
        for rank in 0..6 {
            let (own, parts) = part(&config, &whole, Split::Tensor, rank, 6);
            assert_eq!(heads_of(&own), (1, 1));
            let key = |parts: &Parts| of_layer(&parts.layers[0]).0.key.clone().unwrap().matrix;
            let expected = key(&whole).part(rank / 2 * 2..rank / 2 * 2 + 2).matrix().numbers();
            assert_eq!(key(&parts).matrix().numbers(), expected, "{rank}");
        }
    }

    #[test]
    fn layers_are_shared_out_by_their_bytes() {
        let (config, whole) = decoder(7);
        for world in 1..=7 {
            check(&config, &whole, Split::Layers, world).unwrap();
            let ranges: Vec<_> = (0..world).map(|rank| layers_of(&whole, rank, world)).collect();
            assert!(ranges.iter().all(|range| !range.is_empty()), "{ranges:?}");
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
            assert_eq!((ranges[0].start, ranges[world - 1].end), (0, 7));
        }
        assert_eq!(layers_of(&whole, 1, 2), 3..7);
        // Rank 0 also has the output matrix, here as large as ten layers.
        let (_, mut whole) = decoder(7);
        whole.output = matrix(2000, 5);
        assert_eq!(layers_of(&whole, 0, 2), 0..1);
    }

    #[test]
    fn what_does_not_come_out_even_has_a_name() {
        let (config, whole) = decoder(2);
        for world in [2, 4, 5, 12] {
            let fault = check(&config, &whole, Split::Tensor, world).unwrap_err();
            assert_eq!(fault, BadSplit::Heads { heads: 6, kv_heads: 3, world });
        }
        let fault = check(&config, &whole, Split::Layers, 3).unwrap_err();
        assert_eq!(fault, BadSplit::Layers { layers: 2, world: 3 });
    }
}
