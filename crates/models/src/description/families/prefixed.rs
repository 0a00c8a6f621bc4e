//! Weights whose names have a common prefix: `transformer.`, or none.

use verdigris_kernels::Bytes;

use crate::description::checkpoint::Checkpoint;
use crate::description::config::{Attention, DecoderConfig, Dense, Norm};
use crate::description::matrix::Matrix;
use crate::description::parts::{AttentionParts, Layer, Parts, Projection, Scales};
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The attention and the feed-forward network of a family whose layers are all alike.
pub(super) fn alike(config: &DecoderConfig) -> (&Attention, &Dense) {
    config.alike().expect("layers that are alike")
}

/// Weights under a prefix that only some files have.
pub(super) struct Prefixed<'a> {
    checkpoint: &'a Checkpoint,
    prefix: &'static str,
}

impl<'a> Prefixed<'a> {
    /// Chooses the prefix under which a checkpoint has `probe`.
    pub(super) fn new(checkpoint: &'a Checkpoint, prefixes: &[&'static str], probe: &str) -> Self {
        let found = prefixes.iter().find(|prefix| checkpoint.has(&format!("{prefix}{probe}")));
        Self { checkpoint, prefix: found.unwrap_or(&prefixes[0]) }
    }

    pub(super) fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn projection(
        &self,
        name: &str,
        out: usize,
        input: usize,
        bias: bool,
    ) -> Result<Projection, ModelError> {
        let name = self.name(name);
        let matrix = self.checkpoint.matrix(&format!("{name}.weight"), [out, input])?;
        let bias = bias.then(|| self.checkpoint.vector(&format!("{name}.bias"), out)).transpose()?;
        Ok(Projection { matrix, bias })
    }

    /// The weights of attention without norms and sinks, whose names begin with `prefix`.
    pub(super) fn attention(
        &self,
        prefix: &str,
        output: &str,
        width: usize,
        of: &Attention,
    ) -> Result<AttentionParts, ModelError> {
        let &Attention { heads, kv_heads, head_dim, gated, bias, output_bias, .. } = of;
        let (of_query, of_key) = (heads * head_dim, kv_heads * head_dim);
        let own = |part: &str, out| self.projection(&format!("{prefix}.{part}"), out, width, bias);
        Ok(AttentionParts::new([
            own("q_proj", if gated { 2 * of_query } else { of_query })?,
            own("k_proj", of_key)?,
            own("v_proj", of_key)?,
            self.projection(&format!("{prefix}.{output}"), width, of_query, output_bias)?,
        ]))
    }

    /// The logarithm of each head's decay at a rate of one. Files of Hugging Face have the logarithm of its negative.
    pub(super) fn decays(&self, name: &str, heads: usize, are_whole: bool) -> Result<Vec<f32>, ModelError> {
        let mut decays = self.vector(name, heads)?;
        if !are_whole {
            decays.iter_mut().for_each(|x| *x = -libm::expf(*x));
        }
        Ok(decays)
    }

    /// Whether there is a weight of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.checkpoint.has(&self.name(name))
    }

    pub(super) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        self.checkpoint.vector(&self.name(name), length)
    }

    /// The taps of a convolution of each column by itself: `columns x taps`, also with an axis of one between the two.
    pub(super) fn taps(&self, name: &str, columns: usize, taps: usize) -> Result<Vec<f32>, ModelError> {
        let name = self.name(name);
        match self.checkpoint.matrix(&name, [columns, taps]) {
            Ok(matrix) => Ok(matrix.matrix().numbers()),
            Err(_) => {
                let all = self.checkpoint.stacked(&name, [columns, 1, taps])?;
                Ok(all.iter().flat_map(Matrix::numbers).collect())
            }
        }
    }

    /// The bytes of a tensor of unsigned bytes.
    pub(super) fn bytes(&self, name: &str, shape: &[usize]) -> Result<Bytes, ModelError> {
        self.checkpoint.bytes(&self.name(name), shape)
    }

    /// Several matrices (`out x in`) in one tensor.
    pub(super) fn stacked(&self, name: &str, shape: [usize; 3]) -> Result<Vec<Weight>, ModelError> {
        let stacked = self.checkpoint.stacked(&self.name(name), shape)?;
        Ok(stacked.into_iter().map(Weight::from).collect())
    }

    /// Several matrices in one tensor, each stored transposed.
    pub(super) fn stacked_transposed(
        &self,
        name: &str,
        [count, out, input]: [usize; 3],
    ) -> Result<Vec<Weight>, ModelError> {
        let stacked = self.checkpoint.stacked(&self.name(name), [count, input, out])?;
        Ok(stacked.iter().map(|matrix| matrix.transposed().into()).collect())
    }

    /// The rows of a matrix, as vectors.
    pub(super) fn vectors(&self, name: &str, [count, length]: [usize; 2]) -> Result<Vec<Vec<f32>>, ModelError> {
        let matrix = self.checkpoint.matrix(&self.name(name), [count, length])?;
        Ok(matrix.matrix().numbers().chunks(length).map(<[f32]>::to_vec).collect())
    }

    /// The scales of a norm; `has_bias` for layer norms that have a bias.
    pub(super) fn scales(&self, name: &str, length: usize, norm: Norm, has_bias: bool) -> Result<Scales, ModelError> {
        let name = self.name(name);
        let weight = self.checkpoint.vector(&format!("{name}.weight"), length)?;
        let bias = match norm {
            Norm::Rms { .. } => None,
            Norm::Layer { .. } if has_bias => Some(self.checkpoint.vector(&format!("{name}.bias"), length)?),
            Norm::Layer { .. } => Some(vec![0.0; length]),
        };
        Ok(Scales { weight, bias })
    }

    /// The output matrix: the embedding, a separate matrix, or the head of a reward model. Names have no prefix.
    pub(super) fn output(&self, config: &DecoderConfig, embedding: &str, name: &str) -> Result<Weight, ModelError> {
        let checkpoint = self.checkpoint;
        if let Some(scores) = checkpoint.scores(config.width) {
            return scores;
        }
        let shape = [config.vocabulary, config.width];
        // If a file has an output matrix that differs from the embedding although its configuration ties them, that
        // matrix is used, as in `transformers`.
        if config.tied && !checkpoint.differ(name, embedding) {
            checkpoint.tied(name, embedding, shape)
        } else {
            checkpoint.matrix(name, shape)
        }
    }

    /// The weights of a decoder. `norm` is the norm after the last layer.
    pub(super) fn parts(
        &self,
        config: &DecoderConfig,
        layer: impl Fn(usize) -> Result<Layer, ModelError>,
        embedding: &str,
        output: &str,
        norm: &str,
        norm_has_bias: bool,
    ) -> Result<Parts, ModelError> {
        let layers = (0..config.blocks.len()).map(layer).collect::<Result<_, ModelError>>()?;
        let embedding = self.name(embedding);
        let matrix = self.checkpoint.matrix(&embedding, [config.vocabulary, config.width])?;
        let output = self.output(config, &embedding, output)?;
        Ok(Parts::new(matrix, layers, self.scales(norm, config.width, config.norm, norm_has_bias)?, output))
    }
}
