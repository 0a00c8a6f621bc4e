//! The weights of a decoder, by their roles.
//!
//! `M` is a matrix and `V` a vector of numbers, as an engine holds them: [`Weight`] and `Vec<f32>` in files and on a
//! CPU; on a GPU, what `Parts::upload` makes of those.

use super::weight::Weight;

/// The weights of a decoder.
#[derive(Debug)]
pub(crate) struct Parts<M = Weight, V = Vec<f32>> {
    /// `vocabulary x hidden size`.
    pub(crate) embedding: M,
    /// Learned positions: `positions x hidden size`.
    pub(crate) positions: Option<M>,
    pub(crate) embedding_norm: Option<Scales<V>>,
    pub(crate) layers: Vec<Layer<M, V>>,
    pub(crate) norm: Scales<V>,
    /// `vocabulary x hidden size`.
    pub(crate) output: M,
    /// The second embedding, and its weights in each layer.
    pub(crate) per_layer: Option<PerLayerParts<M, V>>,
    /// The factor of the residual stream after each layer.
    pub(crate) layer_scales: Option<V>,
    /// Several residual streams.
    pub(crate) alternating: Option<AlternatingParts<M, V>>,
}

/// The factors of a norm and, for a layer norm, its biases.
#[derive(Clone, Debug)]
pub(crate) struct Scales<V = Vec<f32>> {
    pub(crate) weight: V,
    pub(crate) bias: Option<V>,
}

/// A matrix (`out x in`) and, in some families, a bias.
#[derive(Clone, Debug)]
pub(crate) struct Projection<M = Weight, V = Vec<f32>> {
    pub(crate) matrix: M,
    pub(crate) bias: Option<V>,
}

/// The weights of a layer.
#[derive(Clone, Debug)]
pub(crate) struct Layer<M = Weight, V = Vec<f32>> {
    pub(crate) mixer_norm: Option<Scales<V>>,
    pub(crate) mixer: MixerParts<M, V>,
    pub(crate) after_mixer: Option<Scales<V>>,
    pub(crate) feed_forward_norm: Option<Scales<V>>,
    pub(crate) feed_forward: FeedForwardParts<M, V>,
    pub(crate) after_feed_forward: Option<Scales<V>>,
}

/// The weights of the part of a layer that mixes tokens.
#[derive(Clone, Debug)]
pub(crate) enum MixerParts<M = Weight, V = Vec<f32>> {
    Attention(AttentionParts<M, V>),
    Convolution(ConvolutionParts<M, V>),
    DeltaNet(Box<DeltaNetParts<M, V>>),
    Mamba(Box<MambaParts<M, V>>),
    Latent(LatentParts<M, V>),
}

/// The weights of attention.
#[derive(Clone, Debug)]
pub(crate) struct AttentionParts<M = Weight, V = Vec<f32>> {
    pub(crate) query: Projection<M, V>,
    /// Missing in a layer that reads another one's keys and values.
    pub(crate) key: Option<Projection<M, V>>,
    /// Missing also where values are the products for keys.
    pub(crate) value: Option<Projection<M, V>>,
    pub(crate) query_norm: Option<V>,
    pub(crate) key_norm: Option<V>,
    /// A score of each head that takes part in the softmax.
    pub(crate) sinks: Option<V>,
    pub(crate) output: Projection<M, V>,
    pub(crate) value_norm: Option<V>,
}

/// The weights of attention to latent vectors.
#[derive(Clone, Debug)]
pub(crate) struct LatentParts<M = Weight, V = Vec<f32>> {
    /// The first matrix of queries and the norm after it, if there are two.
    pub(crate) query_down: Option<(Projection<M, V>, V)>,
    /// The queries of all heads, each with the elements that are rotated last.
    pub(crate) query: Projection<M, V>,
    /// The latent vector, then the elements of the key that are rotated: `(rank + rotated) x hidden size`.
    pub(crate) down: Projection<M, V>,
    /// The norm of latent vectors.
    pub(crate) norm: V,
    /// For each head, the transposed matrix from latent vectors to keys: `rank x unrotated`.
    pub(crate) keys: Vec<M>,
    /// For each head, the matrix from latent vectors to values: `value_dim x rank`.
    pub(crate) values: Vec<M>,
    pub(crate) output: Projection<M, V>,
}

/// The weights of a gated convolution.
#[derive(Clone, Debug)]
pub(crate) struct ConvolutionParts<M = Weight, V = Vec<f32>> {
    /// The two gates, then the values: `(3 hidden size) x hidden size`.
    pub(crate) input: Projection<M, V>,
    pub(crate) taps: Taps<V>,
    pub(crate) output: Projection<M, V>,
}

/// The taps of a causal convolution: `taps x columns`, the oldest token's first.
#[derive(Clone, Debug)]
pub(crate) struct Taps<V = Vec<f32>> {
    pub(crate) weights: V,
    pub(crate) bias: Option<V>,
}

