//! The weights of a decoder, by their roles.
//!
//! `M` is a matrix and `V` a vector of numbers, as an engine holds them: [`Weight`] and `Vec<f32>` in files and on a
//! CPU; on a GPU, what `Parts::upload` makes of those.

use super::config::NormPlacement;
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
    pub(crate) attention_norm: Option<Scales<V>>,
    pub(crate) query: Projection<M, V>,
    pub(crate) key: Projection<M, V>,
    pub(crate) value: Projection<M, V>,
    pub(crate) query_norm: Option<V>,
    pub(crate) key_norm: Option<V>,
    pub(crate) output: Projection<M, V>,
    pub(crate) after_attention: Option<Scales<V>>,
    pub(crate) feed_forward_norm: Option<Scales<V>>,
    pub(crate) gate: Option<Projection<M, V>>,
    pub(crate) up: Projection<M, V>,
    pub(crate) down: Projection<M, V>,
    pub(crate) after_feed_forward: Option<Scales<V>>,
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
    /// All its matrices.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &M> {
        let Self { query, key, value, output, gate, up, down, .. } = self;
        [query, key, value, output, up, down].into_iter().chain(gate).map(|projection| &projection.matrix)
    }
}

/// Whether a layer has norms before its parts, and after them.
pub(crate) fn norms(placement: NormPlacement) -> (bool, bool) {
    match placement {
        NormPlacement::Before => (true, false),
        NormPlacement::After => (false, true),
        NormPlacement::Around => (true, true),
    }
}

/// The same weights on another engine.
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
mod elsewhere {
    use super::{Layer, Parts, Projection, Scales};

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
            })
        }
    }

    impl<V> Scales<V> {
        fn upload<M, U: Upload<M, V>>(&self, to: &mut U) -> On<Scales<U::Vector>, U::Error> {
            let bias = self.bias.as_ref().map(|bias| to.vector(bias)).transpose()?;
            Ok(Scales { weight: to.vector(&self.weight)?, bias })
        }
    }

    fn scales<M, V, U: Upload<M, V>>(to: &mut U, all: &Option<Scales<V>>) -> On<Option<Scales<U::Vector>>, U::Error> {
        all.as_ref().map(|scales| scales.upload(to)).transpose()
    }

    impl<M, V> Projection<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<Projection<U::Matrix, U::Vector>, U::Error> {
            let bias = self.bias.as_ref().map(|bias| to.vector(bias)).transpose()?;
            Ok(Projection { matrix: to.matrix(&self.matrix)?, bias })
        }
    }

    impl<M, V> Layer<M, V> {
        fn upload<U: Upload<M, V>>(&self, to: &mut U) -> On<Layer<U::Matrix, U::Vector>, U::Error> {
            Ok(Layer {
                attention_norm: scales(to, &self.attention_norm)?,
                query: self.query.upload(to)?,
                key: self.key.upload(to)?,
                value: self.value.upload(to)?,
                query_norm: self.query_norm.as_ref().map(|weight| to.vector(weight)).transpose()?,
                key_norm: self.key_norm.as_ref().map(|weight| to.vector(weight)).transpose()?,
                output: self.output.upload(to)?,
                after_attention: scales(to, &self.after_attention)?,
                feed_forward_norm: scales(to, &self.feed_forward_norm)?,
                gate: self.gate.as_ref().map(|gate| gate.upload(to)).transpose()?,
                up: self.up.upload(to)?,
                down: self.down.upload(to)?,
                after_feed_forward: scales(to, &self.after_feed_forward)?,
            })
        }
    }
}

#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub(crate) use elsewhere::Upload;
