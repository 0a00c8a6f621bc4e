//! What is sent back, whole or piece by piece: the objects of OpenAI's protocol.

use serde_json::{Value, json};
use verdigris::{Logprob, Stop, TokenLogprobs, Written};

use crate::caller::random;
use crate::protocol::mark::MarkStatus;

/// In place of the logarithm of 0, which JSON has not: OpenAI's number.
const IMPOSSIBLE: f64 = -9999.0;

/// Which protocol an answer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Of `/v1/chat/completions`.
    Chat,
    /// Of `/v1/completions`.
    Completion,
}

/// What all objects of one answer have.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) shape: Shape,
    pub(crate) id: String,
    /// In seconds since 1970.
    pub(crate) created: i64,
    pub(crate) model: String,
    pub(crate) return_token_ids: bool,
}

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
}

impl Usage {
    fn body(self) -> Value {
        json!({
            "prompt_tokens": self.prompt, "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        })
    }
}

/// One of several texts that have ended.
pub(crate) struct Choice {
    /// The prompt as text, where it stands before the answer.
    pub(crate) echo: Option<String>,
    pub(crate) written: Box<Written>,
    pub(crate) mark: MarkStatus,
}

impl Head {
    /// An answer with a new id.
    pub(crate) fn new(shape: Shape, model: &str, return_token_ids: bool) -> Self {
        let random = random();
        let prefix = if shape == Shape::Chat { "chatcmpl" } else { "cmpl" };
        let created = jiff::Timestamp::now().as_second();
        Self { shape, id: format!("{prefix}-{random}"), created, model: model.into(), return_token_ids }
    }

    /// All choices at once. What the answer says of its mark is said of its first choice, and beside each.
    pub(crate) fn whole(&self, choices: &[Choice], usage: Usage) -> Value {
        let object = if self.shape == Shape::Chat { "chat.completion" } else { "text_completion" };
        let all = choices.iter().enumerate().map(|(index, choice)| {
            let text = format!("{}{}", choice.echo.as_deref().unwrap_or_default(), choice.written.text);
            let content = match self.shape {
                Shape::Chat => ("message", json!({"role": "assistant", "content": text, "refusal": null})),
                Shape::Completion => ("text", json!(text)),
            };
            self.choice(index, content, Some(choice))
        });
        let mut body = self.object(object, all.collect());
        body["usage"] = usage.body();
        body["watermark"] = choices.first().map(|choice| choice.mark.body()).into();
        body
    }

    /// What comes before the first piece of a choice.
    pub(crate) fn first(&self, index: usize, echo: Option<&str>) -> Option<Value> {
        match (self.shape, echo) {
            (Shape::Chat, _) => Some(self.chunk(index, json!({"role": "assistant", "content": ""}), None)),
            (Shape::Completion, echo) => echo.map(|echo| self.piece(index, echo)),
        }
    }

    /// What comes next of a choice.
    pub(crate) fn piece(&self, index: usize, text: &str) -> Value {
        let delta = match self.shape {
            Shape::Chat => json!({"content": text}),
            Shape::Completion => json!(text),
        };
        self.chunk(index, delta, None)
    }

    /// The end of a choice: why it ended, what it says of its mark, and its logarithms of probabilities.
    pub(crate) fn last(&self, index: usize, choice: &Choice) -> Value {
        let delta = match self.shape {
            Shape::Chat => json!({}),
            Shape::Completion => json!(""),
        };
        self.chunk(index, delta, Some(choice))
    }

    /// The tokens of the request, after all choices.
    pub(crate) fn usage(&self, usage: Usage) -> Value {
        let mut body = self.object(self.chunk_object(), Vec::new());
        body["usage"] = usage.body();
        body
    }

    fn chunk_object(&self) -> &'static str {
        if self.shape == Shape::Chat { "chat.completion.chunk" } else { "text_completion" }
    }

    fn chunk(&self, index: usize, delta: Value, ended: Option<&Choice>) -> Value {
        let content = (if self.shape == Shape::Chat { "delta" } else { "text" }, delta);
        let mut body = self.object(self.chunk_object(), vec![self.choice(index, content, ended)]);
        if let Some(choice) = ended {
            body["watermark"] = choice.mark.body();
        }
        body
    }

    fn object(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices,
        })
    }

    fn choice(&self, index: usize, (name, content): (&str, Value), ended: Option<&Choice>) -> Value {
        let mut choice = json!({"index": index, "logprobs": null, "finish_reason": null});
        choice[name] = content;
        let Some(Choice { written, mark, .. }) = ended else { return choice };
        choice["finish_reason"] = finish_reason(written).into();
        choice["watermark"] = mark.body();
        if let Some(string) = &written.stop_string {
            choice["stop_reason"] = string.as_str().into();
        }
        if let Some(logprobs) = &written.logprobs {
            choice["logprobs"] = match self.shape {
                Shape::Chat => json!({"content": logprobs.iter().map(of_token).collect::<Vec<_>>(), "refusal": null}),
                Shape::Completion => of_tokens(logprobs),
            };
        }
        if self.return_token_ids {
            choice["token_ids"] = json!(written.tokens);
        }
        choice
    }
}

pub(crate) fn finish_reason(written: &Written) -> &'static str {
    match written.stop {
        Some(Stop::Length | Stop::Context) => "length",
        _ => "stop",
    }
}

fn number(logprob: f64) -> f64 {
    if logprob.is_finite() { logprob } else { IMPOSSIBLE }
}

fn of_one(logprob: &Logprob) -> Value {
    json!({"token": logprob.text, "logprob": number(logprob.logprob), "bytes": logprob.text.as_bytes()})
}

/// As chats have them.
fn of_token(logprobs: &TokenLogprobs) -> Value {
    let mut body = of_one(&logprobs.chosen);
    body["top_logprobs"] = logprobs.top.iter().map(of_one).collect();
    body
}

/// As completions have them: arrays side by side.
fn of_tokens(all: &[TokenLogprobs]) -> Value {
    let tops = all.iter().map(|token| -> Value {
        token.top.iter().map(|top| (top.text.clone(), Value::from(number(top.logprob)))).collect()
    });
    let offsets = all.iter().scan(0, |at, token| {
        let offset = *at;
        *at += token.chosen.text.chars().count();
        Some(offset)
    });
    json!({
        "tokens": all.iter().map(|token| token.chosen.text.as_str()).collect::<Vec<_>>(),
        "token_logprobs": all.iter().map(|token| number(token.chosen.logprob)).collect::<Vec<_>>(),
        "top_logprobs": tops.collect::<Vec<_>>(),
        "text_offset": offsets.collect::<Vec<_>>(),
    })
}
