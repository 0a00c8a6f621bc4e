//! Several concurrent texts, which begin and end at any time and share calls of the model.

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

/// An event of one of several texts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// The next piece of the text: never empty, and always whole characters.
    Text(&'e str),
    /// The end of the text, once for each text, in the order in which they end.
    End(&'e Written),
    /// The error for a prompt that cannot be used: see [`Request::stream_incoming`].
    Refused(&'e Error),
}

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
        let longest = prompt.len().saturating_add(self.ends.max_tokens);
        let texts = SideBySide::new(&self, count, longest, form.as_ref(), &guides);
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
        mut each: impl FnMut(usize, Event<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<Written>, Error> {
        self.draws_texts()?;
        let (form, first) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let mut read = Vec::new();
        // All prompts are checked before anything is written.
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
        let longest = longest.saturating_add(self.ends.max_tokens);
        let texts = SideBySide::new(&self, count, longest, form.as_ref(), &guides);
        texts.written(planned, &mut each)
    }

    /// Writes a text after each of any number of prompts. A prompt is taken from the iterator when there is room for
    /// another text, and texts that have ended are not kept. A prompt may come with the seed of its text; by default it
    /// is the request's, or a new one. An invalid prompt is [reported](Event::Refused), and the others continue.
    ///
    /// # Errors
    /// Those of [`Request::text`], except errors of prompts.
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

/// Texts that are written concurrently.
struct SideBySide<'r> {
    request: &'r Request<'r>,
    schedule: Schedule,
    most: usize,
    form: Option<&'r Constraint>,
    guides: &'r [Arc<Guide>],
    /// The texts that have begun, with their indices.
    open: HashMap<TextId, (usize, Begun)>,
}

type Each<'e> = &'e mut dyn FnMut(usize, Event<'_>) -> ControlFlow<()>;

impl<'r> SideBySide<'r> {
    /// Prepares `texts` texts of a request, of at most `longest` tokens each.
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
                    Err(NoPlan::Prompt(error)) => goes_on = each(number, Event::Refused(&error)),
                    Err(NoPlan::Request(error)) => return Err(error),
                }
            }
            if goes_on.is_break() || self.open.is_empty() {
                break;
            }
            goes_on = self.pass(each, &mut kept)?;
        }
        // The texts that were cut by a break.
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

    /// Makes one call of the model. After a break, texts that end have no events.
    fn pass(&mut self, each: Each<'_>, kept: &mut dyn FnMut(usize, Written)) -> Result<ControlFlow<()>, Error> {
        let Self { request, schedule, form, guides, open, .. } = self;
        let mut outcome = Ok(ControlFlow::Continue(()));
        let passed = schedule.pass(&mut |id, told| {
            let is_over = !matches!(outcome, Ok(ControlFlow::Continue(())));
            match told {
                Told::Begun => (),
                Told::Token(..) if is_over => return ControlFlow::Break(Stop::StopString),
                Told::Token(token, provenance) => {
                    let (number, text) = open.get_mut(&id).expect("no token follows the end of a text");
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

/// Reports the text that was held back, and the end.
fn told_of_end(number: usize, written: &Written, rest: &str, each: Each<'_>) -> ControlFlow<()> {
    if !rest.is_empty() {
        each(number, Event::Text(rest))?;
    }
    each(number, Event::End(written))
}
