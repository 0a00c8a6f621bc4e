//! The matrix that makes logits.

use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The output matrix: the embedding, or one of its own; that of the scores, where those are asked for.
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
    // A file that has one which differs, though its configuration says that they are one, means that one, as
    // `transformers` does.
    if config.tied && !checkpoint.differ(name, embedding) {
        checkpoint.tied(name, embedding, shape)
    } else {
        checkpoint.matrix(name, shape)
    }
}