/// The weights of a gated delta net.
#[derive(Clone, Debug)]
pub(crate) struct DeltaNetParts<M = Weight, V = Vec<f32>> {
    /// Queries, keys and values.
    pub(crate) input: Projection<M, V>,
    /// The gate of the result.
    pub(crate) gate: Projection<M, V>,
    /// The strength of each head's addition, before the logistic function.
    pub(crate) strength: Projection<M, V>,
    /// The rate of each head's decay, before the bias and softplus.
    pub(crate) rate: Projection<M, V>,
    pub(crate) taps: Taps<V>,
    /// The logarithm of a head's decay at a rate of one.
    pub(crate) decay: V,
    pub(crate) rate_bias: V,
    /// Of each head's result.
    pub(crate) norm: V,
    pub(crate) output: Projection<M, V>,
}

/// The weights of a state-space model.
#[derive(Clone, Debug)]
pub(crate) struct MambaParts<M = Weight, V = Vec<f32>> {
    /// The gate of the result, then inputs, B and C, then the rate of each head's time step.
    pub(crate) input: Projection<M, V>,
    pub(crate) taps: Taps<V>,
    /// The logarithm of a head's decay at a time step of one.
    pub(crate) decay: V,
    pub(crate) rate_bias: V,
    /// The share of its input that each head's result has directly.
    pub(crate) skip: V,
    /// Of the gated result, by groups.
    pub(crate) norm: V,
    pub(crate) output: Projection<M, V>,
}

/// The weights of a feed-forward part.
#[derive(Clone, Debug)]
pub(crate) enum FeedForwardParts<M = Weight, V = Vec<f32>> {
    Dense(DenseParts<M, V>),
    Mixture(Box<MixtureParts<M, V>>),
    None,
    Both(Box<BothParts<M, V>>),
}

/// The weights of a feed-forward network.
#[derive(Clone, Debug)]
pub(crate) struct DenseParts<M = Weight, V = Vec<f32>> {
    pub(crate) gate: Option<Projection<M, V>>,
    pub(crate) up: Projection<M, V>,
    pub(crate) down: Projection<M, V>,
}

/// The weights of a mixture of experts.
#[derive(Clone, Debug)]
pub(crate) struct MixtureParts<M = Weight, V = Vec<f32>> {
    /// The scores of experts: `experts x hidden size`.
    pub(crate) router: Projection<M, V>,
    /// A number for each expert that is added for the choice only.
    pub(crate) choice_bias: Option<V>,
    pub(crate) experts: Vec<DenseParts<M, V>>,
    pub(crate) shared: Option<DenseParts<M, V>>,
    /// The strength of the shared network: `1 x hidden size`.
    pub(crate) shared_gate: Option<M>,
    /// The factor of each expert's weight.
    pub(crate) expert_scales: Option<V>,
    /// The projection to the rows of experts, `latent x hidden size`, and back.
    pub(crate) latent: Option<[Projection<M, V>; 2]>,
}

/// The weights of a network and a mixture whose results are added. The norm before the network is that of the layer.
#[derive(Clone, Debug)]
pub(crate) struct BothParts<M = Weight, V = Vec<f32>> {
    pub(crate) dense: DenseParts<M, V>,
    pub(crate) after_dense: Scales<V>,
    pub(crate) router_norm: Scales<V>,
    pub(crate) mixture_norm: Scales<V>,
    pub(crate) mixture: MixtureParts<M, V>,
    pub(crate) after_mixture: Scales<V>,
}

/// The weights of several residual streams.
#[derive(Debug)]
pub(crate) struct AlternatingParts<M = Weight, V = Vec<f32>> {
    /// The projections to the streams after the first.
    pub(crate) into: Vec<Projection<M, V>>,
    /// The projections from them.
    pub(crate) out: Vec<Projection<M, V>>,
    pub(crate) layers: Vec<AlternatingPart<M, V>>,
}

/// Their weights in a layer.
#[derive(Debug)]
pub(crate) struct AlternatingPart<M = Weight, V = Vec<f32>> {
    pub(crate) router_norm: Scales<V>,
    /// `streams x hidden size`.
    pub(crate) router: Projection<M, V>,
    /// `(streams x streams) x streams`.
    pub(crate) prediction: Projection<M, V>,
    /// `streams x streams`.
    pub(crate) correction: Projection<M, V>,
    pub(crate) scale: Option<V>,
    /// The projection past attention: `rank x hidden size`, and back.
    pub(crate) left: Projection<M, V>,
    pub(crate) right: Projection<M, V>,
    pub(crate) past_norm: Scales<V>,
}

