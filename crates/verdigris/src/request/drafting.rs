//! The drafting of a text: the source of drafts, their number, and the rule that accepts them.

use std::sync::Arc;

use verdigris_decoding::{
    AssistantDrafter, BlockDrafter, BoxedDrafter, Coupling, DraftLength, DraftMemory, DraftModel, Drafter,
    FeatureDrafter, Lookup, LookupOr, Medusa, Rule, Target, TreeShape,
};
use verdigris_models::DraftHead;

use crate::draft_memories::DraftingWay;
use crate::engine::Engine;
use crate::error::Error;
use crate::request::Request;
use crate::request::options::{Drafting, Guesser};

impl Drafting<'_> {
    /// Whether there is a drafter.
    pub(super) fn is_requested(&self) -> bool {
        self.guesser.is_some() || self.lookup
    }

    /// The method of [`Request`] that selects the drafter of this way of drafting.
    pub(super) fn name(&self, way: u8) -> &'static str {
        // If lookup is combined with another drafter, its ways start at 1.
        match self.guesser {
            Some(_) if way > 0 => "lookup",
            None => "lookup",
            Some(Guesser::Model(_)) => "draft",
            Some(Guesser::Head(_)) => "draft_head",
            Some(Guesser::Expert) => "draft_by_expert",
        }
    }

    /// Returns a drafter, combined with lookup if that is requested too.
    pub(super) fn beside_lookup(&self, drafter: impl Drafter + Send + 'static, target: &Target) -> BoxedDrafter {
        match self.lookup {
            true => Box::new(LookupOr::new(Lookup::default().over(&target.transforms), drafter)),
            false => Box::new(drafter),
        }
    }
}

impl<'a> Request<'a> {
    /// Lets a smaller model draft, so that the text may be written faster. The distribution of the text does not
    /// change.
    ///
    /// The number of drafted tokens depends on measured times, and with it the text that a seed gives. For reproducible
    /// texts use [`Request::draft_tokens`] or [`Request::repeatable`].
    pub fn draft(mut self, drafter: &'a Engine) -> Self {
        self.drafting.guesser = Some(Guesser::Model(drafter));
        self
    }

    /// Drafts with a draft head of this model: one or a few layers that read the model's own hidden states
    /// ([`DraftHead::load`]). The distribution of the text is unchanged, as with [`Request::draft`].
    #[doc(alias = "eagle")]
    #[doc(alias = "medusa")]
    pub fn draft_head(mut self, head: &'a DraftHead) -> Self {
        self.drafting.guesser = Some(Guesser::Head(head));
        self
    }

    /// Drafts with the first expert of a [steered](Engine::steered) model. It does not read drafts again for steering.
    /// The distribution of the text is unchanged, as with [`Request::draft`].
    pub fn draft_by_expert(mut self) -> Self {
        self.drafting.guesser = Some(Guesser::Expert);
        self
    }

    /// Drafts the tokens that followed the last few tokens where they occurred before. The text is the one that is
    /// written without drafts under the same seed. If another drafter is set too, measurements choose between the two;
    /// with a fixed number of drafts, lookup drafts where at least four tokens match.
    pub fn lookup(mut self) -> Self {
        self.drafting.lookup = true;
        self
    }

    /// Drafts exactly this many tokens for each call of the model, at most 64. By default the number is chosen by
    /// measurements and may be 0. For a fixed number, a seed always gives the same text. An error without a drafter.
    pub fn draft_tokens(mut self, tokens: usize) -> Self {
        self.drafting.length = DraftLength::Fixed(tokens);
        self
    }

    /// Drafts a tree of this shape for each call of the model: several alternatives at a position, of which one may be
    /// accepted. A drafter that does not support trees drafts a chain as long as the tree is deep. An error without a
    /// drafter.
    pub fn draft_tree(mut self, shape: TreeShape) -> Self {
        self.drafting.length = DraftLength::Tree(shape);
        self
    }

    /// Sets the rule that decides which drafts are accepted; by default each token is judged by itself. A rule that
    /// changes the distribution of the text is named by [`Written::lossy`](crate::Written::lossy).
    pub fn judged_by(mut self, rule: Rule) -> Self {
        self.drafting.rule = rule;
        self
    }

    /// Makes a draft model guess with the random numbers of this request instead of its own: the text is the one that
    /// the seed gives without drafts. Fewer drafts are accepted, unless the temperature is 0.
    pub fn repeatable(mut self) -> Self {
        self.drafting.coupling = Coupling::Shared;
        self
    }

    /// The engine's memory of this way of drafting for single texts.
    pub(super) fn draft_memory(&self) -> DraftMemory {
        let Drafting { guesser, lookup, coupling, .. } = self.drafting;
        let drafter = guesser.map(|guesser| match guesser {
            Guesser::Model(small) => Arc::as_ptr(&small.model).addr(),
            Guesser::Head(head) => std::ptr::from_ref(head).addr(),
            Guesser::Expert => 0,
        });
        self.engine.draft_memories.of(DraftingWay { drafter, lookup, coupling })
    }

    /// The drafter of this request, for a text of at most `capacity` tokens.
    pub(super) fn drafter(&self, target: &Target, capacity: usize) -> Result<Option<BoxedDrafter>, Error> {
        let (model, coupling) = (&self.engine.model, self.drafting.coupling);
        let (size, transforms, sampler) = (model.vocabulary_size(), &target.transforms, target.sampler);
        let Some(guesser) = self.drafting.guesser else {
            return Ok(self.drafting.lookup.then(|| -> BoxedDrafter { Box::new(Lookup::default().over(transforms)) }));
        };
        let drafter: BoxedDrafter = match guesser {
            Guesser::Model(small) => {
                self.engine.fits(small)?;
                let drafter = DraftModel::new(small.model.clone(), capacity, transforms, sampler, coupling)?;
                Box::new(drafter.cut(size))
            }
            Guesser::Expert => {
                let expert = self.engine.drafting_expert().ok_or(Error::NoExpert)?.clone();
                let drafter = DraftModel::new(expert, capacity, transforms, sampler, coupling)?;
                Box::new(drafter.cut(size))
            }
            Guesser::Head(head) => {
                let has_layers = head.layers().iter().all(|&layer| layer <= model.layers());
                if model.hidden_size() != Some(head.hidden_size()) || !has_layers {
                    return Err(Error::NoHiddenStates);
                }
                match head {
                    DraftHead::Feature(head) => {
                        Box::new(FeatureDrafter::new(head, capacity, size, transforms, sampler, coupling)?)
                    }
                    DraftHead::Medusa(heads) => {
                        Box::new(Medusa::new(heads.clone(), size, transforms, sampler, coupling))
                    }
                    DraftHead::Block(head) => {
                        Box::new(BlockDrafter::new(head, capacity, size, transforms, sampler, coupling)?)
                    }
                    DraftHead::Assistant(head) => {
                        Box::new(AssistantDrafter::new(head, capacity, size, transforms, sampler, coupling)?)
                    }
                }
            }
        };
        Ok(Some(self.drafting.beside_lookup(drafter, target)))
    }
}
