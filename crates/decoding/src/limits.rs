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
    /// Begins a sequence with room for a text after `prompt`.
    ///
    /// # Errors
    /// As [`Limits::room`], and the model's.
    pub fn begin(&self, model: Arc<dyn LanguageModel>, prompt: &[TokenId]) -> Result<Box<dyn Sequence>, DecodeError> {
        let room = self.room(model.context_length(), prompt)?;
        Ok(model.begin(room)?)
    }

    /// How many tokens a text after `prompt` may come to have, of those that a context holds. The last token of a text
    /// is never fed back, so it needs no room.
    ///
    /// # Errors
    /// [`DecodeError::EmptyPrompt`], and [`ModelError::ContextFull`] for a prompt that leaves no room for a token.
    pub fn room(&self, context: usize, prompt: &[TokenId]) -> Result<usize, DecodeError> {
        if prompt.is_empty() {
            return Err(DecodeError::EmptyPrompt);
        }
        if prompt.len() >= context {
            return Err(ModelError::ContextFull { tokens: prompt.len() + 1, capacity: context }.into());
        }
        Ok(prompt.len().saturating_add(self.max_tokens).min(context))
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
    /// by [`BatchedText::end`](crate::pass::BatchedText::end).
    StopString,
}
