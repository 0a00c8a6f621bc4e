//! The model, the tokenizer and the tenant that a state belongs to.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};
use verdigris_models::prompt_file::Scope;
use verdigris_models::{LanguageModel, StateId};
use verdigris_schedule::StoredTexts;

use crate::engine::Engine;
use crate::error::Error;

/// The ids of a model's states.
pub(super) struct Ids {
    model: Arc<dyn LanguageModel>,
    tokenizer: String,
    /// The ids by the capacity that they depend on; 0 if they do not depend on it.
    known: Mutex<Vec<(usize, StateId)>>,
}

impl Ids {
    /// The ids for an engine.
    ///
    /// # Errors
    /// [`Error::NoStates`] if its model's states cannot be saved.
    pub(super) fn new(engine: &Engine) -> Result<Self, Error> {
        let model = engine.model().clone();
        let tokenizer = engine.reader().tokenizer().vocabulary().fingerprint().to_owned();
        let ids = Self { model, tokenizer, known: Mutex::default() };
        ids.state(ids.model.context_length()).map(|_| ids).ok_or(Error::NoStates)
    }

    /// The id of states of sequences with this capacity.
    pub(super) fn state(&self, capacity: usize) -> Option<StateId> {
        let capacity = if self.model.pages().depends_on_capacity { capacity } else { 0 };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, id)) = known.iter().find(|(of, _)| *of == capacity) {
            return Some(*id);
        }
        let id = self.model.state_id(capacity)?;
        known.push((capacity, id));
        Some(id)
    }

    /// The texts that may use a state: those with the same tokenizer and the same salt.
    pub(super) fn scope(&self, texts: StoredTexts<'_>) -> Scope {
        // Lengths separate the two.
        let scope = format!("verdigris scope 1 {} {} {}", self.tokenizer.len(), self.tokenizer, texts.salt);
        Sha256::digest(scope).into()
    }

    /// Whether the model is that of an engine.
    pub(super) fn are_of(&self, engine: &Engine) -> bool {
        Arc::ptr_eq(&self.model, engine.model())
    }
}
