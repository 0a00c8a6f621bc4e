//! Prompts and their tokens.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::ChatSource;
use verdigris_text::{ChatTemplate, Conversation, Message, Tokenizer, Turn};

use crate::error::Error;

/// The input that a text continues.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// A text.
    Text(String),
    /// Tokens, used unchanged. Requests that continue the same tokens can share them.
    Tokens(Arc<[TokenId]>),
    /// A conversation, continued by its next message, or as its [`Turn`] says.
    Chat(Conversation),
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<&String> for Prompt {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Vec<Message>> for Prompt {
    fn from(messages: Vec<Message>) -> Self {
        Self::Chat(messages.into())
    }
}

impl From<Conversation> for Prompt {
    fn from(conversation: Conversation) -> Self {
        Self::Chat(conversation)
    }
}

impl From<Vec<TokenId>> for Prompt {
    fn from(tokens: Vec<TokenId>) -> Self {
        Self::Tokens(tokens.into())
    }
}

impl From<Arc<[TokenId]>> for Prompt {
    fn from(tokens: Arc<[TokenId]>) -> Self {
        Self::Tokens(tokens)
    }
}

/// Turns prompts into the tokens that a model reads.
pub(crate) struct PromptReader {
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// The model's chat template.
    pub(crate) chat: Option<ChatSource>,
    /// The token that begins a text without a prompt.
    pub(crate) begin: Option<TokenId>,
}

impl PromptReader {
    pub(crate) fn chat_template(&self) -> Result<ChatTemplate, Error> {
        let ChatSource { template, begin, end } = self.chat.as_ref().ok_or(Error::NoChatTemplate)?;
        Ok(ChatTemplate::new(template, begin.as_deref(), end.as_deref())?)
    }

    /// See [`Engine::instruction_tokens`](crate::Engine::instruction_tokens).
    pub(crate) fn instruction_tokens(&self, prompt: &Prompt, tokens: &[TokenId]) -> usize {
        let Prompt::Chat(Conversation { messages, tools, arguments, .. }) = prompt else { return 0 };
        let instructions = messages.iter().take_while(|message| matches!(&*message.role, "system" | "developer"));
        let messages: Vec<Message> = instructions.cloned().collect();
        if messages.is_empty() && tools.is_empty() {
            return 0;
        }
        // The templates say nothing of where instructions end, so the prompt is compared with those of two other
        // conversations, one of which begins differently from this one.
        let in_common = |message: &str| {
            let messages = messages.iter().cloned().chain([Message::user(message)]).collect();
            let (tools, arguments) = (tools.clone(), arguments.clone());
            let other = Conversation { messages, tools, arguments, turn: Turn::Next };
            let other = self.tokens(&Prompt::Chat(other)).ok()?;
            Some(tokens.iter().zip(&*other).take_while(|(a, b)| a == b).count())
        };
        in_common("1").zip(in_common("?")).map_or(0, |(a, b)| a.min(b))
    }

    /// The tokens of a prompt: at least one.
    pub(crate) fn tokens(&self, prompt: &Prompt) -> Result<Arc<[TokenId]>, Error> {
        let tokens = match prompt {
            Prompt::Text(prompt) => self.tokenizer.encode_prompt(prompt)?.into(),
            Prompt::Tokens(tokens) => {
                let size = self.tokenizer.vocabulary().size();
                if let Some(&token) = tokens.iter().find(|&&token| token as usize >= size) {
                    return Err(Error::UnknownToken { token, size });
                }
                tokens.clone()
            }
            Prompt::Chat(conversation) => self.chat_template()?.tokens(conversation, &self.tokenizer)?.into(),
        };
        if tokens.is_empty() {
            return Ok([self.begin.ok_or(Error::NoPrompt)?].into());
        }
        Ok(tokens)
    }
}

/// The prompt readers of the members of a steered model: for each pair that of the expert, unless it is the base, and
/// that of the anti-expert.
#[derive(Clone)]
pub(crate) struct Members(pub(crate) Vec<(Option<Arc<PromptReader>>, Arc<PromptReader>)>);
