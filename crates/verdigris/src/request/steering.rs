//! The model that writes a text, with separate prompts for its members.

use std::sync::Arc;

use verdigris_decoding::{Alpha, OwnPrompts, Steered};
use verdigris_logits::TokenId;
use verdigris_models::LanguageModel;

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::options::Members;
use crate::request::{Request, Written};

/// The model that writes one text.
#[derive(Clone)]
pub(super) enum TextModel {
    Plain(Arc<dyn LanguageModel>),
    /// The same model twice.
    Steered(Arc<Steered>, Arc<dyn LanguageModel>),
}

impl TextModel {
    pub(super) fn model(&self) -> &Arc<dyn LanguageModel> {
        match self {
            Self::Plain(model) | Self::Steered(_, model) => model,
        }
    }

    pub(super) fn steered(&self) -> Option<&Arc<Steered>> {
        match self {
            Self::Plain(_) => None,
            Self::Steered(steered, _) => Some(steered),
        }
    }

    /// Records the divergence of a text, if steering has a budget.
    pub(super) fn add_divergence(&self, prompt: &[TokenId], written: &mut Written) -> Result<(), Error> {
        if let Some(steered) = self.steered().filter(|steered| steered.budget().is_some()) {
            written.steering_kl = Some(steered.divergence(prompt, &written.tokens)?);
        }
        Ok(())
    }
}

impl Request<'_> {
    /// Sets the prompt that experts of a [steered](crate::Engine::steered_by) model read instead of the text's. Called
    /// once, it applies to all of them; called several times, to one after the other.
    pub fn expert_prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.members.experts.prompts.push(prompt.into());
        self
    }

    /// Like [`Request::expert_prompt`], for anti-experts.
    pub fn anti_prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.members.antis.prompts.push(prompt.into());
        self
    }

    /// Lets experts read their prompt, or the request's, by their own chat template, with a text as a message.
    pub fn expert_chat(mut self) -> Self {
        self.members.experts.chat = true;
        self
    }

    /// Like [`Request::expert_chat`], for anti-experts.
    pub fn anti_chat(mut self) -> Self {
        self.members.antis.chat = true;
        self
    }

    /// Replaces the weight of all pairs of the [steered](crate::Engine::steered_by) model for this text, except weights
    /// for some tokens. In a [`Service`](crate::Service) the text does not share the cached prompts of other texts,
    /// which were steered differently.
    pub fn alpha(mut self, alpha: Alpha) -> Self {
        self.members.alpha = Some(alpha);
        self
    }

    /// Sets the prompt that [guidance](crate::Steering::guidance_scale) steers away from. By default it is the last
    /// token of the request's prompt, as in `transformers`.
    #[doc(alias = "negative_prompt_ids")]
    pub fn negative_prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.members.negative = Some(prompt.into());
        self
    }

    /// The model that writes a text after a prompt with these tokens.
    pub(super) fn text_model(&self, prompt: &Prompt, tokens: &[TokenId]) -> Result<TextModel, Error> {
        let Members { experts, antis, negative, alpha } = &self.members;
        let Some((steered, members)) = &self.engine.steered else {
            let what = match (experts.is_nothing(), antis.is_nothing(), negative) {
                (true, true, None) if alpha.is_some() => "a weight of experts",
                (true, true, None) => return Ok(TextModel::Plain(self.engine.model.clone())),
                (false, ..) => "a prompt for experts",
                (_, false, _) => "a prompt for anti-experts",
                _ => "a negative prompt",
            };
            return Err(Error::Unused { what, needs: "a steered model" });
        };
        let weighed = match *alpha {
            Some(_) if !steered.has_pairs() => {
                return Err(Error::Unused { what: "a weight of experts", needs: "a pair with a nonzero weight" });
            }
            Some(alpha) => Some(Arc::new(steered.weighed(alpha))),
            None => None,
        };
        let steered = weighed.as_ref().unwrap_or(steered);
        if negative.is_some() && !steered.is_guided() {
            return Err(Error::Unused { what: "a negative prompt", needs: "a guidance scale other than 1" });
        }
        for (what, asked) in [("experts", experts), ("anti-experts", antis)] {
            let (prompts, members) = (asked.prompts.len(), members.0.len());
            if prompts > 1 && prompts != members || !asked.is_nothing() && members == 0 {
                return Err(Error::MemberPrompts { what, prompts, members });
            }
        }
        let mut own = OwnPrompts::default();
        for (number, (expert, anti)) in members.0.iter().enumerate() {
            let expert = expert.as_ref().map(|expert| experts.tokens(number, expert, prompt)).transpose()?;
            own.experts.push(expert.flatten());
            own.antis.push(antis.tokens(number, anti, prompt)?);
        }
        let of_negative = |negative| self.engine.prompts.tokens(negative).map(|tokens| tokens.to_vec());
        own.negative = negative.as_ref().map(of_negative).transpose()?;
        if !steered.depends_on_prompt() && experts.is_nothing() && antis.is_nothing() {
            return Ok(TextModel::Steered(steered.clone(), steered.clone()));
        }
        let of_text = Arc::new(steered.after(tokens, &own));
        let context = of_text.context_length();
        if tokens.len() >= context {
            // The separate prompt of a member fills its context.
            let longest = own.experts.iter().chain(&own.antis).flatten().chain(&own.negative).map(Vec::len).max();
            let (tokens, context) = (longest.unwrap_or(tokens.len()), steered.context_length());
            return Err(Error::PromptTooLong { tokens, context });
        }
        Ok(TextModel::Steered(of_text.clone(), of_text))
    }
}
