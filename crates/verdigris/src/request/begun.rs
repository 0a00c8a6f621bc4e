//! A text that is written beside others: before it begins, while it is written, and at its end.

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

/// What a request asks for, worked out.
pub(super) struct Plan {
    pub(super) planned: Planned,
    pub(super) form: Option<Constraint>,
    pub(super) guides: Vec<Arc<Guide>>,
}

/// A text that is to begin.
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

/// A text that has ended, of which nothing is told yet.
pub(super) struct AtEnd {
    written: Written,
    law: Law,
}

/// What the tokens of a text were drawn from.
struct Law {
    prompt: Arc<[TokenId]>,
    target: Target,
    model: TextModel,
    /// What is read of its rows, where that is asked for and nothing else is.
    logprobs: Option<ReadLogprobs>,
}

impl Request<'_> {
    /// Works out one text of this request.
    pub(super) fn plan(&self) -> Result<Plan, Error> {
        self.plan_within(usize::MAX)
    }

    /// As [`Request::plan`], where there is memory for so many tokens of a text. A prompt that leaves none is not
    /// refused here.
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
    /// What a schedule is asked for, and the text that comes of it.
    pub(super) fn begin(self, request: &Request<'_>) -> Result<(Ask, Begun), Error> {
        let Self { prompt, target, model, seed } = self;
        let drafter = request.drafter(&target, prompt.len().saturating_add(request.max_tokens))?;
        let drafting = drafter.map(|drafter| Drafting { drafter, length: request.draft_length, rule: request.rule });
        let (limits, own) = (request.limits(), Some(model.model().clone()));
        let logprobs = (!request.explain).then(|| request.logprobs_reader(&target, &prompt)).flatten();
        let (rows, logprobs) = logprobs.map(LogprobsReader::shared).unzip();
        let (account, salt) = (request.account.clone(), request.cache_salt.clone());
        let ask =
            Ask { model: own, prompt: prompt.clone(), target: target.clone(), limits, drafting, rows, account, salt };
        Ok((ask, Begun { text: Text::new(request, prompt.len(), seed), law: Law { prompt, target, model, logprobs } }))
    }
}

impl Begun {
    /// As [`Text::push`].
    pub(super) fn push(&mut self, token: TokenId, provenance: Provenance) -> &str {
        self.text.push(token, provenance)
    }

    /// As [`Text::is_stopped`].
    pub(super) fn is_stopped(&self) -> bool {
        self.text.is_stopped()
    }

    /// As [`Text::end`].
    pub(super) fn end(self, ended: Ended) -> (AtEnd, String) {
        let (written, rest) = self.text.end(ended);
        (AtEnd { written, law: self.law }, rest)
    }
}

impl AtEnd {
    /// The text with what its request, which has this form, asks about it.
    pub(super) fn told(mut self, request: &Request<'_>, form: Option<&Constraint>) -> Result<Written, Error> {
        self.take_logprobs();
        let Law { prompt, target, model, .. } = &self.law;
        request.reread(model, target, prompt, form, &mut self.written)?;
        Ok(self.written)
    }

    /// The text with what is known of it without another reading.
    pub(super) fn into_written(mut self, form: Option<&Constraint>) -> Written {
        self.take_logprobs();
        add_form(&self.law.prompt, form, &mut self.written);
        self.written
    }

    /// Takes what was read of the rows. A text that was ended from outside was not read once more.
    fn take_logprobs(&mut self) {
        let all = self.law.logprobs.as_ref().map(ReadLogprobs::take);
        self.written.logprobs = all.filter(|all| all.len() == self.written.tokens.len());
    }
}
