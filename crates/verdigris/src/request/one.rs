//! A single text, as a stream.

use std::ops::ControlFlow;

use verdigris_decoding::search::{Contrast, Contrastive};
use verdigris_decoding::{Plain, Seeded, Speculative, Stop, Target, Writing};
use verdigris_logits::TokenId;
use verdigris_schedule::Ended;

use crate::error::Error;
use crate::request::begun::{Plan, Planned};
use crate::request::options::Guesser;
use crate::request::steering::TextModel;
use crate::request::text::Text;
use crate::request::{Request, Written};

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
                let ended = Ended { stop: None, acceptance: writing.acceptance(), lossy: self.drafting.lossy() };
                let mut written = text.end(ended).0;
                self.reread(&model, &target, &prompt, form.as_ref(), &mut written)?;
                return Ok(written);
            }
            stopped = text.is_stopped().then_some(Stop::StopString);
        }
        let stop = stopped.or(writing.stop());
        let (mut written, rest) =
            text.end(Ended { stop, acceptance: writing.acceptance(), lossy: self.drafting.lossy() });
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
        if let (Some(Guesser::Expert), Some(steered)) = (self.drafting.guesser, of_text.steered()) {
            // One text can share the expert with its drafter.
            let drafted = steered.drafted_by_expert(&target.transforms, target.sampler, self.drafting.coupling);
            let (model, drafter) = drafted.ok_or(Error::NoExpert)?;
            let drafter = self.drafting.beside_lookup(drafter, target);
            let writing = Speculative::new(model, target, prompt, limits, drafter, self.drafting.length, chance)?;
            return Ok(Box::new(writing.judged_by(self.drafting.rule).remembering(&self.draft_memory())));
        }
        Ok(match self.drafter(target, capacity)? {
            None => Box::new(Plain::new(model, target, prompt, limits)?),
            Some(drafter) => {
                let length = self.drafting.length;
                let writing = Speculative::new(model, target, prompt, limits, drafter, length, chance)?;
                Box::new(writing.judged_by(self.drafting.rule).remembering(&self.draft_memory()))
            }
        })
    }
}
