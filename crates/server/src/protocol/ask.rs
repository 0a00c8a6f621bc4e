//! A request for texts, in any of the protocols.

use std::sync::Arc;

use serde_json::Value;
use verdigris::logits::TokenId;
use verdigris::text::calls::CallFormat;
use verdigris::{Alpha, Engine, Error, Key, Message, Prompt, Request};

use crate::calls::{self, Calls};
use crate::constraint_cache::ConstraintCache;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;
use crate::protocol::sampling::Sampled;
use crate::protocol::tools::{ToolShape, Tools};
use crate::protocol::{mark, messages};

/// The maximum number of answers to one prompt, the same as OpenAI's.
const CHOICES: usize = 128;

/// The maximum number of prompts of one request.
const PROMPTS: usize = 128;

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
    /// The tools that may be called.
    pub(crate) tools: Option<Tools>,
    /// The tool calls, which [`Ask::settled`] works out for the model.
    pub(crate) calls: Option<Calls>,
    /// The maximum number of tokens to write; `None` for the server's.
    pub(crate) max_tokens: Option<usize>,
    /// The number of most probable tokens to list with each token; `None` without log-probabilities.
    pub(crate) logprobs: Option<usize>,
    /// Whether the prompt is returned before the text.
    pub(crate) echo: bool,
    pub(crate) return_token_ids: bool,
    /// Whether to mark the texts; `None` for the server's default.
    pub(crate) watermarking: Option<bool>,
    /// Whether to sign the texts; `None` for the server's default.
    pub(crate) c2pa: Option<bool>,
    /// The options of a streamed answer; `None` for a complete one.
    pub(crate) stream: Option<Stream>,
    /// The name of the field with the conversation.
    pub(super) conversation: &'static str,
}

/// The options of a streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) include_usage: bool,
}

impl Ask {
    /// Reads a request to `/v1/chat/completions`.
    pub(crate) fn chat(body: Value) -> Result<Self, Refusal> {
        let mut body = Fields::of(body, "")?;
        let prompt = Prompt::from(messages::take(&mut body, "messages")?);
        let older = body.count("max_tokens", 1, usize::MAX)?;
        let max_tokens = body.count("max_completion_tokens", 1, usize::MAX)?.or(older);
        let top = body.count("top_logprobs", 0, TOP_LOGPROBS)?;
        let logprobs = match (body.take("logprobs")?.unwrap_or(false), top) {
            (false, Some(1..)) => {
                let message = "top_logprobs requires logprobs: true: set it too, or leave top_logprobs out";
                return Err(Refusal::field("top_logprobs", "invalid_value", message));
            }
            (wanted, top) => wanted.then_some(top.unwrap_or(0)),
        };
        let tools = Tools::take(&mut body, ToolShape::Nested)?;
        body.ignore(&["metadata", "store"]);
        let stream = stream(&mut body)?;
        Ok(Self { tools, stream, logprobs, ..Self::whole(body, vec![prompt], max_tokens)? })
    }

    /// Reads a request to `/v1/completions`.
    pub(crate) fn completion(body: Value) -> Result<Self, Refusal> {
        let mut body = Fields::of(body, "")?;
        let path = body.path("prompt");
        let prompts = prompts(body.value("prompt").ok_or_else(|| body.missing("prompt"))?, &path)?;
        if !(1..=PROMPTS).contains(&prompts.len()) {
            let message = format!("{path} has {} texts, but must have 1 to {PROMPTS}", prompts.len());
            return Err(Refusal::field(path, "invalid_value", message));
        }
        let max_tokens = body.count("max_tokens", 1, usize::MAX)?;
        let logprobs = body.count("logprobs", 0, TOP_LOGPROBS)?;
        let echo = body.take("echo")?.unwrap_or(false);
        let stream = stream(&mut body)?;
        Ok(Self { stream, logprobs, echo, ..Self::whole(body, prompts, max_tokens)? })
    }

