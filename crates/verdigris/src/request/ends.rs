//! The end of a text: its maximum length, its stop strings, and its end tokens.

use verdigris_decoding::Limits;
use verdigris_logits::TokenId;

use crate::error::Error;
use crate::request::options::Ends;
use crate::request::{Request, options};

impl Ends {
    /// Checks the stop strings.
    pub(super) fn check(&self) -> Result<(), Error> {
        let longest = Request::LONGEST_STOP;
        match self.stops.iter().find(|text| text.is_empty() || text.len() > longest) {
            Some(text) => Err(Error::StopString { length: text.len(), longest }),
            None => Ok(()),
        }
    }
}

impl Request<'_> {
    /// The default of [`Request::max_tokens`].
    pub const MAX_TOKENS: usize = options::MAX_TOKENS;

    /// The maximum length of a stop string, in bytes.
    pub const LONGEST_STOP: usize = 1024;

    /// Sets the maximum number of tokens to write; [`Request::MAX_TOKENS`] by default. The model's context may end the
    /// text sooner.
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.ends.max_tokens = max_tokens;
        self
    }

    /// Sets the maximum number of tokens of prompt and text together. By default it is the model's context length,
    /// which is the limit in any case. A prompt that leaves no room is an error.
    #[doc(alias = "n_ctx")]
    #[doc(alias = "max_model_len")]
    pub fn context(mut self, tokens: usize) -> Self {
        self.ends.context = tokens;
        self
    }

    /// Ends the text where this string appears, and leaves the string out; can be called several times. Token
    /// boundaries do not matter. Text that may be the beginning of a stop string is held back until it is known to
    /// continue differently. Of several strings, the one that is complete first counts. Only the text is searched, not
    /// the prompt. A string has at most [`Request::LONGEST_STOP`] bytes.
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.ends.stops.push(text.into());
        self
    }

    /// Forbids the end tokens, so that exactly [`Request::max_tokens`] tokens are written.
    pub fn through_end(mut self) -> Self {
        self.ends.through_end = true;
        self
    }

    /// The maximum number of tokens of a text after a prompt, in this context. The last one is never read, so it needs
    /// no room, except in contrastive search, which reads all candidates.
    pub(super) fn most_tokens(&self, context: usize, prompt: &[TokenId]) -> usize {
        let unread = usize::from(self.penalty_alpha.is_none());
        let room = self.ends.context.saturating_sub(prompt.len());
        self.ends.max_tokens.min(context + unread - prompt.len()).min(room)
    }

    pub(super) fn limits(&self, prompt: &[TokenId]) -> Limits {
        let end = if self.ends.through_end { Vec::new() } else { self.engine.end.clone() };
        let room = self.ends.context.saturating_sub(prompt.len());
        Limits { max_tokens: self.ends.max_tokens.min(room), end }
    }
}
