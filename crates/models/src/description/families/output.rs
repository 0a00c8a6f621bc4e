//! The output matrix.

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The output matrix: the embedding, a separate matrix, or the head of a reward model.
pub(super) fn output(
    checkpoint: &Checkpoint,
    config: &DecoderConfig,
    embedding: &str,
    name: &str,
) -> Result<Weight, ModelError> {
    if let Some(scores) = checkpoint.scores(config.width) {
        return scores;
    }
    let shape = [config.vocabulary, config.width];
    // If a file has an output matrix that differs from the embedding although its configuration ties them, that matrix
    // is used, as in `transformers`.
    if config.tied && !checkpoint.differ(name, embedding) {
        checkpoint.tied(name, embedding, shape)
    } else {
        checkpoint.matrix(name, shape)
    }
}
