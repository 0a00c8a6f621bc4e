//! Several texts side by side, which begin and end as they come: a call of the model serves all of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::{DecodeError, Guide, Stop};
use verdigris_schedule::{Capacity, Refused, Schedule, TextId, Told};

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::begun::{Begun, Planned};
use crate::request::{Request, Written};

/// What comes of one of several texts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// What comes next of it: never empty, and always whole characters.
    Text(&'e str),
    /// Its end, once for each text, in the order in which they end.
    End(&'e Written),
    /// That it cannot be written, and why: [`Request::stream_incoming`].
    Refused(&'e Error),
}

/// Why a text is not to begin.
enum NoPlan {
    /// For what its prompt is.
    Prompt(Error),
    /// For what all texts of the request are.
    Request(Error),
}

impl Request<'_> {
    /// The most texts that are written at the same time.
    pub const SIDE_BY_SIDE: usize = 64;

    /// Writes so many texts side by side, which takes far less time than one after the other: those that this request
    /// gives with its seed and the ones after it. The prompt is read and kept once. A drafter drafts for each text. At
    /// most [`Request::SIDE_BY_SIDE`] are written at the same time; the next begins when one has ended.
    ///
    /// # Errors
    /// As [`Request::text`].
    pub fn texts(self, count: usize) -> Result<Vec<Written>, Error> {
        self.stream_texts(count, |_, _| ControlFlow::Continue(()))
    }

    /// As [`Request::texts`], and hands over what comes of each text, with the text's number, as soon as it is there.
    /// On [`ControlFlow::Break`] all end there; texts that have not ended come back without [`Written::stop`], and have
    /// no further event, and those that have not begun do not come back.
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
        let guides = self.guides_asked_for(prompt.len(), Self::SIDE_BY_SIDE)?;
        let model = self.text_model(&self.prompt, &prompt)?;
        let room = self.most_tokens(model.model().context_length(), &prompt);
        let planned = (0..count as u64).map(|i| {
            let seed = first.wrapping_add(i);
            let target = self.target(room, form.as_ref(), &guides, seed).map_err(NoPlan::Request)?;
            Ok(Planned { prompt: prompt.clone(), target, model: model.clone(), seed })
        });
        let longest = prompt.len().saturating_add(self.max_tokens);
        let texts = SideBySide::new(&self, count, longest, form.as_ref(), &guides);
        texts.written(planned, &mut each)
    }

    /// Writes a text after each of these prompts, which take the place of the request's own. The text after the
    /// prompt of number `i` is the one that this request gives alone with that prompt and the seed `i` above its own.
    /// At most [`Request::SIDE_BY_SIDE`] are written at the same time; the next begins when one has ended. What prompts
    /// begin with in common is read once. A drafter drafts for each text.
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
        let mut read = Vec::new();
        // All prompts are looked at before anything is written.
        for (index, prompt) in prompts.into_iter().enumerate() {
            let in_prompt = |source| Error::InPrompt { index, source: Box::new(source) };
            let source = prompt.into();
            let prompt = self.prompt_tokens(&source).map_err(in_prompt)?;
            let model = self.text_model(&source, &prompt).map_err(in_prompt)?;
            read.push((prompt, model, first.wrapping_add(index as u64)));
        }
        let longest = read.iter().map(|(prompt, ..)| prompt.len()).max().unwrap_or(0);
        let guides = self.guides_asked_for(longest, Self::SIDE_BY_SIDE)?;
        let count = read.len();
        let planned = read.into_iter().map(|(prompt, model, seed)| {
            let room = self.most_tokens(model.model().context_length(), &prompt);
            let target = self.target(room, form.as_ref(), &guides, seed).map_err(NoPlan::Request)?;
            Ok(Planned { prompt, target, model, seed })
        });
        let longest = longest.saturating_add(self.max_tokens);
        let texts = SideBySide::new(&self, count, longest, form.as_ref(), &guides);
        texts.written(planned, &mut each)
    }

    /// Writes a text after each of these prompts, of which any number may come: each is asked for when there is room
    /// for one more text, and nothing of those that have ended is kept. With a prompt comes the seed of its text;
    /// without one it has a new one. A prompt that no text can be written after is [told](Event::Refused), and the
    /// others go on.
    ///
    /// # Errors
    /// As [`Request::text`], for what is not about a prompt.
    pub fn stream_incoming(
        self,
        prompts: impl IntoIterator<Item = (Prompt, Option<u64>)>,
        mut each: impl FnMut(usize, Event<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.draws_texts()?;
        let (form, guides) = (self.constraint_asked_for()?, self.guides_asked_for(0, Self::SIDE_BY_SIDE)?);
        let planned = prompts.into_iter().map(|(source, seed)| {
            let read = || {
                let prompt = self.prompt_tokens(&source)?;
                if !guides.is_empty() {
                    self.guides_asked_for(prompt.len(), Self::SIDE_BY_SIDE)?;
                }
                Ok((self.text_model(&source, &prompt)?, prompt))
            };
            let (model, prompt) = read().map_err(NoPlan::Prompt)?;
            let law = || {
                let seed = seed.map_or_else(|| self.seed_or_a_new_one(), Ok)?;
                let room = self.most_tokens(model.model().context_length(), &prompt);
                Ok((self.target(room, form.as_ref(), &guides, seed)?, seed))
            };
            let (target, seed) = law().map_err(NoPlan::Request)?;
            Ok(Planned { prompt, target, model, seed })
        });
        let (most, longest) = (Self::SIDE_BY_SIDE, self.engine.context_length());
        SideBySide::new(&self, most, longest, form.as_ref(), &guides).run(planned, &mut each, |_, _| ())
    }
}

