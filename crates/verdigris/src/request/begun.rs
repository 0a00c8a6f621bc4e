//! A text that is written in passes of a model: before it begins, while it is written, and at its end.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::{BoxedDrafter, Drafting, Guide, Stop, Target};
use verdigris_logits::TokenId;
use verdigris_models::LanguageModel;
use verdigris_schedule::{Ask, Ended, Event, TokenEvent};
use verdigris_text::Section;

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::healing::PromptTokens;
use crate::request::logprobs::{LogprobsReader, ReadLogprobs};
use crate::request::options::Guesser;
use crate::request::piece::{Piece, Ready};
use crate::request::reread::add_constraint;
use crate::request::steering::TextModel;
use crate::request::structure::Structure;
use crate::request::text::Text;
use crate::request::{Request, Written};

/// A compiled request.
pub(super) struct Plan {
    pub(super) planned: Planned,
    pub(super) guides: Vec<Arc<Guide>>,
}

/// A text that has not begun.
pub(super) struct Planned {
    pub(super) prompt: PromptTokens,
    pub(super) target: Target,
    pub(super) model: TextModel,
    pub(super) seed: u64,
    pub(super) structure: Structure,
}

/// A text that has begun.
pub(super) struct Begun {
    /// `None` after the end.
    open: Option<(Text, Setup)>,
    /// Whether the reader ended the text.
    is_cut: bool,
}

/// The end of a text, without the information that is added at the end.
#[must_use = "it becomes the text by Ending::written"]
pub struct Ending {
    written: Box<Written>,
    setup: Box<Setup>,
}

/// The distribution that the tokens of a text were sampled from.
struct Setup {
    prompt: Arc<[TokenId]>,
    target: Target,
    model: TextModel,
    structure: Structure,
    guides: Vec<Arc<Guide>>,
    /// The log-probabilities read so far, if they are requested without an explanation.
    logprobs: Option<ReadLogprobs>,
}

/// Receives the events of a text.
type EventReader<'r> = &'r mut dyn FnMut(Event<Ready<'_>, Ending, Error>) -> ControlFlow<()>;

impl Request<'_> {
    /// Compiles this request for one text.
    pub(super) fn plan(&self) -> Result<Plan, Error> {
        self.plan_within(usize::MAX)
    }

    /// Like [`Request::plan`], with memory for `memory` tokens of a text. A prompt that fills the memory is not refused
    /// here.
    pub(super) fn plan_within(&self, memory: usize) -> Result<Plan, Error> {
        let prompt = self.prompt_tokens(&self.prompt)?;
        let (constraint, seed) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let guides = self.guides_asked_for(prompt.count(), 1)?;
        let model = self.text_model(&self.prompt, &prompt.read)?;
        let context = model.model().context_length();
        let context = if prompt.read.len() < memory { context.min(memory) } else { context };
        let planned = self.planned(&self.prompt, prompt, (model, context), constraint.as_ref(), &guides, seed)?;
        Ok(Plan { planned, guides })
    }

    /// Compiles this request for one text after a prompt, with the constraint on its answer, in a context of some
    /// tokens.
    pub(super) fn planned(
        &self,
        source: &Prompt,
        prompt: PromptTokens,
        (model, context): (TextModel, usize),
        answer: Option<&Constraint>,
        guides: &[Arc<Guide>],
        seed: u64,
    ) -> Result<Planned, Error> {
        let structure = self.structure(source, &prompt, answer)?;
        let room = self.most_tokens(context, &prompt.read);
        let target = self.steps(room, &structure, guides, seed)?;
        Ok(Planned { prompt, target, model, seed, structure })
    }
}

impl Planned {
    /// Returns the request for a schedule, and the text that receives its tokens. A text that is written alone may
    /// share the memory of an expert with its drafter, and learns from the drafts of earlier texts.
    pub(super) fn begin(
        self,
        request: &Request<'_>,
        guides: &[Arc<Guide>],
        is_alone: bool,
    ) -> Result<(Ask, Begun), Error> {
        let Self { prompt: all, target, model, seed, structure } = self;
        let prompt = all.read.clone();
        let (own, drafter) = if is_alone && matches!(request.drafting.guesser, Some(Guesser::Expert)) {
            let (own, drafter) = drafted_by_expert(request, &target, &model)?;
            (own, Some(drafter))
        } else {
            let capacity = prompt.len().saturating_add(request.ends.max_tokens);
            (model.model().clone(), request.drafter(&target, capacity)?)
        };
        let reads_all = drafter.as_ref().is_some_and(|drafter| drafter.reads_features());
        request.check_cache(reads_all.then_some("a draft head"))?;
        let (length, rule) = (request.drafting.length, request.drafting.rule);
        let drafting = drafter.map(|drafter| {
            let memory = is_alone.then(|| request.draft_memory());
            Drafting { drafter, length, rule, memory }
        });
        let logprobs = (!request.reported.explain).then(|| request.logprobs_reader(&target, &prompt)).flatten();
        let (rows, logprobs) = logprobs.map(LogprobsReader::shared).unzip();
        let ask = Ask {
            model: Some(own),
            prompt: prompt.clone(),
            target: target.clone(),
            limits: request.limits(&prompt),
            drafting,
            rows,
            account: request.caller.account.clone(),
            salt: request.caller.cache_salt.clone(),
            storing: request.stores(),
        };
        let text = Text::new(request, &structure, all.count(), seed);
        let guides = guides.to_vec();
        let setup = Setup { prompt, target, model, structure, guides, logprobs };
        Ok((ask, Begun { open: Some((text, setup)), is_cut: false }))
    }
}

