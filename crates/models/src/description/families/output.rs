//! The matrix that makes logits.

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The output matrix: the embedding, or one of its own.
pub(super) fn output(
    checkpoint: &Checkpoint,
    config: &DecoderConfig,
    embedding: &str,
    name: &str,
) -> Result<Weight, ModelError> {
    let shape = [config.vocabulary, config.width];
    if config.tied { checkpoint.tied(name, embedding, shape) } else { checkpoint.matrix(name, shape) }
}