    /// Reads the fields that all protocols have, and refuses any others.
    pub(super) fn whole(mut body: Fields, prompts: Vec<Prompt>, max_tokens: Option<usize>) -> Result<Self, Refusal> {
        let ask = Self {
            model: body.take("model")?,
            prompts,
            choices: body.count("n", 1, CHOICES)?.unwrap_or(1),
            sampling: Sampled::take(&mut body)?,
            alpha: body.number("alpha", 0.0, f64::from(f32::MAX))?,
            constraint: ConstraintField::take(&mut body)?,
            tools: None,
            calls: None,
            max_tokens,
            logprobs: None,
            echo: false,
            return_token_ids: body.take("return_token_ids")?.unwrap_or(false),
            watermarking: mark::take(&mut body)?,
            c2pa: body.take("c2pa")?,
            stream: None,
            conversation: "messages",
        };
        // Ids of the user, and options of OpenAI's service.
        body.ignore(&["user", "safety_identifier", "prompt_cache_key", "service_tier"]);
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
        let of_constraint =
            matches!(error, Error::Schema(_) | Error::Regex(_) | Error::Choice(_) | Error::OverBudget(_));
        let of_prompt = matches!(error, Error::PromptTooLong { .. } | Error::NoPrompt);
        let refusal = Refusal::from(error);
        let param = match &self.constraint {
            _ if of_constraint && self.calls.is_some() => "tools",
            Some(constraint) if of_constraint => constraint.path(),
            _ if of_prompt => self.prompt_field(),
            _ => return refusal,
        };
        Refusal { param: Some(param.into()), ..refusal }
    }
}

/// Takes the options of a streamed answer; `None` for a complete one.
fn stream(body: &mut Fields) -> Result<Option<Stream>, Refusal> {
    let options = body.object("stream_options")?;
    Ok(match (body.take("stream")?.unwrap_or(false), options) {
        (false, None) => None,
        (false, Some(_)) => {
            let message = "stream_options requires stream: true: set it too, or leave stream_options out";
            return Err(Refusal::field("stream_options", "invalid_value", message));
        }
        (true, None) => Some(Stream { include_usage: false }),
        (true, Some(mut options)) => {
            let include_usage = options.take("include_usage")?.unwrap_or(false);
            options.ignore(&["include_obfuscation"]);
            options.end()?;
            Some(Stream { include_usage })
        }
    })
}

/// Reads a text, several texts, the tokens of one, or the tokens of several.
fn prompts(value: Value, path: &str) -> Result<Vec<Prompt>, Refusal> {
    let items = match value {
        Value::String(text) => return Ok(vec![Prompt::Text(text)]),
        other => read::<Vec<Value>>(other, path.into())?,
    };
    if items.first().is_some_and(Value::is_number) {
        return Ok(vec![read::<Vec<TokenId>>(Value::Array(items), path.into())?.into()]);
    }
    let prompt = |(at, item): (usize, Value)| match item {
        Value::String(text) => Ok(Prompt::Text(text)),
        other => read::<Vec<TokenId>>(other, format!("{path}[{at}]")).map(Prompt::from),
    };
    items.into_iter().enumerate().map(prompt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chat_is_read_whole() {
        let ask = Ask::chat(json!({
            "model": "smol", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9,
            "max_completion_tokens": 7,
            "n": 2, "stream": true, "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 3,
            "user": "ann", "temperature": 0, "watermark": {"enabled": true}, "return_token_ids": true,
        }))
        .unwrap();
        assert_eq!((ask.model.as_deref(), ask.choices, ask.max_tokens), (Some("smol"), 2, Some(7)));
        assert_eq!((ask.logprobs, ask.stream), (Some(3), Some(Stream { include_usage: true })));
        assert_eq!((ask.watermarking, ask.return_token_ids), (Some(true), true));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let hi = json!([{"role": "user", "content": "Hi"}]);
        for (body, param) in [
            (json!({"messages": hi, "top_logprobs": 2}), "top_logprobs"),
            (json!({"messages": hi, "stream_options": {}}), "stream_options"),
            (json!({"messages": hi, "stream": true, "stream_options": {"chunks": 1}}), "stream_options.chunks"),
            (json!({"messages": hi, "n": 0}), "n"),
            (json!({"messages": hi, "n": 1000000}), "n"),
            (json!({"messages": hi, "max_tokens": -5}), "max_tokens"),
            (json!({"messages": hi, "max_tokens": 1e300}), "max_tokens"),
            (json!({"messages": hi, "prompt": "x"}), "prompt"),
            (json!({"messages": hi, "functions": []}), "functions"),
        ] {
            assert_eq!(Ask::chat(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        for (body, param) in [
            (json!({}), "prompt"),
            (json!({"prompt": []}), "prompt"),
            (json!({"prompt": [3, "x"]}), "prompt"),
            (json!({"prompt": [[3], [-1]]}), "prompt[1]"),
            (json!({"prompt": 3}), "prompt"),
            (json!({"prompt": "x", "logprobs": true}), "logprobs"),
            (json!({"prompt": "x", "suffix": "y"}), "suffix"),
        ] {
            assert_eq!(Ask::completion(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        assert_eq!(Ask::chat(json!([])).unwrap_err().message, "the body is an array, but must be an object");
    }
}
