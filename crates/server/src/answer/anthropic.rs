//! Answers of Anthropic's `/v1/messages`: blocks of text and calls, and the events of their stream.

use serde_json::{Map, Value, json};
use verdigris::text::calls::ParsedPart;

use crate::answer::extras::Extras;
use crate::answer::{Call, Choice, Framing, Start, StreamEvent, Usage, Voice, new_name};
use crate::input_marks::InputMark;
use crate::protocol::Refusal;
use crate::protocol::refusal::ErrorShape;

/// The event that keeps a silent stream alive.
fn ping() -> StreamEvent {
    StreamEvent { event: Some("ping"), data: r#"{"type":"ping"}"#.into() }
}

/// One answer, and the progress of its stream.
#[derive(Debug)]
pub(crate) struct AnthropicMessage {
    id: String,
    model: String,
    /// The number of complete blocks.
    blocks: usize,
    open: Option<OpenBlock>,
    extras: Extras,
    /// The end of the text, which the stream reports after all blocks.
    ended: Option<Value>,
}

/// The kind of block that is being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenBlock {
    Thought,
    Text,
    Call,
}

impl AnthropicMessage {
    /// An answer with a new id.
    pub(crate) fn new(model: &str, return_token_ids: bool) -> Self {
        Self {
            id: format!("msg_{}", new_name::<24>()),
            model: model.into(),
            blocks: 0,
            open: None,
            extras: Extras::new(return_token_ids),
            ended: None,
        }
    }

    /// The message without its end.
    fn body(&self, content: Vec<Value>, usage: Usage) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": used(usage),
        })
    }

    fn open(&mut self, kind: OpenBlock, block: Value, events: &mut Vec<StreamEvent>) {
        self.close(events);
        tell("content_block_start", json!({"index": self.blocks, "content_block": block}), events);
        self.open = Some(kind);
    }

    fn delta(&self, delta: Value, events: &mut Vec<StreamEvent>) {
        tell("content_block_delta", json!({"index": self.blocks, "delta": delta}), events);
    }

    fn close(&mut self, events: &mut Vec<StreamEvent>) {
        if let Some(open) = self.open.take() {
            if open == OpenBlock::Thought {
                // Clients expect one. It protects thoughts that a service has hidden, and here is none.
                self.delta(json!({"type": "signature_delta", "signature": ""}), events);
            }
            tell("content_block_stop", json!({"index": self.blocks}), events);
            self.blocks += 1;
        }
    }
}

impl Voice for AnthropicMessage {
    fn id(&self) -> &str {
        &self.id
    }

    fn framing(&self) -> Framing {
        Framing::Events { ping: Some(ping()) }
    }

    fn set_input_marks(&mut self, marks: &[InputMark]) {
        self.extras.set_input_marks(marks);
    }

    /// The mark's status is a field of the message, in a stream of its `message_delta`.
    fn whole(&self, choices: &[Choice], usage: Usage) -> Value {
        let Some(choice) = choices.first() else { return self.body(Vec::new(), usage) };
        let said = &choice.content;
        let mut content = Vec::new();
        if let Some(thought) = &choice.written.reasoning {
            content.push(json!({"type": "thinking", "thinking": thought, "signature": ""}));
        }
        if said.calls.is_empty() || !said.text.is_empty() {
            content.push(json!({"type": "text", "text": said.text}));
        }
        content.extend(said.calls.iter().map(|call| block(call, call.input())));
        let mut body = self.body(content, usage);
        if let (Value::Object(body), Value::Object(ending)) = (&mut body, ending(choice)) {
            body.extend(ending);
            body.extend(self.extras.of(choice));
        }
        body
    }

    fn begin(&mut self, _number: usize, start: Start<'_>, events: &mut Vec<StreamEvent>) {
        let message = self.body(Vec::new(), Usage { prompt: start.prompt_tokens, ..Usage::default() });
        tell("message_start", json!({"message": message}), events);
        events.push(ping());
    }

    fn thought(&mut self, _number: usize, piece: String, events: &mut Vec<StreamEvent>) {
        if self.open != Some(OpenBlock::Thought) {
            let block = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.open(OpenBlock::Thought, block, events);
        }
        self.delta(json!({"type": "thinking_delta", "thinking": piece}), events);
    }

    fn part(&mut self, _number: usize, part: ParsedPart, events: &mut Vec<StreamEvent>) {
        match part {
            ParsedPart::Text(text) => {
                if self.open != Some(OpenBlock::Text) {
                    self.open(OpenBlock::Text, json!({"type": "text", "text": ""}), events);
                }
                self.delta(json!({"type": "text_delta", "text": text}), events);
            }
            ParsedPart::Call(name) => self.open(OpenBlock::Call, block(&Call::begin(name), json!({})), events),
            ParsedPart::Arguments(piece) => {
                self.delta(json!({"type": "input_json_delta", "partial_json": piece}), events);
            }
            ParsedPart::CallEnd => self.close(events),
        }
    }

    fn end(&mut self, _number: usize, choice: &Choice, events: &mut Vec<StreamEvent>) {
        if self.open.is_none() && self.blocks == 0 || self.open == Some(OpenBlock::Thought) {
            // An empty text is a block too.
            self.open(OpenBlock::Text, json!({"type": "text", "text": ""}), events);
        }
        self.close(events);
        let mut ended = json!({"delta": ending(choice)});
        if let Value::Object(ended) = &mut ended {
            ended.extend(self.extras.of(choice));
        }
        self.ended = Some(ended);
    }

    fn over(&mut self, usage: Usage, events: &mut Vec<StreamEvent>) {
        let mut delta = self.ended.take().unwrap_or_else(|| json!({"delta": {}}));
        delta["usage"] = used(usage);
        tell("message_delta", delta, events);
        tell("message_stop", json!({}), events);
    }

    fn failed(&mut self, refusal: &Refusal, events: &mut Vec<StreamEvent>) {
        let body = refusal.body_in(ErrorShape::Anthropic);
        events.push(StreamEvent { event: Some("error"), data: body.to_string() });
    }
}

/// Sends an event, whose data begins with its type.
fn tell(event: &'static str, data: Value, events: &mut Vec<StreamEvent>) {
    let mut all = Map::from_iter([("type".to_owned(), Value::from(event))]);
    if let Value::Object(data) = data {
        all.extend(data);
    }
    events.push(StreamEvent { event: Some(event), data: Value::Object(all).to_string() });
}

/// A block of a call with this input.
fn block(call: &Call, input: Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// The reason why the text ended.
fn ending(choice: &Choice) -> Value {
    let stop_string = choice.written.stop_string.as_deref();
    let reason = match (choice.finish_reason(), stop_string) {
        ("length", _) => "max_tokens",
        ("tool_calls", _) => "tool_use",
        (_, Some(_)) => "stop_sequence",
        _ => "end_turn",
    };
    json!({"stop_reason": reason, "stop_sequence": stop_string.filter(|_| reason == "stop_sequence")})
}

fn used(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt, "output_tokens": usage.completion, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    })
}
