//! Response bodies, complete or streamed, in each protocol.
//!
//! | module | holds |
//! |---|---|
//! | `content` | the content of a text: words and tool calls |
//! | `choices` | answers of `/v1/chat/completions` and `/v1/completions` |
//! | `response` | answers of `/v1/responses` |
//! | `anthropic` | answers of Anthropic's `/v1/messages` |
//! | `ollama` | answers of Ollama's `/api/chat` and `/api/generate` |
//! | `extras` | marks and manifests in protocols that do not know them |
//! | `logprobs` | log-probabilities |

mod anthropic;
mod choices;
mod content;
mod extras;
mod logprobs;
mod ollama;
mod response;

use std::time::Duration;

use serde_json::Value;
use verdigris::logits::TokenId;
use verdigris::text::calls::ParsedPart;
use verdigris::{Stop, TokenLogprobs, Written};

use crate::caller::random;
use crate::input_marks::InputMark;
use crate::manifests::ManifestField;
use crate::protocol::Refusal;
use crate::protocol::mark::MarkField;

pub(crate) use anthropic::AnthropicMessage;
pub(crate) use choices::{Choices, Shape};
pub(crate) use content::{Call, Content};
pub(crate) use ollama::{OllamaAnswer, OllamaShape};
pub(crate) use response::Response;

/// The numbers of tokens of a request, and the time that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
    /// The tokens of completions that belong to thoughts.
    pub(crate) reasoning: usize,
    /// The time until the first piece of a text.
    pub(crate) prompt_time: Duration,
    /// The time until the last text ended.
    pub(crate) time: Duration,
}

/// The beginning of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    /// The prompt, if it is echoed.
    pub(crate) echo: Option<&'a str>,
    /// The number of tokens of the prompt.
    pub(crate) prompt_tokens: usize,
}

/// The format of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events. A silent stream is kept alive with this event, or a comment.
    Events { ping: Option<StreamEvent> },
    /// Lines of JSON.
    Lines,
}

/// A text that has ended.
pub(crate) struct Choice {
    /// The prompt as text, if it is echoed before the answer.
    pub(crate) echo: Option<String>,
    pub(crate) written: Box<Written>,
    /// The number of tokens before the answer that are not returned, since its thought is not.
    pub(crate) hidden: usize,
    pub(crate) content: Content,
    pub(crate) mark: MarkField,
    /// The manifest of the words, if they are to be signed and there are any.
    pub(crate) manifest: Option<ManifestField>,
}

impl Choice {
    /// The tokens that are returned.
    fn tokens(&self) -> &[TokenId] {
        &self.written.tokens[self.hidden..]
    }

    /// The log-probabilities of these tokens, if they are requested.
    fn logprobs(&self) -> Option<&[TokenLogprobs]> {
        self.written.logprobs.as_ref().map(|all| &all[self.hidden..])
    }

    /// Whether the tokens ran out before the text was complete, or a call was closed because of that.
    fn is_cut(&self) -> bool {
        let is_whole = !self.content.calls.is_empty() && self.written.complete == Some(true) && !self.written.closed;
        matches!(self.written.stop, Some(Stop::Length | Stop::Context)) && !is_whole
    }

    /// The reason why the text ended, as OpenAI names it.
    pub(crate) fn finish_reason(&self) -> &'static str {
        match (self.is_cut(), self.content.calls.is_empty()) {
            (true, _) => "length",
            (false, false) => "tool_calls",
            (false, true) => "stop",
        }
    }
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamEvent {
    /// The event's name, if the protocol has named events.
    pub(crate) event: Option<&'static str>,
    pub(crate) data: String,
}

/// Writes an answer in one protocol, complete or as a stream. Texts have numbers, from 0.
pub(crate) trait Voice: Send {
    /// The answer's id.
    fn id(&self) -> &str;

    /// The format of the stream.
    fn framing(&self) -> Framing {
        Framing::Events { ping: None }
    }

    /// Takes the marks in the inputs, which the answer reports at its end.
    fn set_input_marks(&mut self, marks: &[InputMark]);

    /// The complete answer.
    fn whole(&self, choices: &[Choice], usage: Usage) -> Value;

    /// A text begins.
    fn begin(&mut self, number: usize, start: Start<'_>, events: &mut Vec<StreamEvent>);

    /// The next piece of the thought before a text.
    fn thought(&mut self, number: usize, piece: String, events: &mut Vec<StreamEvent>);

    /// The next part of a text.
    fn part(&mut self, number: usize, part: ParsedPart, events: &mut Vec<StreamEvent>);

    /// A text has ended.
    fn end(&mut self, number: usize, choice: &Choice, events: &mut Vec<StreamEvent>);

    /// All texts have ended.
    fn over(&mut self, usage: Usage, events: &mut Vec<StreamEvent>);

    /// A text could not be completed, so the stream ends.
    fn failed(&mut self, refusal: &Refusal, events: &mut Vec<StreamEvent>);
}

/// A new name of `N` letters and digits.
fn new_name<const N: usize>() -> String {
    const SIGNS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    random::<N>().iter().map(|&byte| char::from(SIGNS[usize::from(byte) % SIGNS.len()])).collect()
}
