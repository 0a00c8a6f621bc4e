//! A single text, as a stream.

use std::ops::ControlFlow;

use verdigris_decoding::search::{Contrast, Contrastive};
use verdigris_decoding::{Provenance, Stop};
use verdigris_schedule::{Ended, Event};
use verdigris_text::Section;

use crate::error::Error;
use crate::request::begun::{Plan, Planned};
use crate::request::many::SideBySide;
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
    pub fn stream(self, mut each: impl FnMut(&str) -> ControlFlow<()>) -> Result<Written, Error> {
        self.stream_sections(|section, piece| match section {
            Section::Thought => ControlFlow::Continue(()),
            Section::Answer => each(piece),
        })
    }

    /// Like [`Request::stream`], and passes the pieces of a thought too
    /// ([`Request::reasoning_format`](Request::reasoning_format)).
    ///
    /// # Errors
    /// Those of [`Request::text`].
    pub fn stream_sections(self, mut each: impl FnMut(Section, &str) -> ControlFlow<()>) -> Result<Written, Error> {
        if let Some(contrast) = self.contrast()? {
            return self.contrastive(contrast, each);
        }
        let Plan { planned, guides } = self.plan()?;
        let text = SideBySide::new(&self, 1, planned.prompt.read.len(), &guides);
        text.one(planned, &mut |event| match event {
            Event::Reasoning(piece) => each(Section::Thought, piece),
            Event::Text(piece) => each(Section::Answer, piece),
            _ => ControlFlow::Continue(()),
        })
    }

    /// Writes the text by contrastive search: no token is sampled, and each call of the model reads several candidates.
    fn contrastive(
        mut self,
        contrast: Contrast,
        mut each: impl FnMut(Section, &str) -> ControlFlow<()>,
    ) -> Result<Written, Error> {
        self.check_cache(Some("contrastive search"))?;
        self.sampling.temperature = 0.0;
        let Plan { planned: Planned { prompt, target, model, seed, structure }, guides } = self.plan()?;
        let limits = self.limits(&prompt.read);
        let mut tokens = Contrastive::new(model.model().clone(), &target, &prompt.read, limits, contrast)?;
        let mut text = Text::new(&self, &structure, prompt.count(), seed);
        let mut is_cut = false;
        while !is_cut
            && !text.is_stopped()
            && let Some(token) = tokens.next()
        {
            let token = token.map_err(|fault| Error::of_text(fault, structure.whole.as_ref(), &guides))?;
            text.push(token, Provenance::Computed, &mut |section, piece| {
                is_cut |= is_cut || !piece.text.is_empty() && each(section, piece.text).is_break();
            });
        }
        let stop = if text.is_stopped() { Some(Stop::StopString) } else { tokens.stop() };
        let (mut written, rest) = text.end(Ended { stop: stop.filter(|_| !is_cut), ..Ended::default() });
        for (section, piece) in rest {
            is_cut |= is_cut || !piece.text.is_empty() && each(section, &piece.text).is_break();
        }
        self.reread(&model, &target, &prompt.read, &structure, &mut written)?;
        Ok(written)
    }
}
