//! Several concurrent texts, which begin and end at any time and share calls of the model.

use std::collections::{BTreeMap, HashMap};
use std::iter::once;
use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_decoding::{DecodeError, Guide};
use verdigris_schedule::{Capacity, Event, Refused, Schedule, TextId};

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::begun::{Begun, Planned};
use crate::request::{Request, Written};

/// An event of one of several texts: a piece, which is never empty and always whole characters; the end, once for each
/// text, in the order in which they end; or the error for a prompt that cannot be used ([`Request::stream_incoming`]).
pub type TextEvent<'e> = Event<&'e str, &'e Written, &'e Error>;

/// The reason that a text cannot begin.
enum NoPlan {
    /// An error of its prompt.
    Prompt(Error),
    /// An error of the request, which affects all texts.
    Request(Error),
}

impl Request<'_> {
    /// The maximum number of texts that are written at the same time.
    pub const SIDE_BY_SIDE: usize = 64;

    /// Writes `count` texts concurrently, which takes far less time than one after the other. They are the texts that
    /// this request gives with its seed and the seeds after it. The prompt is read and kept once. A drafter drafts for
    /// each text. At most [`Request::SIDE_BY_SIDE`] are written at the same time; when one ends, the next begins.
    ///
    /// # Errors
    /// Those of [`Request::text`].
    pub fn texts(self, count: usize) -> Result<Vec<Written>, Error> {
        self.stream_texts(count, |_, _| ControlFlow::Continue(()))
    }

    /// Like [`Request::texts`], and passes the events of each text, with its index, to `each` as they occur. On
    /// [`ControlFlow::Break`] all texts end: those that have not ended are returned without [`Written::stop`] and have
    /// no further events, and those that have not begun are not returned.
    ///
    /// # Errors
    /// Those of [`Request::texts`].
    pub fn stream_texts(
        self,
        count: usize,
        mut each: impl FnMut(usize, TextEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Written>, Error> {
        self.draws_texts()?;
        let prompt = self.prompt_tokens(&self.prompt)?;
        let (constraint, first) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let guides = self.guides_asked_for(prompt.count(), Self::SIDE_BY_SIDE)?;
        let model = self.text_model(&self.prompt, &prompt.read)?;
        let context = model.model().context_length();
        let planned = (0..count as u64).map(|i| {
            let (prompt, model, seed) = (prompt.clone(), (model.clone(), context), first.wrapping_add(i));
            let planned = self.planned(&self.prompt, prompt, model, constraint.as_ref(), &guides, seed);
            planned.map_err(NoPlan::Request)
        });
        let texts = SideBySide::new(&self, count, prompt.read.len(), &guides);
        texts.written(planned, &mut each)
    }

    /// Writes a text after each of these prompts, which replace the request's own. The text for the prompt with index
    /// `i` is the one that this request gives with that prompt and its seed plus `i`. At most [`Request::SIDE_BY_SIDE`]
    /// are written at the same time; when one ends, the next begins. Common prefixes of prompts are read once. A
    /// drafter drafts for each text.
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
    /// [`Error::InPrompt`] for an invalid prompt, and those of [`Request::text`].
    pub fn prompts(self, prompts: impl IntoIterator<Item = impl Into<Prompt>>) -> Result<Vec<Written>, Error> {
        self.stream_prompts(prompts, |_, _| ControlFlow::Continue(()))
    }

    /// Like [`Request::prompts`], and passes the events of each text, with the index of its prompt, to `each` as they
    /// occur. On [`ControlFlow::Break`] all texts end; those that have not begun are not returned.
    ///
    /// # Errors
    /// Those of [`Request::prompts`].
    pub fn stream_prompts(
        self,
        prompts: impl IntoIterator<Item = impl Into<Prompt>>,
        mut each: impl FnMut(usize, TextEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Written>, Error> {
        self.draws_texts()?;
        let (constraint, first) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let mut read = Vec::new();
        // All prompts are checked before anything is written.
        for (index, prompt) in prompts.into_iter().enumerate() {
            let in_prompt = |source| Error::InPrompt { index, source: Box::new(source) };
            let source = prompt.into();
            let prompt = self.prompt_tokens(&source).map_err(in_prompt)?;
            let model = self.text_model(&source, &prompt.read).map_err(in_prompt)?;
            read.push((source, prompt, model, first.wrapping_add(index as u64)));
        }
        let longest = read.iter().map(|(_, prompt, ..)| prompt.count()).max().unwrap_or(0);
        let guides = self.guides_asked_for(longest, Self::SIDE_BY_SIDE)?;
        let count = read.len();
        let planned = read.into_iter().map(|(source, prompt, model, seed)| {
            let context = model.model().context_length();
            let planned = self.planned(&source, prompt, (model, context), constraint.as_ref(), &guides, seed);
            planned.map_err(NoPlan::Request)
        });
        let texts = SideBySide::new(&self, count, longest, &guides);
        texts.written(planned, &mut each)
    }

    /// Writes a text after each of any number of prompts. A prompt is taken from the iterator when there is room for
    /// another text, and texts that have ended are not kept. A prompt may come with the seed of its text; by default it
    /// is the request's, or a new one. An invalid prompt is [reported](Event::Failed), and the others continue.
    ///
    /// # Errors
    /// Those of [`Request::text`], except errors of prompts.
    pub fn stream_incoming(
        self,
        prompts: impl IntoIterator<Item = (Prompt, Option<u64>)>,
        mut each: impl FnMut(usize, TextEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.draws_texts()?;
        let (constraint, guides) = (self.constraint_asked_for()?, self.guides_asked_for(0, Self::SIDE_BY_SIDE)?);
        let planned = prompts.into_iter().map(|(source, seed)| {
            let read = || {
                let prompt = self.prompt_tokens(&source)?;
                if !guides.is_empty() {
                    self.guides_asked_for(prompt.count(), Self::SIDE_BY_SIDE)?;
                }
                Ok((self.text_model(&source, &prompt.read)?, prompt))
            };
            let (model, prompt) = read().map_err(NoPlan::Prompt)?;
            let seed = seed.map_or_else(|| self.seed_or_a_new_one(), Ok).map_err(NoPlan::Request)?;
            let context = model.model().context_length();
            let planned = self.planned(&source, prompt, (model, context), constraint.as_ref(), &guides, seed);
            planned.map_err(NoPlan::Request)
        });
        let (most, longest) = (Self::SIDE_BY_SIDE, self.engine.context_length());
        SideBySide::new(&self, most, longest, &guides).run(planned, &mut each, |_, _| ())
    }
}

/// Texts that are written concurrently, or a single one.
pub(super) struct SideBySide<'r> {
    request: &'r Request<'r>,
    schedule: Schedule,
    most: usize,
    is_alone: bool,
    guides: &'r [Arc<Guide>],
    /// The texts that have begun, with their indices.
    open: HashMap<TextId, (usize, Begun)>,
}

type Each<'e> = &'e mut dyn FnMut(usize, TextEvent<'_>) -> ControlFlow<()>;

impl<'r> SideBySide<'r> {
    /// Prepares `texts` texts of a request, after prompts of at most `longest` tokens.
    pub(super) fn new(request: &'r Request<'r>, texts: usize, longest: usize, guides: &'r [Arc<Guide>]) -> Self {
        let (model, most) = (&request.engine.model, texts.clamp(1, Request::SIDE_BY_SIDE));
        // A text of no tokens takes room for one, like every text that has begun.
        let longest = longest.saturating_add(request.ends.max_tokens.max(1)).min(model.context_length());
        let (capacity, is_alone) = (Capacity::of_texts(&**model, most, longest), texts == 1);
        // Nothing else waits for the prompt of a single text, or continues from it.
        let capacity =
            if is_alone { Capacity { kept: 0, rows: longest.max(Capacity::ROWS), ..capacity } } else { capacity };
        let schedule = Schedule::new(model.clone(), capacity);
        let schedule = match request.own_store() {
            Some(store) => schedule.with_store(store),
            None => schedule,
        };
        Self { request, schedule, most, is_alone, guides, open: HashMap::new() }
    }

    /// Writes a single text.
    pub(super) fn one(
        self,
        planned: Planned,
        each: &mut dyn FnMut(TextEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Written, Error> {
        let mut all = None;
        self.run(once(Ok(planned)), &mut |_, event| each(event), |_, written| all = Some(written))?;
        Ok(all.expect("it begins, or there is an error"))
    }

    /// Writes texts, and returns those that have begun in their order.
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

    /// Writes texts, and passes each that has begun to `kept` when it has ended.
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
                    Err(NoPlan::Prompt(error)) if self.is_alone => return Err(error),
                    Err(NoPlan::Prompt(error)) => goes_on = each(number, Event::Failed(&error)),
                    Err(NoPlan::Request(error)) => return Err(error),
                }
            }
            if goes_on.is_break() || self.open.is_empty() {
                break;
            }
            goes_on = self.pass(each, &mut kept)?;
        }
        // The texts that were cut by a break.
        for (id, (number, mut text)) in std::mem::take(&mut self.open) {
            let (ending, _) = text.end(self.schedule.cancel(id).unwrap_or_default());
            kept(number, ending.written(self.request)?);
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, planned: Planned) -> Result<(), NoPlan> {
        let (ask, text) = planned.begin(self.request, self.guides, self.is_alone).map_err(NoPlan::Request)?;
        let id = self.schedule.submit(ask).map_err(|refused| match refused {
            Refused::Prompt(error) => NoPlan::Prompt(error.into()),
            _ => unreachable!("there is memory for the longest: {refused}"),
        })?;
        self.open.insert(id, (number, text));
        Ok(())
    }

    /// Makes one call of the model. After a break, texts that end have no events.
    fn pass(&mut self, each: Each<'_>, kept: &mut dyn FnMut(usize, Written)) -> Result<ControlFlow<()>, Error> {
        let Self { request, schedule, guides, open, .. } = self;
        let is_over = |outcome: &Result<ControlFlow<()>, Error>| !matches!(outcome, Ok(ControlFlow::Continue(())));
        let mut outcome = Ok(ControlFlow::Continue(()));
        let passed = schedule.pass(&mut |id, event| {
            let (number, text) = open.get_mut(&id).expect("no event follows the end of a text");
            let is_last = matches!(event, Event::End(_) | Event::Failed(_));
            if is_over(&outcome) {
                text.cut();
            }
            let goes_on = text.take(event, &mut |event| {
                let is_over = is_over(&outcome);
                let mut pass_on =
                    |event: TextEvent<'_>| if is_over { ControlFlow::Break(()) } else { each(*number, event) };
                let read = match event {
                    Event::Begun => Ok(pass_on(Event::Begun)),
                    // A piece may have control tokens only.
                    Event::Reasoning(piece) | Event::Text(piece) if piece.text.is_empty() => {
                        Ok(ControlFlow::Continue(()))
                    }
                    Event::Reasoning(piece) => Ok(pass_on(Event::Reasoning(piece.text))),
                    Event::Text(piece) => Ok(pass_on(Event::Text(piece.text))),
                    Event::End(ending) => ending.written(request).map(|written| {
                        let goes_on = pass_on(Event::End(&written));
                        kept(*number, written);
                        goes_on
                    }),
                    Event::Failed(_) if is_over => Ok(ControlFlow::Break(())),
                    Event::Failed(error) => Err(error),
                };
                if !is_over || read.is_err() {
                    outcome = read;
                }
                *outcome.as_ref().unwrap_or(&ControlFlow::Break(()))
            });
            if is_last {
                open.remove(&id);
            }
            goes_on
        });
        passed.map_err(|fault| Error::of_text(DecodeError::Model(fault), None, guides))?;
        outcome
    }
}
