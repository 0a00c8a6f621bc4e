//! The contract of the networks: guesses at places of texts.

use std::collections::BTreeMap;

use candle_core::{Tensor, Var};
use serde_json::{Map, Value};
use verdigris_models::DecoderConfig;

use super::examples::Batch;
use crate::error::TrainError;

/// A network in training.
pub(super) trait Head {
    /// What it is called in `training.json`.
    fn name(&self) -> &'static str;

    /// Its weights, by their names in a file.
    fn variables(&self) -> &BTreeMap<String, Var>;

    /// What `config.json` says of it, beside what all draft heads have.
    fn description(&self, target: &DecoderConfig) -> Map<String, Value>;

    /// What it guesses at the places of a batch.
    fn guesses(&self, batch: &Batch) -> Result<Guesses, TrainError>;
}

/// Guesses at the same places of some texts, each from further away.
pub(super) struct Guesses {
    /// The target's hidden states there, whose laws are guessed: `places x width`.
    pub(super) target: Tensor,
    /// Those from the nearest state first.
    pub(super) each: Vec<Guess>,
    /// Whether the target's bound on logits bounds theirs.
    pub(super) capped: bool,
}

/// What stands in for the target's states.
pub(super) struct Guess {
    /// A state for each place: `places x width`.
    pub(super) states: Tensor,
    /// What makes logits of them, where it is not rows of the target's output matrix: `draft vocabulary x width`.
    pub(super) output: Option<Tensor>,
    /// Which places can be guessed from so far away.
    pub(super) counts: Vec<bool>,
}
