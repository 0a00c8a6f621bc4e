//! The limits of a text.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{LanguageModel, ModelError, Sequence};

use crate::target::DecodeError;

/// The limits that end a text, whichever is reached first. A full context of the model always ends it.
#[doc(alias = "eos_token_id")]
#[doc(alias = "max_new_tokens")]
#[derive(Clone, Debug)]
pub struct Limits {
    /// The maximum number of tokens to write.
    pub max_tokens: usize,
    /// Tokens that end the text. They are not part of it.
    pub end: Vec<TokenId>,
}

impl Limits {
    /// Begins a sequence with room for a text after `prompt`.
    ///
    /// # Errors
    /// Those of [`Limits::room`], and the model's.
    pub fn begin(&self, model: Arc<dyn LanguageModel>, prompt: &[TokenId]) -> Result<Box<dyn Sequence>, DecodeError> {
        let room = self.room(model.context_length(), prompt)?;
        Ok(model.begin(room)?)
    }

    /// The maximum length of `prompt` and the text after it, given the length of a context. The last token of a text is
    /// never fed back, so it needs no room.
    ///
    /// # Errors
    /// [`DecodeError::EmptyPrompt`], and [`ModelError::ContextFull`] for a prompt that leaves no room for another
    /// token.
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

/// The reason that a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model wrote an end token.
    End,
    /// The maximum number of tokens was written.
    Length,
    /// The model's context is full.
    Context,
    /// A stop string appeared. Decoding only sees tokens, so the caller that turns them into text reports this, for
    /// instance with [`BatchedText::end`](crate::pass::BatchedText::end).
    StopString,
}
