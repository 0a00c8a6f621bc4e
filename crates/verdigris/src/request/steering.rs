//! The model that writes a text, with what its members read instead of the prompt.

use std::sync::Arc;

use verdigris_decoding::{Alpha, OwnPrompts, Steered};
use verdigris_logits::TokenId;
use verdigris_models::LanguageModel;
use verdigris_text::Message;

use crate::error::Error;
use crate::prompt::{Prompt, PromptReader};
use crate::request::{Request, Written};

/// The prompts of members, as they are asked for.
#[derive(Clone, Default)]
pub(super) struct MemberPrompts {
    experts: Asked,
    antis: Asked,
    negative: Option<Prompt>,
}

/// The prompts of all experts, or of all anti-experts.
#[derive(Clone, Default)]
struct Asked {
    /// One for all or one for each.
    prompts: Vec<Prompt>,
    /// Whether they are messages, to be read by each one's own template.
    chat: bool,
}

impl Asked {
    fn is_nothing(&self) -> bool {
        self.prompts.is_empty() && !self.chat
    }

    /// What the member of a number reads instead of a prompt.
    fn tokens(&self, number: usize, reader: &PromptReader, prompt: &Prompt) -> Result<Option<Vec<TokenId>>, Error> {
        let own = match &self.prompts[..] {
            [] => None,
            [one] => Some(one),
            each => each.get(number),
        };
        let own = match (own, self.chat) {
            (None, false) => return Ok(None),
            (Some(own), false) => own.clone(),
            (own, true) => match own.unwrap_or(prompt) {
                Prompt::Text(text) => vec![Message::user(text)].into(),
                chat => chat.clone(),
            },
        };
        reader.tokens(&own).map(|tokens| Some(tokens.to_vec()))
    }
}

/// What writes one text.
#[derive(Clone)]
pub(super) enum TextModel {
    Plain(Arc<dyn LanguageModel>),
    /// Twice the same model.
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

    /// Adds to a text how far it was moved, where that has a budget.
    pub(super) fn add_divergence(&self, prompt: &[TokenId], written: &mut Written) -> Result<(), Error> {
        if let Some(steered) = self.steered().filter(|steered| steered.budget().is_some()) {
            written.steering_kl = Some(steered.divergence(prompt, &written.tokens)?);
        }
        Ok(())
    }
}

impl Request<'_> {
    /// What experts of a [steered](crate::Engine::steered_by) model read instead of the prompt: asked for once it is
    /// for all of them, and several times for one after the other.
    pub fn expert_prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.member_prompts.experts.prompts.push(prompt.into());
        self
    }

    /// As [`Request::expert_prompt`], of anti-experts.
    pub fn anti_prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.member_prompts.antis.prompts.push(prompt.into());
        self
    }

    /// Lets experts read their prompt, or the request's, by their own chat template: a text is a message to them.
    pub fn expert_chat(mut self) -> Self {
        self.member_prompts.experts.chat = true;
        self
    }

    /// As [`Request::expert_chat`], of anti-experts.
    pub fn anti_chat(mut self) -> Self {
        self.member_prompts.antis.chat = true;
        self
    }

    /// Another weight of all pairs than the [steered](crate::Engine::steered_by) model has, in this text; weights for
    /// some tokens stay. Beside others in a [`Service`](crate::Service) the text reads all of its prompt: what others
    /// have read was moved otherwise.
    pub fn alpha(mut self, alpha: Alpha) -> Self {
        self.alpha = Some(alpha);
        self
    }

    /// What [guidance](crate::Steering::guidance_scale) leads away from: what the model would write after this prompt.
    /// Unless told otherwise it is the last token of the request's prompt, as in `transformers`.
    #[doc(alias = "negative_prompt_ids")]
    pub fn negative_prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.member_prompts.negative = Some(prompt.into());
        self
    }

    /// The model that writes a text after a prompt, whose tokens these are.
    pub(super) fn text_model(&self, prompt: &Prompt, tokens: &[TokenId]) -> Result<TextModel, Error> {
        let MemberPrompts { experts, antis, negative } = &self.member_prompts;
        let Some((steered, members)) = &self.engine.steered else {
            let what = match (experts.is_nothing(), antis.is_nothing(), negative) {
                (true, true, None) if self.alpha.is_some() => "a weight of experts",
                (true, true, None) => return Ok(TextModel::Plain(self.engine.model.clone())),
                (false, ..) => "a prompt for experts",
                (_, false, _) => "a prompt for anti-experts",
                _ => "a negative prompt",
            };
            return Err(Error::Unused { what, needs: "a model that is steered" });
        };
        let weighed = match self.alpha {
            Some(_) if !steered.has_pairs() => {
                return Err(Error::Unused { what: "a weight of experts", needs: "a pair whose weight is not 0" });
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
            // A member's own prompt fills its context.
            let longest = own.experts.iter().chain(&own.antis).flatten().chain(&own.negative).map(Vec::len).max();
            let (tokens, context) = (longest.unwrap_or(tokens.len()), steered.context_length());
            return Err(Error::PromptTooLong { tokens, context });
        }
        Ok(TextModel::Steered(of_text.clone(), of_text))
    }
}
