//! A request for texts, in any of the protocols.

use std::sync::Arc;

use verdigris::text::calls::CallFormat;
use verdigris::{Alpha, Engine, Error, Key, Message, Prompt, Request, Turn};

use crate::calls::{self, Calls};
use crate::constraint_cache::ConstraintCache;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::fields::Fields;
use crate::protocol::reasoning::ReasoningField;
use crate::protocol::refusal::Refusal;
use crate::protocol::sampling::Sampled;
use crate::protocol::tools::Tools;
use crate::protocol::{foreign, mark, other_constraints};

/// The maximum number of answers to one prompt, the same as OpenAI's.
const CHOICES: usize = 128;

/// The maximum number of most probable tokens to list with each token.
pub(super) const TOP_LOGPROBS: usize = 20;

/// A request for texts.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The model's name.
    pub(crate) model: Option<String>,
    /// One prompt, or several for completions.
    pub(crate) prompts: Vec<Prompt>,
    /// The number of answers to each prompt.
    pub(crate) choices: usize,
    pub(crate) sampling: Sampled,
    /// The weight of experts, where it is not the server's.
    pub(crate) alpha: Option<f64>,
    pub(crate) constraint: Option<ConstraintField>,
    pub(crate) reasoning: ReasoningField,
    /// The tools that may be called.
    pub(crate) tools: Option<Tools>,
    /// The tool calls, which [`Ask::settled`] works out for the model.
    pub(crate) calls: Option<Calls>,
    /// Whether a call is returned in the field `function_call`, as in OpenAI's first protocol for functions.
    pub(crate) is_function_call: bool,
    /// The maximum number of tokens to write; `None` for the server's.
    pub(crate) max_tokens: Option<usize>,
    /// The number of most probable tokens to list with each token; `None` without log-probabilities.
    pub(crate) logprobs: Option<usize>,
    /// Whether the prompt is returned before the text.
    pub(crate) echo: bool,
    pub(crate) return_token_ids: bool,
    /// Whether to mark the texts; `None` for the server's default.
    pub(crate) watermarking: Option<(bool, &'static str)>,
    /// Whether to sign the texts; `None` for the server's default.
    pub(crate) c2pa: Option<bool>,
    /// The options of a streamed answer; `None` for a complete one.
    pub(crate) stream: Option<Stream>,
    /// The name of the field with the conversation.
    pub(super) conversation: &'static str,
    /// The name of the field with the maximum number of tokens.
    pub(super) limit: &'static str,
}

/// The options of a streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) include_usage: bool,
}

impl Ask {
    /// Reads the fields that all protocols have, and treats the others as unknown.
    pub(super) fn whole(mut body: Fields, prompts: Vec<Prompt>, max_tokens: Option<usize>) -> Result<Self, Refusal> {
        let sampling = Sampled::take(&mut body)?;
        Self::sampled(body, sampling, prompts, max_tokens)
    }

    /// As [`Ask::whole`], for a protocol that has the sampling options elsewhere.
    pub(super) fn sampled(
        mut body: Fields,
        sampling: Sampled,
        prompts: Vec<Prompt>,
        max_tokens: Option<usize>,
    ) -> Result<Self, Refusal> {
        let is_chat = matches!(prompts[..], [Prompt::Chat(_)]);
        if sampling.token_healing
            && prompts.iter().all(|prompt| matches!(prompt, Prompt::Chat(chat) if chat.turn != Turn::Within))
        {
            let message =
                "token_healing is for a prompt that is continued: set continue_final_message, or leave it out";
            return Err(Refusal::field("token_healing", "contradiction", message));
        }
        let reasoning = ReasoningField::take(&mut body, is_chat)?;
        let prompts = prompts.into_iter().map(|prompt| reasoning.prompt(prompt)).collect();
        let ask = Self {
            model: body.take("model")?,
            prompts,
            reasoning,
            choices: body.count("n", 1, CHOICES)?.unwrap_or(1),
            sampling,
            alpha: body.number("alpha", 0.0, f64::from(f32::MAX))?,
            constraint: other_constraints::take(&mut body)?,
            tools: None,
            calls: None,
            is_function_call: false,
            max_tokens,
            logprobs: None,
            echo: false,
            return_token_ids: body.take("return_token_ids")?.unwrap_or(false),
            watermarking: mark::take(&mut body)?,
            c2pa: body.take("c2pa")?,
            stream: None,
            conversation: "messages",
            limit: "max_tokens",
        };
        foreign::take(&mut body)?;
        body.end()?;
        Ok(ask)
    }

    /// Whether [`Ask::settled`] has something to do.
    pub(crate) fn is_open(&self) -> bool {
        self.prompts.iter().any(|prompt| match prompt {
            Prompt::Text(_) => false,
            Prompt::Tokens(_) => true,
            Prompt::Chat(conversation) => {
                let of_tools = |message: &Message| message.role == "tool" || message.more.contains_key("tool_calls");
                self.tools.is_some() || conversation.messages.iter().any(of_tools)
            }
        })
    }

