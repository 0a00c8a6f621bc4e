//! Several texts side by side: one step of all of them is one call of the model.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::{Guide, Stop, Target, Together};
use verdigris_logits::TokenId;

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::text::Text;
use crate::request::{Request, Written};

/// What comes of one of several texts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// What comes next of it: never empty, and always whole characters.
    Text(&'e str),
    /// Its end, once for each text, in the order in which they end.
    End(&'e Written),
}

impl Request<'_> {
    /// The most prompts of [`Request::prompts`] that are written for at the same time.
    pub const SIDE_BY_SIDE: usize = 64;

    /// Writes so many texts side by side, which takes far less time than one after the other: those that this request
    /// gives with its seed and the ones after it. The prompt is read and kept once. A drafter drafts for each text.
    ///
    /// # Errors
    /// As [`Request::text`].
    pub fn texts(self, count: usize) -> Result<Vec<Written>, Error> {
        self.stream_texts(count, |_, _| ControlFlow::Continue(()))
    }

    /// As [`Request::texts`], and hands over what comes of each text, with the text's number, as soon as it is there.
    /// On [`ControlFlow::Break`] all end there; texts that have not ended come back without [`Written::stop`], and have
    /// no further event.
    ///
    /// # Errors
    /// As [`Request::texts`].
    pub fn stream_texts(
        self,
        count: usize,
        mut each: impl FnMut(usize, Event<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Written>, Error> {
        self.draws_texts()?;
        let prompt = self.prompt_tokens(&self.prompt)?;
        let (form, first) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let seeds = (0..count as u64).map(|i| first.wrapping_add(i));
        let guides = self.guides_asked_for(prompt.len(), count)?;
        let model = self.text_model(&self.prompt, &prompt)?;
        let room = self.room(&model, &prompt);
        let target = |seed| self.target(room, form.as_ref(), &guides, seed);
        let targets = seeds.clone().map(target).collect::<Result<Vec<_>, _>>()?;
        let together = Together::new(model.model().clone(), &targets, &prompt, &self.limits())?;
        let together = self.drafting(together, targets.iter().map(|target| (target, prompt.len())))?;
        let texts = seeds.map(|seed| self.begun(prompt.len(), seed)).collect();
        let finish = |i: usize, written: &mut Written| self.reread(&model, &targets[i], &prompt, written);
        Ok(side_by_side(together, texts, form.as_ref(), &guides, &finish, &mut each)?.0)
    }

    /// Writes a text after each of these prompts, which take the place of the request's own. The text after the
    /// prompt of number `i` is the one that this request gives alone with that prompt and the seed `i` above its own.
    /// At most [`Request::SIDE_BY_SIDE`] are written for at the same time. A drafter drafts for each text.
    ///
    /// ```no_run
    /// use verdigris::Engine;
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let prompts = ["The captain", "The storm", "\"Where is the key?\""];
    /// for written in engine.request("").max_tokens(40).prompts(prompts)? {
    ///     println!("{}", written.text);
    /// }
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InPrompt`], with what is wrong with that prompt; else as [`Request::text`].
    pub fn prompts(self, prompts: impl IntoIterator<Item = impl Into<Prompt>>) -> Result<Vec<Written>, Error> {
        self.stream_prompts(prompts, |_, _| ControlFlow::Continue(()))
    }

    /// As [`Request::prompts`], and hands over what comes of each text, with its prompt's number, as soon as it is
    /// there. On [`ControlFlow::Break`] all end there; texts that have not begun do not come back.
    ///
    /// # Errors
    /// As [`Request::prompts`].
    pub fn stream_prompts(
        self,
        prompts: impl IntoIterator<Item = impl Into<Prompt>>,
        mut each: impl FnMut(usize, Event<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Written>, Error> {
        self.draws_texts()?;
        let (form, first) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let mut prompts_read = Vec::new();
        // All prompts are looked at before anything is written.
        for (index, prompt) in prompts.into_iter().enumerate() {
            let in_prompt = |source| Error::InPrompt { index, source: Box::new(source) };
            let source = prompt.into();
            let prompt = self.prompt_tokens(&source).map_err(in_prompt)?;
            let model = self.text_model(&source, &prompt).map_err(in_prompt)?;
            let seed = first.wrapping_add(index as u64);
            prompts_read.push((prompt, model, seed));
        }
        let longest = prompts_read.iter().map(|(prompt, ..)| prompt.len()).max().unwrap_or(0);
        let guides = self.guides_asked_for(longest, Self::SIDE_BY_SIDE)?;
        let mut begun = Vec::with_capacity(prompts_read.len());
        for (prompt, model, seed) in prompts_read {
            let target = self.target(self.room(&model, &prompt), form.as_ref(), &guides, seed)?;
            begun.push((target, prompt, model, seed));
        }
        let mut all = Vec::with_capacity(begun.len());
        for some in begun.chunks(Self::SIDE_BY_SIDE) {
            let before = all.len();
            let to_write = some.iter().map(|(target, prompt, model, _)| -> (_, &Target, &[TokenId], _) {
                (model.model().clone(), target, prompt, self.limits())
            });
            let together = Together::each_of(self.engine.model.clone(), to_write)?;
            let together = self.drafting(together, some.iter().map(|(target, prompt, ..)| (target, prompt.len())))?;
            let texts = some.iter().map(|(_, prompt, _, seed)| self.begun(prompt.len(), *seed)).collect();
            let mut each = |i: usize, event: Event<'_>| each(before + i, event);
            let finish = |i: usize, written: &mut Written| {
                let (target, prompt, model, _) = &some[i];
                self.reread(model, target, prompt, written)
            };
            let (written, goes_on) = side_by_side(together, texts, form.as_ref(), &guides, &finish, &mut each)?;
            all.extend(written);
            if goes_on.is_break() {
                break;
            }
        }
        Ok(all)
    }

    /// Has the drafter that was asked for, if any, draft for each of some texts, whose laws and prompts' lengths these are.
    fn drafting<'t>(
        &self,
        together: Together<'t>,
        texts: impl Iterator<Item = (&'t Target, usize)>,
    ) -> Result<Together<'t>, Error> {
        let mut drafters = Vec::new();
        for (target, prompt_tokens) in texts {
            match self.drafter(target, prompt_tokens.saturating_add(self.max_tokens))? {
                Some(drafter) => drafters.push(drafter),
                None => return Ok(together),
            }
        }
        Ok(together.drafting(drafters, self.draft_length, self.rule))
    }

    pub(super) fn begun(&self, prompt_tokens: usize, seed: u64) -> Text<'_> {
        Text::new(self, prompt_tokens, seed)
    }
}

/// Adds to a text of a number what is known of it at its end alone.
type Finish<'f> = &'f dyn Fn(usize, &mut Written) -> Result<(), Error>;

/// Writes texts to their ends; a break ends all of them.
fn side_by_side(
    mut together: Together<'_>,
    texts: Vec<Text<'_>>,
    form: Option<&Constraint>,
    guides: &[Arc<Guide>],
    finish: Finish<'_>,
    each: &mut dyn FnMut(usize, Event<'_>) -> ControlFlow<()>,
) -> Result<(Vec<Written>, ControlFlow<()>), Error> {
    let mut open: Vec<Option<Text<'_>>> = texts.into_iter().map(Some).collect();
    let mut ended: Vec<Option<Written>> = vec![None; open.len()];
    let mut goes_on = ControlFlow::Continue(());
    while goes_on.is_continue()
        && let Some(step) = together.next()
    {
        let (i, token) = step.map_err(|fault| Error::of_text(fault, form, guides))?;
        // A text is over when its last token is handed over, which is this one perhaps.
        let text = open[i].as_mut().expect("a text has no token behind its end");
        let piece = text.push(token, together.provenance());
        if !piece.is_empty() {
            goes_on = each(i, Event::Text(piece));
        }
        if text.is_stopped() {
            together.end(i, Stop::StopString);
        }
        if goes_on.is_continue() {
            goes_on = end_those_that_have(&together, &mut open, &mut ended, form, finish, each)?;
        }
    }
    if goes_on.is_continue() {
        // Those whose end came without a token.
        goes_on = end_those_that_have(&together, &mut open, &mut ended, form, finish, each)?;
    }
    // What a reader has ended.
    for (i, (open, ended)) in open.into_iter().zip(&mut ended).enumerate() {
        if let Some(text) = open {
            let mut written = text.end(None, together.acceptance(i), together.lossy(), form).0;
            finish(i, &mut written)?;
            *ended = Some(written);
        }
    }
    Ok((ended.into_iter().flatten().collect(), goes_on))
}

/// Moves texts that have ended from `open` to `ended`, and says so.
fn end_those_that_have(
    together: &Together<'_>,
    open: &mut [Option<Text<'_>>],
    ended: &mut [Option<Written>],
    form: Option<&Constraint>,
    finish: Finish<'_>,
    each: &mut dyn FnMut(usize, Event<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    for (i, text) in open.iter_mut().enumerate() {
        let Some(stop) = together.stop(i) else { continue };
        let Some(text) = text.take() else { continue };
        let (mut written, rest) = text.end(Some(stop), together.acceptance(i), together.lossy(), form);
        finish(i, &mut written)?;
        let written = ended[i].insert(written);
        if !rest.is_empty() && each(i, Event::Text(&rest)).is_break() || each(i, Event::End(written)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
