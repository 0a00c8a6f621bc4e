//! The matrix that makes logits.

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::matrix::Matrix;
use crate::error::ModelError;

/// The output matrix: the embedding, or one of its own.
pub(super) fn output(
    checkpoint: &Checkpoint,
    config: &DecoderConfig,
    embedding: &Matrix,
    name: &str,
) -> Result<Matrix, ModelError> {
    if config.tied { Ok(embedding.clone()) } else { checkpoint.matrix(name, [config.vocabulary, config.width]) }
}