/// Texts being written side by side.
struct SideBySide<'r> {
    request: &'r Request<'r>,
    schedule: Schedule,
    most: usize,
    form: Option<&'r Constraint>,
    guides: &'r [Arc<Guide>],
    /// The texts that have begun, with their numbers.
    open: HashMap<TextId, (usize, Begun)>,
}

type Each<'e> = &'e mut dyn FnMut(usize, Event<'_>) -> ControlFlow<()>;

impl<'r> SideBySide<'r> {
    /// So many texts of a request, of at most so many tokens.
    fn new(
        request: &'r Request<'r>,
        texts: usize,
        longest: usize,
        form: Option<&'r Constraint>,
        guides: &'r [Arc<Guide>],
    ) -> Self {
        let (model, most) = (&request.engine.model, texts.clamp(1, Request::SIDE_BY_SIDE));
        let longest = longest.min(model.context_length());
        let schedule = Schedule::new(model.clone(), Capacity::of_texts(&**model, most, longest));
        Self { request, schedule, most, form, guides, open: HashMap::new() }
    }

    /// Writes texts; those that have begun, in their order.
    fn written(
        self,
        planned: impl Iterator<Item = Result<Planned, NoPlan>>,
        each: Each<'_>,
    ) -> Result<Vec<Written>, Error> {
        let mut all = BTreeMap::new();
        self.run(planned, each, |number, written| {
            all.insert(number, written);
        })?;
        Ok(all.into_values().collect())
    }

    /// Writes texts, of which `kept` gets each that has begun when it has ended.
    fn run(
        mut self,
        planned: impl Iterator<Item = Result<Planned, NoPlan>>,
        each: Each<'_>,
        mut kept: impl FnMut(usize, Written),
    ) -> Result<(), Error> {
        let mut planned = planned.enumerate().fuse();
        let mut goes_on = ControlFlow::Continue(());
        while goes_on.is_continue() {
            while self.open.len() < self.most && goes_on.is_continue() {
                let Some((number, planned)) = planned.next() else { break };
                match planned.and_then(|planned| self.begin(number, planned)) {
                    Ok(()) => (),
                    Err(NoPlan::Prompt(error)) => goes_on = each(number, Event::Refused(&error)),
                    Err(NoPlan::Request(error)) => return Err(error),
                }
            }
            if goes_on.is_break() || self.open.is_empty() {
                break;
            }
            goes_on = self.pass(each, &mut kept)?;
        }
        // What a reader has ended.
        for (id, (number, text)) in std::mem::take(&mut self.open) {
            let ended = self.schedule.cancel(id).unwrap_or_default();
            kept(number, text.end(ended).0.told(self.request, self.form)?);
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, planned: Planned) -> Result<(), NoPlan> {
        let (ask, text) = planned.begin(self.request).map_err(NoPlan::Request)?;
        let id = self.schedule.submit(ask).map_err(|refused| match refused {
            Refused::Prompt(error) => NoPlan::Prompt(error.into()),
            _ => unreachable!("there is memory for the longest: {refused}"),
        })?;
        self.open.insert(id, (number, text));
        Ok(())
    }

    /// One call of the model. After a break texts that have ended have no events.
    fn pass(&mut self, each: Each<'_>, kept: &mut dyn FnMut(usize, Written)) -> Result<ControlFlow<()>, Error> {
        let Self { request, schedule, form, guides, open, .. } = self;
        let mut outcome = Ok(ControlFlow::Continue(()));
        let passed = schedule.pass(&mut |id, told| {
            let is_over = !matches!(outcome, Ok(ControlFlow::Continue(())));
            match told {
                Told::Begun => (),
                Told::Token(..) if is_over => return ControlFlow::Break(Stop::StopString),
                Told::Token(token, provenance) => {
                    let (number, text) = open.get_mut(&id).expect("a text has no token behind its end");
                    let piece = text.push(token, provenance);
                    let goes_on =
                        if piece.is_empty() { ControlFlow::Continue(()) } else { each(*number, Event::Text(piece)) };
                    outcome = Ok(goes_on);
                    if goes_on.is_break() || text.is_stopped() {
                        return ControlFlow::Break(Stop::StopString);
                    }
                }
                Told::Ended(mut ended) => {
                    let (number, text) = open.remove(&id).expect("a text ends once");
                    if is_over {
                        ended.stop = None;
                    }
                    let (text, rest) = text.end(ended);
                    match text.told(request, *form) {
                        Ok(written) => {
                            if !is_over {
                                outcome = Ok(told_of_end(number, &written, &rest, each));
                            }
                            kept(number, written);
                        }
                        Err(error) => outcome = Err(error),
                    }
                }
                Told::Failed(fault) => {
                    open.remove(&id);
                    if !is_over {
                        outcome = Err(Error::of_text(fault, *form, guides));
                    }
                }
            }
            ControlFlow::Continue(())
        });
        passed.map_err(|fault| Error::of_text(DecodeError::Model(fault), *form, guides))?;
        outcome
    }
}

/// Says what was held back of a text, and that it has ended.
fn told_of_end(number: usize, written: &Written, rest: &str, each: Each<'_>) -> ControlFlow<()> {
    if !rest.is_empty() {
        each(number, Event::Text(rest))?;
    }
    each(number, Event::End(written))
}