/// A second embedding, of which each layer reads a part. Only the rows of a text's tokens are read from its file.
#[derive(Debug)]
pub(crate) struct PerLayerParts<M = Weight, V = Vec<f32>> {
    /// `vocabulary x (layers x width)`.
    pub(crate) embedding: M,
    /// The addition to a row, from the first residual stream: `(layers x width) x hidden size`.
    pub(crate) projection: Projection<M, V>,
    /// The norm of each layer's part of the products.
    pub(crate) norm: Scales<V>,
    pub(crate) layers: Vec<PerLayerPart<M, V>>,
}

/// The weights with which a layer adds its part to the residual stream.
#[derive(Debug)]
pub(crate) struct PerLayerPart<M = Weight, V = Vec<f32>> {
    /// `width x hidden size`.
    pub(crate) gate: Projection<M, V>,
    /// `hidden size x width`.
    pub(crate) projection: Projection<M, V>,
    /// The norm of what is added.
    pub(crate) norm: Scales<V>,
}

impl<M, V> Parts<M, V> {
    /// The weights of a decoder that begins with the embeddings of tokens alone.
    pub(crate) fn new(embedding: M, layers: Vec<Layer<M, V>>, norm: Scales<V>, output: M) -> Self {
        Self {
            embedding,
            positions: None,
            embedding_norm: None,
            layers,
            norm,
            output,
            per_layer: None,
            layer_scales: None,
            alternating: None,
        }
    }
}

impl<M, V> AttentionParts<M, V> {
    /// The weights of attention without norms and sinks.
    pub(crate) fn new([query, key, value, output]: [Projection<M, V>; 4]) -> Self {
        let (key, value) = (Some(key), Some(value));
        Self { query, key, value, query_norm: None, key_norm: None, sinks: None, output, value_norm: None }
    }
}

impl Taps {
    /// The taps that are stored as `columns x taps`.
    pub(crate) fn new(stored: &[f32], columns: usize, bias: Option<Vec<f32>>) -> Self {
        let taps = stored.len() / columns.max(1);
        let weights = (0..taps).flat_map(|tap| (0..columns).map(move |column| stored[column * taps + tap])).collect();
        Self { weights, bias }
    }
}

impl Projection {
    /// Some of its rows.
    pub(crate) fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let bias = self.bias.as_ref().map(|bias| bias[rows.clone()].to_vec());
        Self { matrix: self.matrix.part(rows), bias }
    }

    /// Some of its rows in the given order.
    pub(crate) fn gather(&self, rows: impl Iterator<Item = usize> + Clone) -> Self {
        let bias = self.bias.as_ref().map(|bias| rows.clone().map(|row| bias[row]).collect());
        Self { matrix: self.matrix.gather(rows), bias }
    }
}

impl<M, V> Layer<M, V> {
    /// Its attention, if it has one.
    pub(crate) fn attention(&self) -> Option<&AttentionParts<M, V>> {
        if let MixerParts::Attention(attention) = &self.mixer { Some(attention) } else { None }
    }

    /// Its feed-forward network, if every token uses the same.
    pub(crate) fn dense(&self) -> Option<&DenseParts<M, V>> {
        if let FeedForwardParts::Dense(dense) = &self.feed_forward { Some(dense) } else { None }
    }
}

/// The same weights on another engine.
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
mod elsewhere {
    use super::{
        AttentionParts, BothParts, DenseParts, FeedForwardParts, LatentParts, Layer, MixerParts, MixtureParts, Parts,
        Projection, Scales,
    };

    /// Creates the matrices and vectors of another engine.
    pub(crate) trait Upload<M, V> {
        /// Its matrix and its vector.
        type Matrix;
        type Vector;
        type Error;

        fn matrix(&mut self, matrix: &M) -> Result<Self::Matrix, Self::Error>;

        fn vector(&mut self, vector: &V) -> Result<Self::Vector, Self::Error>;
    }

    type On<T, U> = Result<T, U>;

    impl<M, V> Parts<M, V> {
        /// The same weights, as created by `to`.
        pub(crate) fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<Parts<U::Matrix, U::Vector>, U::Error> {
            Ok(Parts {
                embedding: to.matrix(&self.embedding)?,
                positions: self.positions.as_ref().map(|positions| to.matrix(positions)).transpose()?,
                embedding_norm: scales(to, &self.embedding_norm)?,
                layers: self.layers.iter().map(|layer| layer.upload(to)).collect::<Result<_, _>>()?,
                norm: self.norm.upload(to)?,
                output: to.matrix(&self.output)?,
                // No other engine runs this, and several streams.
                per_layer: None,
                layer_scales: vector(to, &self.layer_scales)?,
                alternating: None,
            })
        }
    }

    impl<V> Scales<V> {
        fn upload<M, U: Upload<M, V>>(&self, to: &mut U) -> On<Scales<U::Vector>, U::Error> {
            Ok(Scales { weight: to.vector(&self.weight)?, bias: vector(to, &self.bias)? })
        }
    }

