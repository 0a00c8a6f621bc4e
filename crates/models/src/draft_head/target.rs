//! The weights that a head in training takes from the model that it guesses for.

use verdigris_logits::TokenId;

use super::fingerprint::fingerprint;
use crate::description::config::DecoderConfig;
use crate::description::parts::Parts;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::source::folder::ModelFolder;

/// The weights of a model that heads share with it, in whatever format they are stored, and its fingerprint.
#[derive(Debug)]
pub struct DraftTarget {
    config: DecoderConfig,
    parts: Parts,
}

impl DraftTarget {
    /// Reads the weights of a model that this crate's decoders compute.
    ///
    /// # Errors
    /// The same as [`ModelFolder::load`].
    pub fn of(folder: &ModelFolder) -> Result<Self, ModelError> {
        let (config, parts) = folder.describe()?;
        Ok(Self { config, parts })
    }

    /// The configuration.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// The fingerprint by which a head's folder names the model (`target_fingerprint`).
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.config, &self.parts)
    }

    /// The embeddings of some tokens, as stored: `tokens x width`.
    ///
    /// # Panics
    /// If one is outside the model's vocabulary.
    pub fn embeddings(&self, tokens: &[TokenId]) -> Vec<f32> {
        self.decoded(&self.parts.embedding, tokens)
    }

    /// The rows of the output matrix for some tokens: `tokens x width`. Their products with a hidden state are the
    /// logits before [`DecoderConfig::logit_cap`].
    ///
    /// # Panics
    /// If one is outside the model's vocabulary.
    pub fn output_rows(&self, tokens: &[TokenId]) -> Vec<f32> {
        self.decoded(&self.parts.output, tokens)
    }

    /// The weights of the norm before the output matrix: `width` numbers.
    pub fn norm(&self) -> &[f32] {
        &self.parts.norm.weight
    }

    fn decoded(&self, matrix: &Weight, tokens: &[TokenId]) -> Vec<f32> {
        let width = self.config.width;
        let mut all = vec![0.0; tokens.len() * width];
        for (row, &token) in all.chunks_exact_mut(width).zip(tokens) {
            matrix.decode(token as usize, row);
        }
        all
    }
}
