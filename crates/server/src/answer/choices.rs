//! Answers of `/v1/chat/completions` and `/v1/completions`, with a choice for each text.

use serde_json::{Value, json};
use verdigris::text::calls::ParsedPart;

use crate::answer::{Call, Choice, Start, StreamEvent, Usage, Voice, logprobs, new_name};
use crate::input_marks::InputMark;
use crate::protocol::Refusal;
use crate::protocol::ask::Ask;

/// The protocol of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
}

/// The fields that all objects of one answer share, and the progress of its texts.
#[derive(Debug)]
pub(crate) struct Choices {
    shape: Shape,
    id: String,
    /// Seconds since 1970.
    created: i64,
    model: String,
    return_token_ids: bool,
    include_usage: bool,
    /// Whether a call is the field `function_call` of its message.
    is_function_call: bool,
    /// The number of calls begun so far, for each text.
    calls: Vec<usize>,
    /// The marks in the inputs, if they are looked for.
    input_marks: Option<Value>,
}

impl Choices {
    /// An answer to a request, with a new id.
    pub(crate) fn new(shape: Shape, model: &str, ask: &Ask) -> Self {
        let prefix = if shape == Shape::Chat { "chatcmpl" } else { "cmpl" };
        Self {
            shape,
            id: format!("{prefix}-{}", new_name::<24>()),
            created: jiff::Timestamp::now().as_second(),
            model: model.into(),
            return_token_ids: ask.return_token_ids,
            include_usage: ask.stream.is_some_and(|stream| stream.include_usage),
            is_function_call: ask.is_function_call,
            calls: vec![0; ask.texts()],
            input_marks: None,
        }
    }

    fn chunk(&self, number: usize, delta: Value, ended: Option<&Choice>) -> StreamEvent {
        let content = (if self.shape == Shape::Chat { "delta" } else { "text" }, delta);
        let mut body = self.object(self.chunk_object(), vec![self.choice(number, content, ended)]);
        if let Some(choice) = ended {
            body["watermark"] = json!(choice.mark);
            self.add_input_marks(&mut body);
        }
        data(&body)
    }

    fn add_input_marks(&self, body: &mut Value) {
        if let Some(marks) = &self.input_marks {
            body["input_marks"] = marks.clone();
        }
    }

    fn chunk_object(&self) -> &'static str {
        if self.shape == Shape::Chat { "chat.completion.chunk" } else { "text_completion" }
    }

    fn object(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices,
        })
    }

    fn choice(&self, number: usize, (name, content): (&str, Value), ended: Option<&Choice>) -> Value {
        let mut choice = json!({"index": number, "logprobs": null, "finish_reason": null});
        choice[name] = content;
        let Some(ended) = ended else { return choice };
        choice["finish_reason"] = match ended.finish_reason() {
            "tool_calls" if self.is_function_call => "function_call".into(),
            reason => reason.into(),
        };
        choice["watermark"] = json!(ended.mark);
        if let Some(string) = &ended.written.stop_string {
            choice["stop_reason"] = string.as_str().into();
        }
        if let Some(all) = ended.logprobs() {
            choice["logprobs"] = match self.shape {
                Shape::Chat => json!({"content": logprobs::objects(all), "refusal": null}),
                Shape::Completion => {
                    logprobs::columns(all, ended.echo.as_deref().map_or(0, |echo| echo.chars().count()))
                }
            };
        }
        if self.return_token_ids {
            choice["token_ids"] = json!(ended.tokens());
        }
        if let (Some(manifest), Some(choice)) = (&ended.manifest, choice.as_object_mut()) {
            manifest.add_to(choice);
        }
        choice
    }
}

impl Choices {
    /// The message of a choice. Its content is null if the model only called tools.
    fn message(&self, choice: &Choice) -> Value {
        let said = &choice.content;
        let content = Some(&said.text).filter(|text| said.calls.is_empty() || !text.is_empty());
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        // Some clients read one name, some the other.
        if let Some(thought) = &choice.written.reasoning {
            message["reasoning_content"] = thought.as_str().into();
            message["reasoning"] = thought.as_str().into();
        }
        let function = |call: &Call| json!({"name": call.name, "arguments": call.arguments});
        match &said.calls[..] {
            [] => (),
            [call, ..] if self.is_function_call => message["function_call"] = function(call),
            calls => {
                let call = |call: &Call| json!({"id": call.id, "type": "function", "function": function(call)});
                message["tool_calls"] = calls.iter().map(call).collect();
            }
        }
        message
    }
}