    fn scales<M, V, U: Upload<M, V>>(to: &mut U, all: &Option<Scales<V>>) -> On<Option<Scales<U::Vector>>, U::Error> {
        all.as_ref().map(|scales| scales.upload(to)).transpose()
    }

    impl<M, V> Projection<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<Projection<U::Matrix, U::Vector>, U::Error> {
            Ok(Projection { matrix: to.matrix(&self.matrix)?, bias: vector(to, &self.bias)? })
        }
    }

    impl<M, V> Layer<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<Layer<U::Matrix, U::Vector>, U::Error> {
            Ok(Layer {
                mixer_norm: scales(to, &self.mixer_norm)?,
                mixer: match &self.mixer {
                    MixerParts::Attention(attention) => MixerParts::Attention(attention.upload(to)?),
                    MixerParts::Latent(latent) => MixerParts::Latent(latent.upload(to)?),
                    _ => unreachable!("other layers are refused before"),
                },
                after_mixer: scales(to, &self.after_mixer)?,
                feed_forward_norm: scales(to, &self.feed_forward_norm)?,
                feed_forward: match &self.feed_forward {
                    FeedForwardParts::Dense(dense) => FeedForwardParts::Dense(dense.upload(to)?),
                    FeedForwardParts::Mixture(mixture) => FeedForwardParts::Mixture(Box::new(mixture.upload(to)?)),
                    FeedForwardParts::None => FeedForwardParts::None,
                    FeedForwardParts::Both(both) => FeedForwardParts::Both(Box::new(both.upload(to)?)),
                },
                after_feed_forward: scales(to, &self.after_feed_forward)?,
            })
        }
    }

    fn vector<M, V, U: Upload<M, V>>(to: &mut U, vector: &Option<V>) -> On<Option<U::Vector>, U::Error> {
        vector.as_ref().map(|vector| to.vector(vector)).transpose()
    }

    impl<M, V> AttentionParts<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<AttentionParts<U::Matrix, U::Vector>, U::Error> {
            Ok(AttentionParts {
                query: self.query.upload(to)?,
                key: self.key.as_ref().map(|key| key.upload(to)).transpose()?,
                value: self.value.as_ref().map(|value| value.upload(to)).transpose()?,
                query_norm: vector(to, &self.query_norm)?,
                key_norm: vector(to, &self.key_norm)?,
                sinks: vector(to, &self.sinks)?,
                output: self.output.upload(to)?,
                value_norm: vector(to, &self.value_norm)?,
            })
        }
    }

    impl<M, V> LatentParts<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<LatentParts<U::Matrix, U::Vector>, U::Error> {
            let query_down = self.query_down.as_ref().map(|(down, norm)| Ok((down.upload(to)?, to.vector(norm)?)));
            Ok(LatentParts {
                query_down: query_down.transpose()?,
                query: self.query.upload(to)?,
                down: self.down.upload(to)?,
                norm: to.vector(&self.norm)?,
                keys: self.keys.iter().map(|matrix| to.matrix(matrix)).collect::<Result<_, _>>()?,
                values: self.values.iter().map(|matrix| to.matrix(matrix)).collect::<Result<_, _>>()?,
                output: self.output.upload(to)?,
            })
        }
    }

    impl<M, V> DenseParts<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<DenseParts<U::Matrix, U::Vector>, U::Error> {
            Ok(DenseParts {
                gate: self.gate.as_ref().map(|gate| gate.upload(to)).transpose()?,
                up: self.up.upload(to)?,
                down: self.down.upload(to)?,
            })
        }
    }

    impl<M, V> MixtureParts<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<MixtureParts<U::Matrix, U::Vector>, U::Error> {
            Ok(MixtureParts {
                router: self.router.upload(to)?,
                choice_bias: vector(to, &self.choice_bias)?,
                experts: self.experts.iter().map(|expert| expert.upload(to)).collect::<Result<_, _>>()?,
                shared: self.shared.as_ref().map(|shared| shared.upload(to)).transpose()?,
                shared_gate: self.shared_gate.as_ref().map(|gate| to.matrix(gate)).transpose()?,
                expert_scales: vector(to, &self.expert_scales)?,
                // GPUs compute no mixtures.
                latent: None,
            })
        }
    }

    impl<M, V> BothParts<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<BothParts<U::Matrix, U::Vector>, U::Error> {
            Ok(BothParts {
                dense: self.dense.upload(to)?,
                after_dense: self.after_dense.upload(to)?,
                router_norm: self.router_norm.upload(to)?,
                mixture_norm: self.mixture_norm.upload(to)?,
                mixture: self.mixture.upload(to)?,
                after_mixture: self.after_mixture.upload(to)?,
            })
        }
    }
}

#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub(crate) use elsewhere::Upload;
