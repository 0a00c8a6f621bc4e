//! A single text, as a stream.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_decoding::search::{Contrast, Contrastive};
use verdigris_decoding::{
    BoxedDrafter, DraftMemory, DraftModel, Drafter, FeatureDrafter, Limits, Lookup, LookupOr, Medusa, Plain, Seeded,
    Speculative, Stop, Target, Writing,
};
use verdigris_logits::TokenId;
use verdigris_models::DraftHead;
use verdigris_schedule::Ended;

use crate::draft_memories::DraftingWay;
use crate::error::Error;
use crate::request::begun::{Plan, Planned};
use crate::request::steering::TextModel;
use crate::request::text::Text;
use crate::request::{Guesser, Request, Written};

impl Request<'_> {
    /// Writes the text.
    ///
    /// # Errors
    /// If the request is invalid (its schema, expression or parameters, or a key for another tokenizer), if the prompt
    /// leaves no room, or if the model fails.
    pub fn text(self) -> Result<Written, Error> {
        self.stream(|_| ControlFlow::Continue(()))
    }

    /// Writes the text and passes each piece of it to `each` as soon as it is ready. A piece is never empty and always
    /// whole characters. On [`ControlFlow::Break`] the text ends there.
    ///
    /// # Errors
    /// Those of [`Request::text`].
    pub fn stream(mut self, mut each: impl FnMut(&str) -> ControlFlow<()>) -> Result<Written, Error> {
        let contrast = self.contrast()?;
        if contrast.is_some() {
            // Nothing is sampled.
            self.sampling.temperature = 0.0;
        }
        let Plan { planned: Planned { prompt, target, model, seed }, form, guides } = self.plan()?;
        let mut writing = self.writing(&model, &target, &prompt, contrast)?;
        let mut text = Text::new(&self, prompt.len(), seed);
        let mut stopped = None;
        while stopped.is_none()
            && let Some(token) = writing.next()
        {
            let token = token.map_err(|fault| Error::of_text(fault, form.as_ref(), &guides))?;
            let piece = text.push(token, writing.provenance());
            if !piece.is_empty() && each(piece).is_break() {
                let ended = Ended { stop: None, acceptance: writing.acceptance(), lossy: self.lossy() };
                let mut written = text.end(ended).0;
                self.reread(&model, &target, &prompt, form.as_ref(), &mut written)?;
                return Ok(written);
            }
            stopped = text.is_stopped().then_some(Stop::StopString);
        }
        let stop = stopped.or(writing.stop());
        let (mut written, rest) = text.end(Ended { stop, acceptance: writing.acceptance(), lossy: self.lossy() });
        if !rest.is_empty() {
            let _ = each(&rest);
        }
        self.reread(&model, &target, &prompt, form.as_ref(), &mut written)?;
        Ok(written)
    }

    /// The decoding method of this request.
    fn writing<'t>(
        &self,
        of_text: &TextModel,
        target: &'t Target,
        prompt: &[TokenId],
        contrast: Option<Contrast>,
    ) -> Result<Box<dyn Writing + 't>, Error> {
        let (model, limits, chance) = (of_text.model().clone(), self.limits(), Seeded(target.random));
        if let Some(contrast) = contrast {
            return Ok(Box::new(Contrastive::new(model, target, prompt, limits, contrast)?));
        }
        let capacity = prompt.len().saturating_add(limits.max_tokens);
        if let (Some(Guesser::Expert), Some(steered)) = (self.guesser, of_text.steered()) {
            // One text can share the expert with its drafter.
            let drafted = steered.drafted_by_expert(&target.transforms, target.sampler, self.coupling);
            let (model, drafter) = drafted.ok_or(Error::NoExpert)?;
            let drafter = self.beside_lookup(drafter, target);
            let writing = Speculative::new(model, target, prompt, limits, drafter, self.draft_length, chance)?;
            return Ok(Box::new(writing.judged_by(self.rule).remembering(&self.draft_memory())));
        }
        Ok(match self.drafter(target, capacity)? {
            None => Box::new(Plain::new(model, target, prompt, limits)?),
            Some(drafter) => {
                let length = self.draft_length;
                let writing = Speculative::new(model, target, prompt, limits, drafter, length, chance)?;
                Box::new(writing.judged_by(self.rule).remembering(&self.draft_memory()))
            }
        })
    }

    /// The engine's memory of this way of drafting for single texts.
    fn draft_memory(&self) -> DraftMemory {
        let drafter = self.guesser.map(|guesser| match guesser {
            Guesser::Model(small) => Arc::as_ptr(&small.model).addr(),
            Guesser::Head(head) => std::ptr::from_ref(head).addr(),
            Guesser::Expert => 0,
        });
        self.engine.draft_memories.of(DraftingWay { drafter, lookup: self.lookup, coupling: self.coupling })
    }

    /// The drafter of this request, for a text of at most `capacity` tokens.
    pub(super) fn drafter(&self, target: &Target, capacity: usize) -> Result<Option<BoxedDrafter>, Error> {
        let model = &self.engine.model;
        let (size, transforms, sampler) = (model.vocabulary_size(), &target.transforms, target.sampler);
        let Some(guesser) = self.guesser else {
            return Ok(self.lookup.then(|| -> BoxedDrafter { Box::new(Lookup::default().over(transforms)) }));
        };
        let drafter: BoxedDrafter = match guesser {
            Guesser::Model(small) => {
                self.engine.fits(small)?;
                let drafter = DraftModel::new(small.model.clone(), capacity, transforms, sampler, self.coupling)?;
                Box::new(drafter.cut(size))
            }
            Guesser::Expert => {
                let expert = self.engine.drafting_expert().ok_or(Error::NoExpert)?.clone();
                let drafter = DraftModel::new(expert, capacity, transforms, sampler, self.coupling)?;
                Box::new(drafter.cut(size))
            }
            Guesser::Head(head) => {
                if model.hidden_size() != Some(head.hidden_size()) {
                    return Err(Error::NoHiddenStates);
                }
                match head {
                    DraftHead::Feature(head) => {
                        Box::new(FeatureDrafter::new(head, capacity, size, transforms, sampler, self.coupling)?)
                    }
                    DraftHead::Medusa(heads) => {
                        Box::new(Medusa::new(heads.clone(), size, transforms, sampler, self.coupling))
                    }
                }
            }
        };
        Ok(Some(self.beside_lookup(drafter, target)))
    }

    /// Returns a drafter, combined with lookup if that is requested too.
    fn beside_lookup(&self, drafter: impl Drafter + Send + 'static, target: &Target) -> BoxedDrafter {
        match self.lookup {
            true => Box::new(LookupOr::new(Lookup::default().over(&target.transforms), drafter)),
            false => Box::new(drafter),
        }
    }

    /// The maximum number of tokens of a text after a prompt, in this context. The last one is never read, so it needs
    /// no room, except in contrastive search, which reads all candidates.
    pub(super) fn most_tokens(&self, context: usize, prompt: &[TokenId]) -> usize {
        let unread = usize::from(self.penalty_alpha.is_none());
        self.max_tokens.min(context + unread - prompt.len())
    }

    pub(super) fn limits(&self) -> Limits {
        let end = if self.through_end { Vec::new() } else { self.engine.end.clone() };
        Limits { max_tokens: self.max_tokens, end }
    }
}