impl Voice for Choices {
    fn id(&self) -> &str {
        &self.id
    }

    fn set_input_marks(&mut self, marks: &[InputMark]) {
        self.input_marks = Some(json!(marks));
    }

    /// The mark's status is a field of each choice; that of the first is also a field of the answer.
    fn whole(&self, choices: &[Choice], usage: Usage) -> Value {
        let object = if self.shape == Shape::Chat { "chat.completion" } else { "text_completion" };
        let all = choices.iter().enumerate().map(|(number, choice)| {
            let content = match self.shape {
                Shape::Chat => ("message", self.message(choice)),
                Shape::Completion => {
                    let echo = choice.echo.as_deref().unwrap_or_default();
                    ("text", json!(format!("{echo}{}", choice.written.text)))
                }
            };
            self.choice(number, content, Some(choice))
        });
        let mut body = self.object(object, all.collect());
        body["usage"] = used(usage);
        body["watermark"] = json!(choices.first().map(|choice| &choice.mark));
        self.add_input_marks(&mut body);
        body
    }

    fn begin(&mut self, number: usize, start: Start<'_>, events: &mut Vec<StreamEvent>) {
        match (self.shape, start.echo) {
            (Shape::Chat, _) => events.push(self.chunk(number, json!({"role": "assistant", "content": ""}), None)),
            (Shape::Completion, Some(echo)) => events.push(self.chunk(number, json!(echo), None)),
            (Shape::Completion, None) => (),
        }
    }

    fn thought(&mut self, number: usize, piece: String, events: &mut Vec<StreamEvent>) {
        if self.shape == Shape::Chat {
            events.push(self.chunk(number, json!({"reasoning_content": piece, "reasoning": piece}), None));
        }
    }

    fn part(&mut self, number: usize, part: ParsedPart, events: &mut Vec<StreamEvent>) {
        let delta = match (self.shape, part) {
            (Shape::Chat, ParsedPart::Text(text)) => json!({"content": text}),
            (Shape::Completion, ParsedPart::Text(text)) => json!(text),
            (_, ParsedPart::Call(name)) if self.is_function_call => {
                json!({"function_call": {"name": name, "arguments": ""}})
            }
            (_, ParsedPart::Arguments(piece)) if self.is_function_call => {
                json!({"function_call": {"arguments": piece}})
            }
            (_, ParsedPart::Call(name)) => {
                let call = Call::begin(name);
                let index = self.calls[number];
                self.calls[number] += 1;
                json!({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": {
                    "name": call.name, "arguments": "",
                }}]})
            }
            (_, ParsedPart::Arguments(piece)) => {
                let index = self.calls[number].saturating_sub(1);
                json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            }
            (_, ParsedPart::CallEnd) => return,
        };
        events.push(self.chunk(number, delta, None));
    }

    /// Sends the finish reason, the mark's status and the log-probabilities.
    fn end(&mut self, number: usize, choice: &Choice, events: &mut Vec<StreamEvent>) {
        let delta = match self.shape {
            Shape::Chat => json!({}),
            Shape::Completion => json!(""),
        };
        events.push(self.chunk(number, delta, Some(choice)));
    }

    fn over(&mut self, usage: Usage, events: &mut Vec<StreamEvent>) {
        if self.include_usage {
            let mut body = self.object(self.chunk_object(), Vec::new());
            body["usage"] = used(usage);
            events.push(data(&body));
        }
        events.push(done());
    }

    fn failed(&mut self, refusal: &Refusal, events: &mut Vec<StreamEvent>) {
        events.extend([data(&refusal.body()), done()]);
    }
}

fn data(body: &Value) -> StreamEvent {
    StreamEvent { event: None, data: body.to_string() }
}

/// The event that ends a stream.
fn done() -> StreamEvent {
    StreamEvent { event: None, data: "[DONE]".into() }
}

fn used(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt, "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}
