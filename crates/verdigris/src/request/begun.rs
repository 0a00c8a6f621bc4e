//! A text that is written concurrently with others: before it begins, while it is written, and at its end.

use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_decoding::{Drafting, Guide, Provenance, Target};
use verdigris_logits::TokenId;
use verdigris_schedule::{Ask, Ended};

use crate::error::Error;
use crate::request::logprobs::{LogprobsReader, ReadLogprobs};
use crate::request::reread::add_form;
use crate::request::steering::TextModel;
use crate::request::text::Text;
use crate::request::{Request, Written};

/// A compiled request.
pub(super) struct Plan {
    pub(super) planned: Planned,
    pub(super) form: Option<Constraint>,
    pub(super) guides: Vec<Arc<Guide>>,
}

/// A text that has not begun.
pub(super) struct Planned {
    pub(super) prompt: Arc<[TokenId]>,
    pub(super) target: Target,
    pub(super) model: TextModel,
    pub(super) seed: u64,
}

/// A text that has begun.
pub(super) struct Begun {
    text: Text,
    law: Law,
}

/// A text that has ended, without the information that is added at the end.
pub(super) struct AtEnd {
    written: Written,
    law: Law,
}

/// The distribution that the tokens of a text were sampled from.
struct Law {
    prompt: Arc<[TokenId]>,
    target: Target,
    model: TextModel,
    /// The log-probabilities read so far, if they are requested without an explanation.
    logprobs: Option<ReadLogprobs>,
}

impl Request<'_> {
    /// Compiles this request for one text.
    pub(super) fn plan(&self) -> Result<Plan, Error> {
        self.plan_within(usize::MAX)
    }

    /// Like [`Request::plan`], with memory for `memory` tokens of a text. A prompt that fills the memory is not refused
    /// here.
    pub(super) fn plan_within(&self, memory: usize) -> Result<Plan, Error> {
        let prompt = self.prompt_tokens(&self.prompt)?;
        let (form, seed) = (self.constraint_asked_for()?, self.seed_or_a_new_one()?);
        let guides = self.guides_asked_for(prompt.len(), 1)?;
        let model = self.text_model(&self.prompt, &prompt)?;
        let context = model.model().context_length();
        let context = if prompt.len() < memory { context.min(memory) } else { context };
        let target = self.target(self.most_tokens(context, &prompt), form.as_ref(), &guides, seed)?;
        Ok(Plan { planned: Planned { prompt, target, model, seed }, form, guides })
    }
}

impl Planned {
    /// Returns the request for a schedule, and the text that receives its tokens.
    pub(super) fn begin(self, request: &Request<'_>) -> Result<(Ask, Begun), Error> {
        let Self { prompt, target, model, seed } = self;
        let drafter = request.drafter(&target, prompt.len().saturating_add(request.ends.max_tokens))?;
        let drafting =
            drafter.map(|drafter| Drafting { drafter, length: request.drafting.length, rule: request.drafting.rule });
        let (limits, own) = (request.limits(), Some(model.model().clone()));
        let logprobs = (!request.reported.explain).then(|| request.logprobs_reader(&target, &prompt)).flatten();
        let (rows, logprobs) = logprobs.map(LogprobsReader::shared).unzip();
        let (account, salt) = (request.caller.account.clone(), request.caller.cache_salt.clone());
        let ask =
            Ask { model: own, prompt: prompt.clone(), target: target.clone(), limits, drafting, rows, account, salt };
        Ok((ask, Begun { text: Text::new(request, prompt.len(), seed), law: Law { prompt, target, model, logprobs } }))
    }
}

impl Begun {
    /// Like [`Text::push`].
    pub(super) fn push(&mut self, token: TokenId, provenance: Provenance) -> &str {
        self.text.push(token, provenance)
    }

    /// Like [`Text::is_stopped`].
    pub(super) fn is_stopped(&self) -> bool {
        self.text.is_stopped()
    }

    /// Like [`Text::end`].
    pub(super) fn end(self, ended: Ended) -> (AtEnd, String) {
        let (written, rest) = self.text.end(ended);
        (AtEnd { written, law: self.law }, rest)
    }
}

impl AtEnd {
    /// Returns the text with all information that the request asks for. `form` is the request's constraint.
    pub(super) fn told(mut self, request: &Request<'_>, form: Option<&Constraint>) -> Result<Written, Error> {
        self.take_logprobs();
        let Law { prompt, target, model, .. } = &self.law;
        request.reread(model, target, prompt, form, &mut self.written)?;
        Ok(self.written)
    }

    /// Returns the text with the information that needs no second reading by the model.
    pub(super) fn into_written(mut self, form: Option<&Constraint>) -> Written {
        self.take_logprobs();
        add_form(&self.law.prompt, form, &mut self.written);
        self.written
    }

    /// Takes the log-probabilities. There are none if the text was cancelled, since it was not read a second time.
    fn take_logprobs(&mut self) {
        let all = self.law.logprobs.as_ref().map(ReadLogprobs::take);
        self.written.logprobs = all.filter(|all| all.len() == self.written.tokens.len());
    }
}
