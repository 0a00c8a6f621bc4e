//! When a text ends.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{LanguageModel, ModelError, Sequence};

use crate::target::DecodeError;

/// What ends a text, whichever comes first. The model's context ends it in any case.
#[doc(alias = "eos_token_id")]
#[doc(alias = "max_new_tokens")]
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most tokens to write.
    pub max_tokens: usize,
    /// Tokens that end the text; they are not part of it.
    pub end: Vec<TokenId>,
}

impl Limits {
    /// Begins a sequence with room for a text after `prompt`, which must leave room for a token in the model's
    /// context. The last token of a text is never fed back, so it needs no room.
    pub(crate) fn begin(
        &self,
        model: Arc<dyn LanguageModel>,
        prompt: &[TokenId],
    ) -> Result<Box<dyn Sequence>, DecodeError> {
        if prompt.is_empty() {
            return Err(DecodeError::EmptyPrompt);
        }
        let context = model.context_length();
        if prompt.len() >= context {
            return Err(ModelError::ContextFull { tokens: prompt.len() + 1, capacity: context }.into());
        }
        Ok(model.begin(prompt.len().saturating_add(self.max_tokens).min(context))?)
    }
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model wrote an end token.
    End,
    /// As many tokens as asked for.
    Length,
    /// The model's context is full.
    Context,
    /// A text that was to end it came. Decoding knows tokens alone: whoever turns them into text tells it of this, as
    /// by [`Together::end`](crate::Together::end).
    StopString,
}