/// The model of a text, and its first expert as the drafter. They share what the expert has read.
fn drafted_by_expert(
    request: &Request<'_>,
    target: &Target,
    model: &TextModel,
) -> Result<(Arc<dyn LanguageModel>, BoxedDrafter), Error> {
    let steered = model.steered().ok_or(Error::NoExpert)?;
    let drafted = steered.drafted_by_expert(&target.transforms, target.sampler, request.drafting.coupling);
    let (model, drafter) = drafted.ok_or(Error::NoExpert)?;
    Ok((model, request.drafting.beside_lookup(drafter, target)))
}

/// The event of a piece.
pub(super) fn of_section<E, F>(section: Section, piece: Ready<'_>) -> Event<Ready<'_>, E, F> {
    match section {
        Section::Thought => Event::Reasoning(piece),
        Section::Answer => Event::Text(piece),
    }
}

impl Begun {
    /// Turns an event of tokens into events of text, and passes them to `reader`: pieces are never empty. When `reader`
    /// breaks, or at a stop string, the text should end for the returned reason.
    pub(super) fn take(&mut self, event: TokenEvent, reader: EventReader<'_>) -> ControlFlow<Stop> {
        let read = match event {
            Event::Begun => {
                self.is_cut |= reader(Event::Begun).is_break();
                return ControlFlow::Continue(());
            }
            Event::Reasoning(_) | Event::Text(_) if self.is_cut => ControlFlow::Break(()),
            Event::Reasoning((token, provenance)) | Event::Text((token, provenance)) => {
                let (text, _) = self.open.as_mut().expect("no token follows the end of a text");
                let is_cut = &mut self.is_cut;
                text.push(token, provenance, &mut |section, piece| {
                    *is_cut |= *is_cut || reader(of_section(section, piece)).is_break();
                });
                if self.is_cut || text.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            Event::End(ended) => {
                let (ending, rest) = self.end(ended);
                for (section, piece) in rest {
                    self.is_cut |= self.is_cut || reader(of_section(section, piece.ready())).is_break();
                }
                reader(Event::End(ending))
            }
            Event::Failed(fault) => {
                let (_, setup) = self.open.take().expect("a text ends once");
                reader(Event::Failed(Error::of_text(fault, setup.structure.whole.as_ref(), &setup.guides)))
            }
        };
        read.map_break(|()| Stop::StopString)
    }

    /// Returns the end of the text, and the pieces that were held back. If the reader ended the text, these are
    /// dropped.
    pub(super) fn end(&mut self, mut ended: Ended) -> (Ending, Vec<(Section, Piece)>) {
        if self.is_cut {
            ended.stop = None;
        }
        let (text, setup) = self.open.take().expect("a text ends once");
        let (written, rest) = text.end(ended);
        (Ending { written: Box::new(written), setup: Box::new(setup) }, rest)
    }

    /// Ends the text at the next token, since the client no longer reads it.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }
}

impl Ending {
    /// Returns the text with all information that its request asks for, some of which requires the model to read it
    /// again.
    ///
    /// # Errors
    /// If the model fails.
    pub fn written(mut self, request: &Request<'_>) -> Result<Written, Error> {
        self.take_logprobs();
        let Setup { prompt, target, model, structure, .. } = &*self.setup;
        request.reread(model, target, prompt, structure, &mut self.written)?;
        Ok(*self.written)
    }

    /// Returns the text without the information that requires the model to read it again: the effect of steering, and
    /// the [explanation](Request::explain) of its tokens. Requested log-probabilities are included.
    pub fn at_once(mut self) -> Written {
        self.take_logprobs();
        add_constraint(&self.setup.prompt, &self.setup.structure, &mut self.written);
        *self.written
    }

    /// Takes the log-probabilities. There are none if the text was cancelled, since it was not read a second time.
    fn take_logprobs(&mut self) {
        let all = self.setup.logprobs.as_ref().map(ReadLogprobs::take);
        self.written.logprobs = all.filter(|all| all.len() == self.written.tokens.len());
    }
}
