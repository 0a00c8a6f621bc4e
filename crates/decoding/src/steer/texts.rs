//! The texts of a steered model: each is a sequence of all its members.

use std::sync::Arc;

use verdigris_logits::{Chain, Sampler, TokenId};
use verdigris_models::{BatchItem, LanguageModel, ModelError, Sequence};

use super::Steered;
use super::ahead::SharedAhead;
use super::expert::ExpertDrafter;
use super::member::Member;
use super::sequence::{self, SteeredSequence};
use crate::drafter::Coupling;

impl Steered {
    /// The divergence of the distribution of each token of a text, in nats: `KL(steered || base)` as in
    /// [`Steered::within`]. All members read the prompt and the text once more.
    ///
    /// # Errors
    /// Those of [`Sequence::forward`].
    ///
    /// # Panics
    /// If the prompt is empty.
    pub fn divergence(self: &Arc<Self>, prompt: &[TokenId], text: &[TokenId]) -> Result<Vec<f64>, ModelError> {
        let capacity = (prompt.len() + text.len()).min(self.context_length());
        self.sequence(capacity, None)?.divergence(prompt, text)
    }

    /// Returns this model, and its first expert as a drafter for the first text begun with it, or `None` if there is no
    /// expert.
    pub fn drafted_by_expert(
        self: &Arc<Self>,
        transforms: &Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Option<(Arc<dyn LanguageModel>, ExpertDrafter)> {
        let size = self.vocabulary_size();
        let first = self.first_expert()?;
        let shared = SharedAhead::default();
        let drafter = ExpertDrafter::new(shared.clone(), first.vocabulary_size(), size, transforms, sampler, coupling);
        Some((Arc::new(Drafted { steered: self.clone(), expert: shared }), drafter))
    }

    fn sequence(
        self: &Arc<Self>,
        capacity: usize,
        shared: Option<&SharedAhead>,
    ) -> Result<SteeredSequence, ModelError> {
        SteeredSequence::begin(self.clone(), capacity, shared)
    }
}

impl LanguageModel for Steered {
    fn vocabulary_size(&self) -> usize {
        self.base.vocabulary_size()
    }

    fn context_length(&self) -> usize {
        let members = self.terms.iter().flat_map(|term| {
            [(&term.pair.expert, &term.expert), (&term.pair.anti, &term.anti)]
                .into_iter()
                .filter_map(|(model, own)| model.as_ref().map(|model| Member::context(&**model, own.as_ref())))
        });
        members.fold(self.base.context_length(), usize::min)
    }

    fn hidden_size(&self) -> Option<usize> {
        self.base.hidden_size()
    }

    fn layers(&self) -> usize {
        self.base.layers()
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(self.sequence(capacity, None)?))
    }

    /// The texts may belong to any steered models. Each underlying model is called once.
    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        sequence::forward_each(items)
    }
}

/// A steered model whose first text shares its first expert with a drafter.
struct Drafted {
    steered: Arc<Steered>,
    expert: SharedAhead,
}

impl LanguageModel for Drafted {
    fn vocabulary_size(&self) -> usize {
        self.steered.vocabulary_size()
    }

    fn context_length(&self) -> usize {
        self.steered.context_length()
    }

    fn hidden_size(&self) -> Option<usize> {
        self.steered.hidden_size()
    }

    fn layers(&self) -> usize {
        self.steered.layers()
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(self.steered.sequence(capacity, Some(&self.expert))?))
    }

    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        sequence::forward_each(items)
    }
}
