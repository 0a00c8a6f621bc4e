//! The tokens of a prompt, and those that healing removes.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};
use verdigris_text::{Conversation, Tokenizer, Turn, Vocabulary};

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;

/// The tokens of a prompt.
#[derive(Clone)]
pub(in crate::request) struct PromptTokens {
    /// The tokens that the model reads: at least one.
    pub(in crate::request) read: Arc<[TokenId]>,
    /// The end of the prompt that the text begins with, if any.
    pub(in crate::request) healing: Option<Healing>,
}

/// The end of a prompt that is removed, and that the text begins with.
#[derive(Clone)]
pub(in crate::request) struct Healing {
    removed: Arc<[TokenId]>,
    bytes: Arc<[u8]>,
    tokenizer: Arc<Tokenizer>,
    /// The tokens that are allowed after each number of these bytes.
    allowed: Arc<[TokenSet]>,
}

impl Request<'_> {
    /// The maximum number of tokens that healing removes.
    pub const MOST_HEALED: usize = 4;

    /// The tokens of a prompt, healed if requested.
    pub(in crate::request) fn prompt_tokens(&self, prompt: &Prompt) -> Result<PromptTokens, Error> {
        let with_arguments = self.thinking.prompt(prompt);
        let tokens = self.engine.prompts.tokens(with_arguments.as_ref().unwrap_or(prompt))?;
        let context = self.engine.context_length().min(self.ends.context);
        if tokens.len() >= context {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context });
        }
        let ends_in_text = !matches!(prompt, Prompt::Chat(Conversation { turn: Turn::Next | Turn::After, .. }));
        if !self.heals || !ends_in_text {
            return Ok(PromptTokens { read: tokens, healing: None });
        }
        if self.members.have_prompts() {
            let why = "the text begins with the end of the prompt, which they do not have; leave out one of the two";
            return Err(Error::Apart { what: "token healing".into(), with: "other prompts for steering models", why });
        }
        if self.processors.forced_bos_token_id.is_some() {
            let why = "the text begins with the end of the prompt, which that token does not spell; leave out one of \
                       the two";
            return Err(Error::Apart { what: "token healing".into(), with: "a forced first token", why });
        }
        Ok(PromptTokens::healed(tokens, self.engine.reader().tokenizer()))
    }
}

impl PromptTokens {
    /// Removes the longest end of a prompt that a longer token begins with.
    fn healed(tokens: Arc<[TokenId]>, tokenizer: &Arc<Tokenizer>) -> Self {
        let vocabulary = tokenizer.vocabulary();
        let mut bytes: Vec<u8> = Vec::new();
        let mut best = None;
        for (at, &token) in tokens.iter().enumerate().skip(1).rev().take(Request::MOST_HEALED) {
            let spelled = text_of(vocabulary, token);
            if spelled.is_empty() {
                break;
            }
            bytes.splice(0..0, spelled.iter().copied());
            // Only whole characters are removed, so that the rest of the prompt and the text are.
            if std::str::from_utf8(&bytes).is_ok() && goes_on(vocabulary, &bytes) {
                best = Some((at, bytes.clone()));
            }
        }
        let Some((kept, bytes)) = best else { return Self { read: tokens, healing: None } };
        let allowed = allowed(vocabulary, &bytes);
        let (removed, tokenizer) = (tokens[kept..].into(), tokenizer.clone());
        let healing = Healing { removed, bytes: bytes.into(), tokenizer, allowed: allowed.into() };
        Self { read: tokens[..kept].into(), healing: Some(healing) }
    }

    /// The number of tokens of the whole prompt.
    pub(in crate::request) fn count(&self) -> usize {
        self.read.len() + self.healing.as_ref().map_or(0, |healing| healing.removed.len())
    }

    /// The tokens of the whole prompt.
    pub(in crate::request) fn whole(&self) -> Arc<[TokenId]> {
        match &self.healing {
            None => self.read.clone(),
            Some(healing) => [&*self.read, &*healing.removed].concat().into(),
        }
    }

    /// The number of bytes of the prompt that the text begins with.
    pub(in crate::request) fn rest(&self) -> usize {
        self.healing.as_ref().map_or(0, Healing::rest)
    }
}

impl Healing {
    /// The bytes of the prompt that the text begins with.
    pub(in crate::request) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of these bytes.
    pub(in crate::request) fn rest(&self) -> usize {
        self.bytes.len()
    }

    /// The tokens that are allowed where `rest` bytes are left: those that spell the beginning of these bytes, or all
    /// of them and more.
    pub(super) fn allowed(&self, rest: usize) -> &TokenSet {
        &self.allowed[self.bytes.len() - rest]
    }

    /// The number of first tokens of a text that have bytes of the prompt.
    pub(in crate::request) fn tokens_of_prompt(&self, tokens: &[TokenId]) -> usize {
        let mut rest = self.rest();
        let is_of_prompt = |token: &&TokenId| {
            let is_of_prompt = rest > 0;
            rest = self.after(rest, **token);
            is_of_prompt
        };
        tokens.iter().take_while(is_of_prompt).count()
    }

    /// The number of bytes that are left after a token.
    pub(in crate::request) fn after(&self, rest: usize, token: TokenId) -> usize {
        rest.saturating_sub(text_of(self.tokenizer.vocabulary(), token).len())
    }
}

/// The bytes of a token of text; empty for control tokens, and for tokens with bytes that UTF-8 does not have.
fn text_of(vocabulary: &Vocabulary, token: TokenId) -> &[u8] {
    if vocabulary.control(token).is_some() { &[] } else { vocabulary.spelling(token) }
}

/// Whether a token begins with these bytes, and has more.
fn goes_on(vocabulary: &Vocabulary, bytes: &[u8]) -> bool {
    (0..vocabulary.size() as TokenId)
        .map(|token| text_of(vocabulary, token))
        .any(|spelled| spelled.len() > bytes.len() && spelled.starts_with(bytes))
}

/// The tokens that may come after each number of bytes. Empty after numbers of bytes that no tokens spell.
fn allowed(vocabulary: &Vocabulary, bytes: &[u8]) -> Vec<TokenSet> {
    let mut allowed = vec![TokenSet::default(); bytes.len()];
    let mut is_reached = vec![false; bytes.len()];
    is_reached[0] = true;
    for at in 0..bytes.len() {
        if !is_reached[at] {
            continue;
        }
        let (rest, mut set) = (&bytes[at..], TokenSet::new(vocabulary.size()));
        for token in 0..vocabulary.size() as TokenId {
            let spelled = text_of(vocabulary, token);
            if !spelled.is_empty() && rest.starts_with(spelled) {
                set.insert(token);
                if let Some(is_reached) = is_reached.get_mut(at + spelled.len()) {
                    *is_reached = true;
                }
            } else if spelled.starts_with(rest) {
                set.insert(token);
            }
        }
        allowed[at] = set;
    }
    allowed
}