    /// Checks the tokens of prompts, and works out the prompt and the constraint of a chat with tools.
    ///
    /// # Errors
    /// If there is no chat template, a tool's schema cannot be used, or a token is not in the vocabulary.
    pub(crate) fn settled(
        mut self,
        engine: &Engine,
        known: &ConstraintCache<calls::CallConstraint, Calls>,
        salt: &Arc<str>,
    ) -> Result<Self, Refusal> {
        for (at, prompt) in self.prompts.iter().enumerate() {
            if let Prompt::Tokens(tokens) = prompt {
                let size = engine.reader().tokenizer().vocabulary().size();
                if let Some(&token) = tokens.iter().find(|&&token| token as usize >= size) {
                    let message = format!("prompt {at} has the token {token}, but the model has {size} tokens");
                    return Err(Refusal::field("prompt", "invalid_value", message));
                }
            }
        }
        let tools = self.tools.as_ref();
        if let [Prompt::Chat(_)] = self.prompts[..] {
            let (prompt, syntax) = calls::prompt(engine, self.prompts.remove(0), tools)?;
            let asked = |tools: &Tools| calls::CallConstraint {
                syntax,
                tools: tools.clone(),
                constraint: self.constraint.clone(),
            };
            self.calls = tools.map(|tools| asked(tools).calls(engine, known, salt)).transpose()?;
            self.prompts.push(prompt);
        }
        Ok(self)
    }

    /// The number of texts requested.
    pub(crate) fn texts(&self) -> usize {
        self.prompts.len() * self.choices
    }

    /// The prompt of one of the texts.
    pub(crate) fn prompt(&self, number: usize) -> &Prompt {
        &self.prompts[number / self.choices]
    }

    /// The request for one of the texts after `prompt`, of at most `most` tokens, without its constraint.
    pub(crate) fn request<'a>(
        &self,
        engine: &'a Engine,
        number: usize,
        prompt: impl Into<Prompt>,
        key: Option<&'a Key>,
        most: usize,
    ) -> Request<'a> {
        let max_tokens = self.max_tokens.unwrap_or(most).min(most);
        let mut request = engine.request("").prompt(prompt).max_tokens(max_tokens);
        request = self.sampling.onto(request, number as u64);
        if let Some(alpha) = self.alpha {
            request = request.alpha(Alpha::constant(alpha).expect("a number of f32"));
        }
        if let Some(top) = self.logprobs {
            request = request.logprobs(top);
        }
        let is_template = match self.prompt(number) {
            Prompt::Chat(conversation) => {
                request = self.reasoning.onto(request, engine);
                conversation.turn != Turn::Within
            }
            Prompt::Text(_) | Prompt::Tokens(_) => false,
        };
        if self.sampling.token_healing && !is_template {
            request = request.heal();
        }
        key.into_iter().fold(request, Request::watermark)
    }

    /// The format of tool calls, if the texts can contain any.
    pub(crate) fn call_format(&self) -> Option<&Arc<CallFormat>> {
        self.calls.as_ref().map(|calls| &calls.format)
    }

    /// The name of the field with the prompts.
    pub(crate) fn prompt_field(&self) -> &'static str {
        match self.prompts[0] {
            Prompt::Text(_) | Prompt::Tokens(_) => "prompt",
            Prompt::Chat(_) => self.conversation,
        }
    }

    /// The refusal for an error of a text, with the field that caused it.
    pub(crate) fn refusal(&self, error: Error) -> Refusal {
        let of_constraint = matches!(
            error,
            Error::Schema(_)
                | Error::Regex(_)
                | Error::Choice(_)
                | Error::Tag(_)
                | Error::Grammar(_)
                | Error::UnknownControl { .. }
                | Error::OverBudget(_)
        );
        let of_reasoning = matches!(error, Error::NoReasoning);
        let of_limit = matches!(error, Error::NoRoom(_));
        let of_prompt = matches!(error, Error::PromptTooLong { .. } | Error::NoPrompt);
        let refusal = Refusal::from(error);
        let param = match &self.constraint {
            _ if of_constraint && self.calls.is_some() => "tools",
            Some(constraint) if of_constraint => constraint.path(),
            _ if of_prompt => self.prompt_field(),
            _ if of_reasoning => self.reasoning.asked_by.unwrap_or("reasoning_effort"),
            _ if of_limit => {
                let message = refusal.message.replace("max_tokens", self.limit);
                return Refusal { param: Some(self.limit.into()), message, ..refusal };
            }
            _ => return refusal,
        };
        Refusal { param: Some(param.into()), ..refusal }
    }
}
