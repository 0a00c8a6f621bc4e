//! The contract of the networks: guesses at positions of texts.

use std::collections::BTreeMap;

use candle_core::{Tensor, Var};
use serde_json::{Map, Value};
use verdigris_models::DecoderConfig;

use super::examples::Batch;
use crate::error::TrainError;

/// A network in training.
pub(super) trait Head {
    /// Its name in `training.json`.
    fn name(&self) -> &'static str;

    /// Its weights, by their names in a file.
    fn variables(&self) -> &BTreeMap<String, Var>;

    /// Its fields in `config.json`, in addition to those of all draft heads.
    fn description(&self, target: &DecoderConfig) -> Map<String, Value>;

    /// Its guesses at the positions of a batch.
    fn guesses(&self, batch: &Batch) -> Result<Guesses, TrainError>;
}

/// Guesses at the same positions of some texts, each from further away.
pub(super) struct Guesses {
    /// The target's hidden states there, whose distributions are guessed: `positions x width`.
    pub(super) target: Tensor,
    /// The guesses, the one from the nearest state first.
    pub(super) each: Vec<Guess>,
    /// Whether the cap of the target's logits also applies to them.
    pub(super) capped: bool,
}

/// A guess at the target's states.
pub(super) struct Guess {
    /// A state for each position: `positions x width`.
    pub(super) states: Tensor,
    /// The output matrix, if it is not rows of the target's: `draft vocabulary x width`.
    pub(super) output: Option<Tensor>,
    /// The positions that can be guessed from this distance.
    pub(super) counts: Vec<bool>,
}
