//! The separate prompts of the members of a steered model.

use verdigris_logits::TokenId;
use verdigris_text::Message;

use crate::error::Error;
use crate::prompt::{Prompt, PromptReader};

/// The requested prompts of members.
#[derive(Clone, Default)]
pub(super) struct MemberPrompts {
    pub(super) experts: Asked,
    pub(super) antis: Asked,
    pub(super) negative: Option<Prompt>,
}

/// The prompts of all experts, or of all anti-experts.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// One for all or one for each.
    pub(super) prompts: Vec<Prompt>,
    /// Whether each member reads its prompt as a message by its own chat template.
    pub(super) chat: bool,
}

impl Asked {
    pub(super) fn is_nothing(&self) -> bool {
        self.prompts.is_empty() && !self.chat
    }

    /// The tokens that the member with this index reads instead of the prompt, if any.
    pub(super) fn tokens(
        &self,
        number: usize,
        reader: &PromptReader,
        prompt: &Prompt,
    ) -> Result<Option<Vec<TokenId>>, Error> {
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
